"""Numbers of Barkan et al. 2024, LLM Explainability via Attributive Masking Learning (EMNLP Findings), as printed.

Tables 1 and 2 are one table per data set: a row per explainer, and per explained model the five metrics in the order of
``METRICS``. "paml" is the pretrained attribution model, "faml" the one that is fine-tuned for each text; the others are
called as they are registered here.
"""

from __future__ import annotations

from collections.abc import Mapping

REFERENCE = "Barkan et al. 2024"

METRICS: Mapping[str, str] = {
    "suff": "Suff ↓",
    "lo": "LO ↓",
    "comp": "Comp ↑",
    "aopc_suff": "A-S ↓",
    "aopc_comp": "A-C ↑",
}
"""Metric as records call it -> the head of its column."""

MODELS: Mapping[int, tuple[str, ...]] = {1: ("RoBERTa", "DistilBERT", "BERT"), 2: ("Llama 2", "Mistral")}
"""Table -> the explained models, in the printed order."""

EXPLAINERS: Mapping[str, str] = {
    "fAML": "faml",
    "pAML": "paml",
    "SIG": "sequential_integrated_gradients",
    "ALTI": "alti",
    "DCMP": "decompx",
    "SLVX": "solvex",
    "LIFT": "deeplift",
    "GLOB": "globenc",
    "SHAP": "gradient_shap",
    "GXI": "gradient_x_input",
    "IG": "integrated_gradients",
    "LIME": "lime",
    "LLM": "self_ranking",
}
"""Name in the tables -> name here."""

Printed = Mapping[str, Mapping[str, Mapping[str, tuple[float, ...]]]]
"""Data set -> explainer -> metric -> a number per explained model."""


def _table(number: int, text: str) -> Printed:
    """Lines such as ``sst2 LIME 0.1 -0.2 ...``, the metrics of the first model first."""
    table: dict[str, dict[str, dict[str, tuple[float, ...]]]] = {}
    for line in text.split("\n"):
        data, explainer, *rest = line.split()
        numbers, step = [float(word) for word in rest], len(METRICS)
        if len(numbers) != step * len(MODELS[number]):
            raise ValueError(f"table {number} has {len(numbers)} numbers in the line of {data}, {explainer}")
        table.setdefault(data, {})[EXPLAINERS[explainer]] = {
            metric: tuple(numbers[place::step]) for place, metric in enumerate(METRICS)
        }
    return table


FAITHFULNESS: Mapping[int, Printed] = {
    1: _table(
        1,
        """\
sst2 fAML 0.006 -2.033 0.576 0.012 0.273 0.001 -2.156 0.638 0.022 0.316 -0.010 -1.994 0.467 0.021 0.286
sst2 pAML 0.236 -0.614 0.235 0.097 0.100 0.131 -0.720 0.350 0.101 0.169 0.131 -0.663 0.240 0.095 0.140
sst2 SIG 0.097 -1.340 0.381 0.066 0.205 0.064 -1.920 0.453 0.051 0.242 0.083 -1.133 0.378 0.063 0.208
sst2 ALTI 0.116 -1.043 0.305 0.070 0.166 0.059 -1.407 0.368 0.047 0.205 0.093 -0.816 0.320 0.064 0.175
sst2 DCMP 0.086 -1.366 0.393 0.057 0.216 0.359 -0.321 0.089 0.201 0.063 0.037 -1.450 0.467 0.030 0.253
sst2 SLVX 0.128 -0.401 0.137 0.075 0.097 0.067 -2.931 0.595 0.059 0.322 0.125 -1.831 0.517 0.098 0.282
sst2 LIFT 0.331 -0.300 0.098 0.189 0.060 0.234 -0.605 0.162 0.140 0.098 0.289 -0.314 0.118 0.168 0.071
sst2 GLOB 0.227 -0.489 0.166 0.136 0.100 0.357 -0.262 0.073 0.199 0.060 0.233 -0.388 0.153 0.140 0.104
sst2 SHAP 0.227 -0.788 0.226 0.135 0.131 0.207 -1.264 0.291 0.122 0.167 0.250 -0.534 0.191 0.145 0.111
sst2 GXI 0.359 -0.245 0.077 0.200 0.049 0.305 -0.415 0.111 0.179 0.066 0.237 -0.401 0.153 0.140 0.094
sst2 IG 0.116 -1.249 0.360 0.073 0.200 0.100 -1.823 0.415 0.065 0.229 0.110 -0.936 0.334 0.075 0.187
sst2 LIME 0.050 -1.180 0.356 0.035 0.194 0.150 -1.281 0.298 0.104 0.162 0.134 -0.713 0.273 0.093 0.149
rotten_tomatoes fAML -0.013 -1.536 0.516 0.023 0.292 -0.017 -0.653 0.477 0.032 0.212 -0.002 -2.767 0.656 0.017 0.295
rotten_tomatoes pAML 0.126 -0.621 0.271 0.079 0.168 0.052 -0.501 0.296 0.071 0.124 0.181 -1.007 0.328 0.104 0.127
rotten_tomatoes SIG 0.114 -0.752 0.324 0.088 0.178 0.087 -0.520 0.316 0.065 0.169 0.157 -1.524 0.353 0.109 0.190
rotten_tomatoes ALTI 0.146 -0.489 0.228 0.103 0.131 0.119 -0.428 0.206 0.084 0.117 0.111 -1.266 0.334 0.079 0.193
rotten_tomatoes DCMP 0.072 -0.695 0.314 0.062 0.181 0.294 -0.291 0.068 0.169 0.045 0.045 -2.058 0.471 0.042 0.263
rotten_tomatoes SLVX 0.170 -0.233 0.114 0.112 0.078 -0.003 -0.620 0.466 0.032 0.256 0.153 -2.598 0.514 0.122 0.292
rotten_tomatoes LIFT 0.374 -0.142 0.059 0.209 0.040 0.232 -0.322 0.095 0.145 0.060 0.310 -0.523 0.155 0.183 0.092
rotten_tomatoes GLOB 0.229 -0.277 0.139 0.138 0.088 0.309 -0.273 0.046 0.174 0.035 0.269 -0.589 0.179 0.170 0.112
rotten_tomatoes SHAP 0.218 -0.418 0.188 0.139 0.111 0.171 -0.431 0.213 0.105 0.123 0.310 -0.744 0.181 0.185 0.111
rotten_tomatoes GXI 0.384 -0.096 0.051 0.215 0.034 0.290 -0.283 0.060 0.172 0.037 0.265 -0.652 0.173 0.163 0.102
rotten_tomatoes IG 0.121 -0.700 0.316 0.092 0.177 0.095 -0.523 0.322 0.068 0.173 0.183 -1.117 0.278 0.123 0.169
rotten_tomatoes LIME 0.117 -0.471 0.242 0.086 0.137 0.099 -0.469 0.269 0.072 0.145 0.186 -1.023 0.261 0.124 0.146
imdb fAML -0.017 -2.914 0.787 0.018 0.422 -0.029 -2.549 0.699 -0.004 0.443 -0.006 -4.823 0.808 0.009 0.418
imdb pAML 0.057 -1.647 0.518 0.078 0.305 0.016 -1.659 0.526 0.051 0.344 0.029 -3.274 0.611 0.076 0.256
imdb SIG -0.002 -1.303 0.383 0.060 0.238 -0.004 -2.041 0.570 0.039 0.356 0.058 -2.590 0.380 0.101 0.251
imdb ALTI 0.023 -0.604 0.246 0.068 0.156 0.029 -0.682 0.354 0.046 0.214 0.040 -1.252 0.373 0.051 0.234
imdb DCMP -0.016 -1.699 0.544 0.032 0.322 0.296 -0.125 0.062 0.268 0.047 -0.005 -3.739 0.706 0.016 0.412
imdb LIFT 0.212 -0.116 0.054 0.223 0.038 0.100 -0.268 0.110 0.129 0.078 0.182 -0.330 0.085 0.191 0.060
imdb GLOB 0.071 -0.268 0.128 0.125 0.089 0.239 -0.093 0.040 0.248 0.038 0.160 -0.382 0.140 0.183 0.109
imdb SHAP 0.137 -0.565 0.189 0.160 0.120 0.132 -0.839 0.277 0.135 0.175 0.191 -0.887 0.167 0.198 0.111
imdb GXI 0.262 -0.094 0.037 0.252 0.028 0.158 -0.149 0.067 0.173 0.049 0.138 -0.388 0.095 0.171 0.068
imdb IG 0.037 -1.354 0.438 0.070 0.262 0.029 -1.649 0.550 0.049 0.330 0.083 -1.843 0.335 0.098 0.204
imdb LIME 0.121 -0.102 0.044 0.165 0.029 0.132 -0.153 0.076 0.168 0.053 0.149 -0.224 0.069 0.198 0.045
emotion fAML 0.111 -4.832 0.738 0.097 0.411 0.005 -2.557 0.707 0.022 0.385 0.000 -3.990 0.779 0.014 0.411
emotion pAML 0.198 -3.872 0.595 0.141 0.324 0.069 -1.869 0.572 0.048 0.309 0.084 -2.644 0.626 0.045 0.330
emotion SIG 0.347 -2.006 0.438 0.214 0.239 0.147 -1.398 0.494 0.091 0.269 0.190 -2.063 0.512 0.116 0.279
emotion ALTI 0.172 -3.144 0.608 0.129 0.338 0.051 -1.635 0.562 0.036 0.307 0.044 -2.592 0.631 0.030 0.350
emotion DCMP 0.172 -3.326 0.622 0.129 0.337 0.537 -0.370 0.118 0.278 0.082 0.060 -2.763 0.625 0.044 0.346
emotion SLVX 0.322 -2.638 0.380 0.199 0.220 0.048 -2.392 0.664 0.037 0.361 0.101 -3.860 0.697 0.087 0.383
emotion LIFT 0.514 -2.020 0.332 0.282 0.183 0.362 -0.891 0.287 0.198 0.157 0.380 -1.422 0.311 0.207 0.174
emotion GLOB 0.211 -3.106 0.581 0.146 0.322 0.543 -0.369 0.120 0.278 0.084 0.094 -2.423 0.583 0.061 0.322
emotion SHAP 0.525 -1.293 0.254 0.288 0.151 0.307 -1.024 0.337 0.169 0.186 0.426 -1.157 0.278 0.228 0.167
emotion GXI 0.541 -1.510 0.258 0.294 0.147 0.415 -0.754 0.237 0.233 0.127 0.354 -1.472 0.330 0.197 0.187
emotion IG 0.328 -1.917 0.431 0.205 0.237 0.139 -1.396 0.498 0.086 0.269 0.190 -2.106 0.523 0.113 0.285
emotion LIME 0.198 -3.814 0.647 0.143 0.351 0.059 -1.911 0.593 0.041 0.320 0.104 -2.897 0.586 0.065 0.322""",
    ),
    2: _table(
        2,
        """\
sst2 fAML 0.019 -0.223 0.135 0.046 0.069 0.121 -0.325 0.228 0.086 0.120
sst2 pAML 0.093 -0.137 0.091 0.077 0.053 0.254 -0.155 0.122 0.127 0.091
sst2 SIG 0.157 -0.098 0.065 0.090 0.041 0.281 -0.256 0.176 0.160 0.100
sst2 LIFT 0.159 -0.056 0.033 0.093 0.023 0.319 -0.139 0.100 0.184 0.067
sst2 SHAP 0.152 -0.072 0.048 0.088 0.032 0.308 -0.125 0.090 0.177 0.061
sst2 GXI 0.159 -0.054 0.033 0.092 0.023 0.319 -0.142 0.102 0.184 0.067
sst2 LLM 0.119 -0.101 0.069 0.069 0.042 0.257 -0.115 0.082 0.151 0.062
rotten_tomatoes fAML 0.033 -0.357 0.152 0.034 0.097 0.131 -0.432 0.275 0.120 0.143
rotten_tomatoes pAML 0.156 -0.168 0.076 0.093 0.052 0.272 -0.225 0.131 0.188 0.087
rotten_tomatoes SIG 0.219 -0.146 0.088 0.126 0.054 0.312 -0.323 0.215 0.184 0.121
rotten_tomatoes LIFT 0.211 -0.115 0.068 0.124 0.040 0.375 -0.156 0.103 0.220 0.077
rotten_tomatoes SHAP 0.216 -0.103 0.059 0.124 0.043 0.365 -0.140 0.097 0.213 0.068
rotten_tomatoes GXI 0.212 -0.114 0.066 0.125 0.040 0.375 -0.161 0.105 0.220 0.077
rotten_tomatoes LLM 0.172 -0.152 0.091 0.104 0.056 0.323 -0.129 0.083 0.191 0.065
imdb fAML 0.001 -0.518 0.203 0.078 0.125 0.026 -0.402 0.284 0.078 0.136
imdb pAML 0.108 -0.343 0.134 0.170 0.092 0.101 -0.252 0.185 0.137 0.099
imdb LIFT 0.238 -0.288 0.138 0.202 0.088 0.284 -0.185 0.075 0.233 0.056
imdb SHAP 0.217 -0.289 0.116 0.191 0.073 0.263 -0.153 0.053 0.221 0.041
imdb GXI 0.237 -0.288 0.137 0.202 0.088 0.283 -0.186 0.076 0.233 0.056
imdb LLM 0.179 -0.306 0.081 0.168 0.045 0.250 -0.133 0.048 0.210 0.039
emotion fAML 0.218 -2.981 0.745 0.168 0.398 0.263 -3.740 0.614 0.155 0.332
emotion pAML 0.284 -2.214 0.608 0.194 0.336 0.545 -1.848 0.334 0.274 0.191
emotion SIG 0.469 -1.879 0.584 0.272 0.302 0.273 -2.572 0.620 0.174 0.336
emotion LIFT 0.661 -1.563 0.456 0.370 0.252 0.629 -1.697 0.367 0.344 0.204
emotion SHAP 0.632 -1.316 0.386 0.344 0.216 0.451 -2.001 0.452 0.255 0.251
emotion GXI 0.663 -1.566 0.457 0.369 0.252 0.629 -1.683 0.367 0.344 0.205
emotion LLM 0.701 -0.773 0.204 0.364 0.124 0.561 -1.306 0.303 0.281 0.185""",
    ),
}
"""Tables 1 (encoders) and 2 (decoders)."""

HUMAN: Mapping[str, tuple[float, float]] = {
    "faml": (0.118, 0.096),
    "paml": (0.110, 0.092),
    "decompx": (0.102, 0.088),
    "sequential_integrated_gradients": (0.094, 0.082),
}
"""Table 3: macro and micro F1 of the top 25 tokens against the rationales of film reviews; BERT, trained for A-C."""

ABLATION: Mapping[str, tuple[float, float]] = {
    "faml": (0.01, 0.71),
    "paml": (0.07, 0.57),
    "faml without preserve": (0.02, 0.71),
    "paml without preserve": (0.09, 0.59),
    "faml without destroy": (0.01, 0.67),
    "paml without destroy": (0.06, 0.55),
}
"""Table 4: Suff and Comp without a term of the loss; DistilBERT on Emotion."""

RUNTIME: Mapping[str, tuple[str, str]] = {
    "faml": ("1.5 s", "1.6 s"),
    "paml": ("0.01 s", "0.01 s"),
    "sequential_integrated_gradients": ("6.5 s", "about 1.4 min"),
    "decompx": ("0.14 s", "1.6 s"),
    "solvex, beam 10": ("1.2 s", "about 35 min"),
    "solvex, beam 50": ("3.0 s", "about 1 h"),
    "solvex, beam 100": ("4.3 s", "about 1.5 h"),
}
"""Table 5: time per text, RoBERTa on SST-2 (14 words on average) and IMDB (226 words)."""
