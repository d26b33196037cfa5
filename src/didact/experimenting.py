"""What may need metrics, in one call: train explainers, grade them by metrics or by teaching, refine explanations."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from didact.api import _model, _progress
from didact.disk import safe_name
from didact.errors import ParameterError
from didact.models.load import DEFAULT
from didact.protocols import ExampleLike, Explainer
from didact.settings import checked
from didact.types import Explanation

if TYPE_CHECKING:
    from didact.experiments.grading.evaluation import Evaluation
    from didact.experiments.simulability.result import SimulabilityResult
    from didact.trained.attached import AttachedModel, Replayed
    from didact.trained.drawn import DrawnExplainer
    from didact.trained.explainer import LearnedExplainer
    from didact.trained.refine import RefinedExplainer


@checked
def train(  # noqa: PLR0913 - one call, and every argument but the first two has a default
    preset: str,
    data: object,
    model: object = DEFAULT,
    reference: str | Explainer | Sequence[str | Explainer] | None = None,
    *,
    metric: str | None = None,
    trials: int = 0,
    out: str | Path | None = None,
    progress: bool = True,
    **settings: object,
) -> LearnedExplainer:
    """Train an explainer that explains in one pass.

    Args:
        preset: what to train: "l2e", a small network that learns a slow explainer's scores; "probe", a head on the
            model's hidden states that learns Shapley values; "aml", an encoder that learns which words a prediction
            rests on; or "smat", the mix of the model's attention heads from which students learn fastest.
        data: anything ``didact.data.load.load_data`` takes: a file, "corpus", a list of texts, its own result; or
            explanations that exist already.
        model: anything ``load_model`` takes.
        reference: for presets that learn another explainer's scores: a method, an explainer, or several; the preset's
            own choice when not given.
        metric: for presets that are trained for a metric ("aml"): a registered name, or one of AML's five ("suff",
            "lo", "comp", "aopc_suff", "aopc_comp"). The epoch that it rates best on validation texts is kept.
        trials: search the weights of the loss by the metric, in so many trials (30 as published; needs the extra
            ``search``); 0 leaves them as they are set.
        out: where the explainer is saved. Labels, checkpoints and trials are stored there too: after a kill the same
            call resumes where it stopped.
        progress: show a bar on work over two seconds, and at the end how good the result is.
        **settings: of the preset; see its class in ``didact.trained.presets``.

    Example:
        >>> import didact
        >>> explainer = didact.train("l2e", "corpus", reference="occlusion", out="runs/l2e")  # doctest: +SKIP
        >>> explainer = didact.train("aml", "corpus", metric="comprehensiveness", out="runs/aml")  # doctest: +SKIP
        >>> didact.show(didact.explain("A warm and funny film.", method=explainer))  # doctest: +SKIP
    """
    from didact.data.load import load_data
    from didact.experiments.masking.judges import judge, panel
    from didact.experiments.masking.tuning import TuningConfig, TuningTask, tune
    from didact.trained import train as trainer

    examples: Sequence[ExampleLike] | Sequence[Explanation]
    if isinstance(data, list) and data and all(isinstance(each, Explanation) for each in data):
        examples, name = data, f"{len(data)} labels"
    else:
        dataset = load_data(data)
        examples, name = dataset.examples, trainer.described(dataset)
    chosen = None if metric is None else judge(metric)
    if trials and chosen is None:
        raise ParameterError(f"trials={trials} search weights by a metric, and none is given; name one with metric=")
    adapter = _model(model)
    with _progress(progress):
        if trials and chosen is not None:
            task = TuningTask.of(preset, settings, adapter, chosen, examples)
            with tempfile.TemporaryDirectory() as scratch:
                place = Path(scratch if out is None else out) / "search"
                settings |= tune(task, TuningConfig(trials=trials), place).best.settings
        explainer = trainer.train(
            preset,
            adapter,
            examples,
            reference,
            folder=out,
            data=name,
            judge=chosen,
            panel=panel(),
            **settings,  # type: ignore[arg-type] # checked by the preset
        )
    if out is not None:
        explainer.save_pretrained(out)
    if progress and explainer.verdict:
        sys.stderr.write(f"{explainer.verdict}\n")
    return explainer


@checked
def evaluate(  # noqa: PLR0913 - one call, and every argument but the first has a default
    data: object,
    model: object = DEFAULT,
    methods: Sequence[str | Mapping[str, object]] | Mapping[str, Explainer] | str = "default",
    metrics: Sequence[str | Mapping[str, object]] | str = "default",
    *,
    split: str | None = None,
    limit: int | None = None,
    minutes: float | None = 5.0,
    seeds: Sequence[int] = (0,),
    out: str | Path = "runs/evaluation",
    overwrite: bool = False,
    progress: bool = True,
) -> Evaluation:
    """Grade explainers on a model and data; an earlier run in the same folder is resumed.

    Random and trivial explanations are graded beside the others, and so are copies with shuffled scores: a metric that
    does not separate them from real explanations is not used for the verdict.

    Args:
        data: anything ``didact.data.load.load_data`` takes: a file, a preset, a Hub id, a list of texts.
        model: anything ``load_model`` takes.
        methods: names, tables with "method", "label" and settings, or explainers by label; "default" for a few of each
            family, "all" for every method that model and data allow.
        metrics: names, tables with "metric", "label" and settings, "default" or "all".
        split: of the data.
        limit: maximum number of examples.
        minutes: time budget. The cost is estimated first, by evaluating a few texts, and printed; where all texts would
            take longer, as many are evaluated as fit. None for no limit.
        seeds: seeded methods are run with each.
        out: folder of the run.
        overwrite: replace the results of a call with other arguments in the same folder; otherwise it is refused.
        progress: print the estimated cost, and show a bar on work over two seconds.

    Example:
        >>> import didact
        >>> result = didact.evaluate("corpus", methods=["lime", "occlusion"], limit=20)  # doctest: +SKIP
        >>> print(result.answers[0])  # doctest: +SKIP
    """
    from didact.data.load import load_data
    from didact.experiments.engine.run import run_job
    from didact.experiments.engine.steps import RunOptions
    from didact.experiments.grading.budget import plan
    from didact.experiments.grading.evaluation import Evaluation
    from didact.experiments.grading.job import GradingJob
    from didact.experiments.grading.prepare import prepare
    from didact.experiments.grading.recipe import GradingRecipe

    adapter = _model(model)
    dataset = load_data(data, split=split, limit=limit)
    recipe: dict[str, object] = {
        "name": safe_name(Path(out).name, "evaluation"),
        "seeds": list(seeds),
        "metrics": metrics,
    }
    made = methods if isinstance(methods, Mapping) else None
    if made is None:
        recipe["explainers"] = methods if isinstance(methods, str) else list(methods)
    recipe |= {"model": {"source": adapter.name}, "data": {"source": dataset.name, "split": dataset.split}}
    with _progress(progress):
        prepared = prepare(GradingRecipe.from_dict(recipe, "evaluate"), model=adapter, data=dataset, explainers=made)
        planned = plan(prepared, minutes, Path(out), lambda texts: load_data(dataset, limit=texts))
        if progress:
            sys.stderr.write("\n".join([*planned.sentences, ""]))
        job = GradingJob(planned.experiment, RunOptions(Path(out), command="didact.evaluate", overwrite=overwrite))
        evaluation = Evaluation(run_job(job).folder)
    evaluation.report()
    return evaluation


@checked
def simulate(  # noqa: PLR0913 - one call, and every argument but the first has a default
    data: object,
    model: object = DEFAULT,
    explainers: Sequence[str] | Mapping[str, Explainer] = ("occlusion", "gradient_x_input", "attention"),
    students: Sequence[str | Mapping[str, object]] = (),
    channels: Sequence[str | Mapping[str, object]] = (),
    *,
    test: object = None,
    sizes: Sequence[int] = (100,),
    subsets: int = 5,
    share: float = 0.1,
    controls: bool = True,
    precision: float | None = None,
    seed: int = 0,
    out: str | Path = "runs/simulation",
    overwrite: bool = False,
    progress: bool = True,
) -> SimulabilityResult:
    """Grade explainers by simulability: how much better do students imitate the model when trained with explanations?

    Students see explanations only in training. Each kind is trained without them, with those of every explainer, and
    with controls that explain nothing, on the same texts. An earlier run in the same folder is resumed.

    Args:
        data: training texts of the students: anything ``didact.data.load.load_data`` takes.
        model: the teacher: anything ``load_model`` takes.
        explainers: names, or explainers by label.
        students: names, or tables with "student", "label" and settings; see ``didact list students``. Two cheap kinds
            when not given: ridge and a small bilstm_attention.
        channels: how explanations enter training, likewise, with a "weight"; all that fit when not given.
        test: test texts; held out from ``data`` when not given.
        sizes: numbers of training texts per student.
        subsets: students per kind and size, each with its own training texts; per round where ``precision`` is given.
        share: fraction of the words that a hint marks.
        controls: whether to train with random, trivial, label-leak and shuffled hints too.
        precision: add students until the 95 % interval of every gain is ± ``precision`` or narrower.
        seed: of texts, students and controls.
        out: folder of the run.
        overwrite: replace the results of a call with other arguments in the same folder; otherwise it is refused.
        progress: show a bar on work over two seconds.

    Example:
        >>> import didact
        >>> result = didact.simulate("corpus", explainers=["lime", "attention"], students=["ridge"])  # doctest: +SKIP
        >>> print(result.answers[0])  # doctest: +SKIP
    """
    from didact.data.load import load_data
    from didact.experiments.engine.run import run_job
    from didact.experiments.engine.steps import RunOptions
    from didact.experiments.simulability.job import SimulabilityJob
    from didact.experiments.simulability.prepare import prepare
    from didact.experiments.simulability.recipe import SimulabilityRecipe
    from didact.experiments.simulability.result import SimulabilityResult

    adapter = _model(model)
    recipe: dict[str, object] = {
        "name": safe_name(Path(out).name, "simulation"),
        "model": {"source": adapter.name},
        **({"students": list(students)} if students else {}),
        "channels": list(channels),
        "hints": [{"share": share}],
        "sizes": list(sizes),
        "subsets": subsets,
        "precision": precision,
        "seed": seed,
    }
    made = explainers if isinstance(explainers, Mapping) else None
    if made is None:
        recipe["explainers"] = list(explainers)
    if not controls:
        recipe["controls"] = []
    if isinstance(data, str):
        recipe["data"] = {"source": data}
    taught = None if isinstance(data, str) else load_data(data)
    tested = None if test is None else load_data(test)
    with _progress(progress):
        plan = SimulabilityRecipe.from_dict(recipe, "simulate")
        experiment = prepare(plan, model=adapter, explainers=made, data=taught, test=tested)
        options = RunOptions(Path(out), command="didact.simulate", overwrite=overwrite)
        job = SimulabilityJob(experiment, options)
        result = SimulabilityResult(run_job(job).folder)
    result.report()
    return result


@checked
def attach(
    model: object = DEFAULT, explainer: object = None, *, replay: Replayed = False, fuse: bool = False
) -> AttachedModel:
    """A model that returns scores beside its predictions, from the same pass and in the batches it is given.

    Args:
        model: anything ``load_model`` takes that reads texts or images with a network and predicts a class or a number.
        explainer: a learned explainer that reads the pass which predicts (``didact.train("probe", ...)``), or the
            folder or Hub id that it was saved to.
        replay: whether a GPU records the pass for each shape of a batch, from its second batch on, and replays it: what
            a small network waits for there is the launch of its kernels. Rows are padded to lengths that come again.
            With "scores" the network is called as it is, and only what the explainer computes is replayed.
        fuse: whether ``torch.compile`` makes few kernels of what the explainer computes; the first call then takes
            seconds, and needs a C++ compiler.

    Returns:
        An object that is called with texts, or with what the network takes, and returns ``logits``, ``scores``,
        ``labels`` and ``words``; its ``export`` writes network and explainer as one graph.

    Example:
        >>> import didact
        >>> served = didact.attach("./my-model", "runs/probe")  # doctest: +SKIP
        >>> made = served(["A warm and funny film.", "Dull."])  # doctest: +SKIP
        >>> made.labels, made.words[0], made.scores[0]  # doctest: +SKIP
    """
    from didact.trained.attached import attach as attached

    return attached(_model(model), explainer, replay=replay, fuse=fuse)


@checked
def refined(
    explainer: LearnedExplainer | str | Path, metric: str | None = None, **settings: object
) -> RefinedExplainer:
    """A learned explainer that is trained a few steps further for each text, which keeps the best of the maps.

    The best map is chosen on the explained text itself, and every explanation says so.

    Args:
        explainer: what ``train`` returned, or the folder or Hub id of a saved one.
        metric: which map is best, a registered name; the one with the lowest loss when not given.
        **settings: fields of ``didact.trained.refine.RefineConfig``: steps, seconds, learning_rate, rows, rank, ...

    Example:
        >>> import didact
        >>> precise = didact.refined("runs/aml", "comprehensiveness", steps=10)  # doctest: +SKIP
        >>> didact.show(didact.explain("A warm and funny film.", method=precise))  # doctest: +SKIP
    """
    from didact.experiments.masking.judges import judge
    from didact.trained.explainer import LearnedExplainer
    from didact.trained.refine import RefineConfig, RefinedExplainer

    config = RefineConfig.configured(**settings)
    chosen = None if metric is None else judge(metric)
    learned = explainer if isinstance(explainer, LearnedExplainer) else LearnedExplainer.from_pretrained(explainer)
    return RefinedExplainer(learned, config, judge=chosen)


@checked
def drawn(
    explainer: str | Explainer, metric: str, draws: int = 128, seed: int = 0, **settings: object
) -> DrawnExplainer:
    """An explainer whose maps are improved for a metric: of maps drawn around its own the best is kept, text by text.

    The best map is chosen on the explained text itself, and every explanation says so. Compare it by that metric only
    with explainers that may choose in the same way.

    Args:
        explainer: a method by name, or any explainer, a refined one too.
        metric: which map is best, a registered name.
        draws: maps per text.
        seed: of the noise.
        **settings: of the method, where it is named.

    Example:
        >>> import didact
        >>> better = didact.drawn("gradient_shap", "comprehensiveness", draws=64)  # doctest: +SKIP
        >>> didact.show(didact.explain("A warm and funny film.", method=better))  # doctest: +SKIP
    """
    from didact.api import load_explainer
    from didact.experiments.masking.judges import judge
    from didact.trained.drawn import DrawnExplainer

    made = load_explainer(explainer, **settings) if isinstance(explainer, str) else explainer
    return DrawnExplainer(made, judge(metric), draws, seed)
