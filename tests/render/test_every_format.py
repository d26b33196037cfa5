"""What holds for all outputs: nothing is hidden, nothing breaks."""

import html
import re
from collections.abc import Callable, Sequence

import pytest

from didact.errors import InputError
from didact.render.formats import FORMATS, render
from didact.render.html import fragment, page
from didact.render.latex import latex
from didact.render.terminal import terminal_svg, terminal_text
from didact.types import Cost, Explanation, Prediction, Target
from tests.render.conftest import NASTY, VALUE, Make

Output = Callable[[Sequence[Explanation]], str]


def seen(output: str) -> str:
    """What a reader sees of an output: markup taken away, spaces made equal."""
    if "\\begingroup" in output:
        output = output.replace("\\allowbreak{}", "").replace("\\newline{}", " ").replace("$", "")
        output = re.sub(r"\\textbf\{([^{}]*)\}", r"\1", output)
        output = re.sub(r"\\textquotesingle\{\}", "'", output)
        output = re.sub(r"\\([_%&#{}])", r"\1", output)
    elif "<" in output:
        output = re.sub(r"<style>.*?</style>|<script.*?</script>", "", output, flags=re.DOTALL)
        output = html.unescape(re.sub(r"<[^>]*>", " " if output.startswith("<svg") else "", output))
    else:
        output = re.sub(r"\x1b\[[\d;]*m", "", output)
    return re.sub(r"\s+", " ", output.replace("−", "-"))


OUTPUTS: dict[str, Output] = {
    "terminal": lambda given: terminal_text(given, width=160),
    "plain": lambda given: terminal_text(given, width=160, colour=False),
    "svg": lambda given: terminal_svg(given, title="didact", width=160),
    "fragment": fragment,
    "page": lambda given: page(given, title="Title"),
    "latex": latex,
}


@pytest.fixture(params=OUTPUTS)
def output(request: pytest.FixtureRequest) -> Output:
    return OUTPUTS[request.param]


def test_tells_prediction_target_settings_cost_and_model(make: Make, output: Output) -> None:
    shown = seen(output([make(label="gold one")]))
    for fact in ("positive", "98.7 %", "logit 2.2", "gold one", "tiny-classifier", "hash=abc123", "gradient_x_input"):
        assert fact in shown
    for setting in ("steps=50", "baseline=mask", "seed=none", "rate=1e-05", "fast=true", "base_value=-0.25"):
        assert setting in shown
    assert "51 forwards (49 run), 50 backwards, 421 ms" in shown


def test_warns_of_truncation_and_only_then(make: Make, output: Output) -> None:
    warning = "12 % of the text was cut off by the model's length limit"
    assert warning in seen(output([make(truncated=0.12)]))
    assert "cut off" not in seen(output([make()]))


def test_warns_in_the_row_where_only_one_method_was_cut(make: Make, output: Output) -> None:
    both = [make(), make(method="occlusion", truncated=0.12)]
    assert seen(output(both)).count("12 % of the text was cut off") == 1


def test_says_that_the_target_is_not_the_predicted_class(make: Make, output: Output) -> None:
    shown = seen(output([make(target=Target(0, "negative", "log_probability"))]))
    assert "negative, log-probability -4.343, not the predicted class (1.3 %)" in shown
    assert "opposes negative" in shown


def test_shows_a_regression_as_a_value(make: Make, output: Output) -> None:
    shown = seen(output([make(prediction=VALUE)]))
    assert "stars 3.412" in shown
    assert "raises stars" in shown
    assert "lowers stars" in shown
    assert not re.search(r"\d %", shown.replace("0 % of the largest", ""))


def test_unsigned_methods_have_no_against(make: Make, output: Output) -> None:
    shown = seen(output([make(signed=False, scores=[0.1, 0.2, 0.3, 0.4, 0.5, 0.0])]))
    assert "importance for positive" in shown
    assert "against" not in shown
    assert "+0.500" not in shown


def test_labels_both_fields_of_a_pair(make: Make, output: Output) -> None:
    shown = seen(output([make("A man sleeps.", pair="Nobody wakes.", scores=[0.0] * 7)]))
    assert re.search(r"text\W*A man sleeps\W+(newline\W+|footnotesize )*pair\W*Nobody wakes", shown)


def test_compares_methods_with_one_legend_and_all_settings(make: Make, output: Output) -> None:
    second = make(method="kernel_shap", parameters={"evaluations": 2048}, signed=False, scores=[1, 2, 3, 4, 5, 6])
    shown = seen(output([make(), second]))
    for fact in ("gradient_x_input", "kernel_shap", "steps=50", "evaluations=2048"):
        assert fact in shown
    assert shown.count("supports positive") == 1
    assert shown.count("importance for positive") == 1
    assert shown.count("98.7 %") == 1
    assert "each row is scaled to its own largest score" in shown


def test_shows_standard_errors_where_there_are(make: Make, output: Output) -> None:
    estimated = make("good bad", scores=[0.412, -0.1], errors=(0.0213, 0.0))
    shown = seen(output([estimated])).replace("\\pm", "±")
    assert "+0.412 ± 0.021" in shown
    assert "-0.100 ± 0.000" in shown
    assert shown.count("± is one standard error") == 1
    together = seen(output([estimated, make("good bad", scores=[1.0, 2.0])])).replace("\\pm", "±")
    assert "+0.412 ± 0.021" in together
    assert not re.search(r"2\.00 ±", together)
    assert "±" not in seen(output([make("good bad", scores=[0.412, -0.1])])).replace("\\pm", "±")


def test_compares_targets(make: Make, output: Output) -> None:
    shown = seen(output([make(), make(target=Target(0, "negative"))]))
    assert "positive, logit 2.2" in shown
    assert "negative, logit -2.1" in shown
    assert "supports the target" in shown or "supports negative" in shown  # in a tab of its own


def test_keeps_examples_apart(make: Make, output: Output) -> None:
    shown = seen(output([make(), make("Another text.")]))
    assert shown.count("supports positive") == 2


def test_keeps_models_apart(make: Make, output: Output) -> None:
    other = Prediction(("negative", "positive"), (0.0, 1.0), (0.25, 0.75))
    shown = seen(output([make(), make(prediction=other)]))
    assert "98.7 %" in shown
    assert "75.0 %" in shown


def test_says_when_all_scores_are_zero(make: Make, output: Output) -> None:
    shown = seen(output([make(scores=[0.0] * 6)]))
    assert "all scores are zero" in shown
    assert "nan" not in shown


def test_copes_with_no_units(make: Make, output: Output) -> None:
    assert "nothing was scored" in seen(output([make("...", spans=[], scores=())]))


@pytest.mark.parametrize("kind", NASTY)
def test_copes_with_any_text_and_can_be_written(make: Make, output: Output, kind: str) -> None:
    text = NASTY[kind]
    shown = output([make(text, method=text, label=text, parameters={"a": text}, model={"name": text})])
    shown.encode("utf-8")
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]", shown)
    assert "\x1b[31m" not in shown


def test_refuses_an_empty_list(output: Output) -> None:
    with pytest.raises(InputError, match="at least one"):
        output([])


@pytest.mark.parametrize("form", FORMATS)
def test_formats_by_name(make: Make, form: str) -> None:
    assert "gradient" in render([make()], form)
    assert render([make()], form) == render([make()], form.upper())
    with pytest.raises(InputError, match="at least one"):
        render([], form)


def test_unknown_format_lists_the_known() -> None:
    with pytest.raises(InputError, match=r"'pdf'; allowed are json, html, tex, svg, txt"):
        render([], "pdf")


def test_unmeasured_cost_is_left_out(make: Make, output: Output) -> None:
    assert "1 forward, 0 backwards" in seen(output([make(cost=Cost(1))]))
