"""Language models as classifiers: prompts, label words and shots, against what the network itself computes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import didact
from didact.errors import CapabilityError, FormatError, InputError, ModelError, ParameterError
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.prompting.prompts import Prompt, Shot
from didact.testing.tiny import tiny_language_model, tiny_model
from didact.types import Example

TEXTS = [Example("a truly wonderful film"), Example("dull")]
SHOTS = [("a warm heart", "film"), ("the plot is dull", "plot")]
WORDS = {
    "one token each": {"film": " film", "plot": " plot"},
    "a chain": {"film": " wonderful film", "plot": " plot"},
    "a shared first token": {"film": " wonderful film", "plot": " wonderful heart"},
    "a tree": {"film": " wonderful film", "plot": " wonderful heart", "bill": " good company", "food": " good food"},
}


def prompted(architecture: str = "llama", **entries: object) -> NetworkModel:
    given = {"template": "Review: {text}\nIt is", "labels": WORDS["one token each"]} | entries
    model = load_model(tiny_language_model(architecture), prompt=Prompt(**given))
    assert isinstance(model, NetworkModel)
    return model


def slow_likelihoods(model: NetworkModel, text: Example) -> list[float]:
    """Each label's words behind the prompt in a pass of their own."""
    (code,) = model.reader.encode([text])
    likelihoods = []
    for ids in model.reader.continuations(model.reader.prompt.words):
        row = torch.tensor([[*code.ids.tolist(), *ids]])
        with torch.no_grad():
            log_p = model.network(row).logits[0].log_softmax(-1)
        likelihoods.append(sum(float(log_p[len(code) - 1 + step, token]) for step, token in enumerate(ids)))
    return likelihoods


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
@pytest.mark.parametrize("words", WORDS)
def test_label_words_have_their_full_likelihood(architecture: str, words: str) -> None:
    model = prompted(architecture, labels=WORDS[words], shots=SHOTS)
    for text, prediction in zip(TEXTS, model.predict(TEXTS), strict=True):
        slow = np.array(slow_likelihoods(model, text))
        np.testing.assert_allclose(prediction.outputs, slow, atol=1e-4)
        np.testing.assert_allclose(prediction.probabilities, np.exp(slow) / np.exp(slow).sum(), atol=1e-5)


@pytest.mark.parametrize("absence", ["token:unk", "delete", "drop"])
def test_variants_are_prompts_without_the_words(absence: str) -> None:
    """Deleting a word gives the prediction of the prompt that was written without it."""
    model = prompted(labels=WORDS["a tree"], shots=SHOTS)
    units = model.units(TEXTS[:1])
    (prediction,) = model.predict(TEXTS[:1])
    target = model.target("film", prediction, "log_probability")
    keep = np.ones((1, len(units[0])), dtype=np.bool_)
    keep[0, 1] = False
    ((value,),) = model.score(units, [target], [keep], absence)
    if absence == "delete":
        (other,) = model.predict([Example("a wonderful film")])
        assert value == pytest.approx(other.value(target), abs=1e-4)
    else:
        assert value != pytest.approx(prediction.value(target), abs=1e-6)


def test_only_the_slot_is_scored() -> None:
    model = prompted(shots=SHOTS, instruction="Judge it.")
    (units,) = model.units(TEXTS[:1])
    assert units.texts == ("a", "truly", "wonderful", "film")
    (code,) = model.reader.encode(TEXTS[:1])
    shown = [model.tokenizer.decode(code.ids[list(own)]).strip() for own in units.positions]
    assert shown == list(units.texts)


def test_chat_templates_write_the_prompt() -> None:
    model = prompted(chat=True, instruction="Judge it.", shots=SHOTS, template="{text}", labels=["film", "plot"])
    (code,) = model.reader.encode(TEXTS[:1])
    messages = [{"role": "system", "content": "Judge it."}]
    for text, label in SHOTS:
        messages += [{"role": "user", "content": text}, {"role": "assistant", "content": label}]
    messages.append({"role": "user", "content": TEXTS[0].text})
    wanted = model.tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    assert code.ids.tolist() == wanted
    assert model.units(TEXTS[:1])[0].texts == ("a", "truly", "wonderful", "film")


@pytest.mark.parametrize("chat", [False, True])
def test_shots_are_units_of_their_own_on_request(chat: bool) -> None:
    model = prompted(shots=SHOTS, chat=chat)
    explained = didact.explain(TEXTS[0], model, "occlusion", level="shot", absence="delete")
    assert [text.splitlines()[0] for text in explained.units.texts] == [f"Review: {text}" for text, _ in SHOTS]
    (code,) = model.reader.encode(TEXTS[:1])
    for (text, label), own in zip(SHOTS, explained.units.positions, strict=True):
        shown = model.tokenizer.decode(code.ids[list(own)])
        assert text in shown
        assert label in shown
    assert didact.Explanation.from_json(explained.to_json()) == explained
    assert model.predict([explained.example]) == model.predict(TEXTS[:1])


def test_a_prompt_without_shots_offers_none() -> None:
    assert "shot" not in prompted().levels


def test_calibration_divides_out_what_texts_without_content_get() -> None:
    plain, model = prompted(), prompted(calibration=["N/A", "nothing"])
    neutral = np.mean([own.probabilities for own in plain.predict([Example("N/A"), Example("nothing")])], axis=0)
    for own, calibrated in zip(plain.predict(TEXTS), model.predict(TEXTS), strict=True):
        shares = np.array(own.probabilities) / neutral
        np.testing.assert_allclose(calibrated.probabilities, shares / shares.sum(), atol=1e-5)
    assert model.fingerprint() != plain.fingerprint()


def test_the_fingerprint_is_that_of_prompt_and_words() -> None:
    prints = {
        prompted(**entries).fingerprint()
        for entries in ({}, {"shots": SHOTS}, {"instruction": "Judge it."}, {"labels": WORDS["a tree"]}, {"chat": True})
    }
    assert len(prints) == 5


def test_absence_is_the_unknown_token_or_what_the_prompt_names() -> None:
    network, tokenizer = tiny_language_model()
    assert prompted().default_absence == "token:unk"
    assert prompted(absence="delete").default_absence == "delete"
    tokenizer.unk_token = None
    bare = load_model((network, tokenizer), prompt=Prompt("{text} is", ["film", "plot"]))
    assert bare.default_absence == "delete"
    with pytest.raises(ParameterError, match="is not one token"):
        prompted(absence="token:no such token")


def test_a_long_text_is_cut_and_the_prompt_is_not() -> None:
    network, tokenizer = tiny_language_model()
    prompt = Prompt("Review: {text}\nIt is", ["film", "plot"])
    model = load_model((network, tokenizer), prompt=prompt, max_length=30, max_truncated=1.0)
    (units,) = model.units([Example("a truly wonderful film " * 20)])
    assert 0.5 < units.truncated < 1
    assert model.tokenizer.decode(model.reader.encode([units.example])[0].ids).endswith("\nIt is")
    with pytest.raises(InputError, match=r"the prompt alone has .* tokens, and the model's limit is 8"):
        load_model((network, tokenizer), prompt=prompt, max_length=8).units(TEXTS)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"template": "Review:\nIt is"}, r"one slot \{text\} for the text, and here it stands 0 times"),
        ({"template": "{text} and {text} is"}, "here it stands 2 times"),
        ({"instruction": "Judge {text}."}, "in the instruction"),
        ({"template": "Review: {text}"}, "ends with its slot"),
        ({"labels": ["film"]}, "at least two labels"),
        ({"labels": ["film", "film"]}, "must differ"),
        ({"labels": {"a": " film", "b": " film"}}, "differ in their words"),
        ({"labels": {"a": " film", "b": " "}}, "'b' has no words"),
        ({"labels": {"a": " wonderful", "b": " wonderful film"}}, "are the first tokens of ' wonderful film'"),
        ({"shots": [("a", "nothing")]}, "unknown label of a shot 'nothing'"),
    ],
)
def test_prompts_that_cannot_be_used_are_refused(entries: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        prompted(**entries)


def test_a_tokenizer_without_a_chat_template_is_refused() -> None:
    network, tokenizer = tiny_language_model()
    tokenizer.chat_template = None
    with pytest.raises(ModelError, match="has no chat template; set chat=false"):
        load_model((network, tokenizer), prompt=Prompt("{text}", ["film", "plot"], chat=True))


def test_a_template_without_system_messages_gets_the_instruction_in_the_first_message() -> None:
    network, tokenizer = tiny_language_model()
    refusal = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    tokenizer.chat_template = refusal + str(tokenizer.chat_template)
    model = load_model((network, tokenizer), prompt=Prompt("{text}", ["a", "b"], instruction="Judge it.", chat=True))
    assert isinstance(model, NetworkModel)
    assert model.reader.written.before == "<s>user\nJudge it.\n\n"


def test_what_has_no_prompt_or_needs_none_is_refused() -> None:
    with pytest.raises(ParameterError, match="is a language model; give the prompt"):
        load_model(tiny_language_model())
    with pytest.raises(ParameterError, match="a prompt is for language models"):
        load_model(tiny_model(), prompt=Prompt("{text} is", ["a", "b"]))
    with pytest.raises(InputError, match="has one slot, but 2 texts were given"):
        prompted().predict([Example("a film", "a plot")])
    with pytest.raises(CapabilityError, match="not fine-tuned"):
        prompted().head.loss(torch.zeros(1, 2), torch.zeros(1, 2))


PROMPT_FILE = """
template = "Review: {text}\\nIt is"
instruction = "Judge it."
calibration = ["N/A"]
[labels]
good = " film"
bad = " plot"
[[shots]]
text = "a warm heart"
label = "good"
"""


def test_prompts_are_read_from_files(tmp_path: Path) -> None:
    file = tmp_path / "prompt.toml"
    file.write_text(PROMPT_FILE)
    prompt = Prompt.of(file)
    assert (prompt.names, prompt.words, prompt.shots) == (
        ("good", "bad"),
        (" film", " plot"),
        (Shot("a warm heart", "good"),),
    )
    assert load_model(tiny_language_model(), prompt=str(file)).labels == ("good", "bad")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("template = 3", "labels"),
        ('template = "{text} is"\nlabels = ["a", "b"]\ncolour = 1', "unknown field 'colour'"),
        ('template = "{text} is"\nlabels = 3', "labels"),
        ("no toml", "is not a TOML file"),
    ],
)
def test_files_that_are_no_prompts_are_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "prompt.toml"
    file.write_text(text)
    with pytest.raises(FormatError, match=message):
        Prompt.of(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no prompt file"):
        Prompt.of(tmp_path / "none.toml")


def test_blanks_at_the_end_of_a_template_move_to_the_words() -> None:
    assert Prompt("{text} is ", ["a", "b"]).words == (" a", " b")
    assert Prompt("{text} is ", ["a", "b"]).around == ("", " is")
    assert Prompt("{text} is\n", ["a", "b"]).words == ("a", "b")


@pytest.mark.parametrize(("task", "split"), [("sst2", "validation"), ("sst2", "test"), ("ag_news", "test")])
def test_no_shot_of_a_measured_prompt_is_a_test_text(task: str, split: str, shared: Path) -> None:
    prompt = Prompt.of(Path(__file__).parents[2] / "docs" / "kinds" / "prompts" / f"{task}.toml")
    with gzip.open(shared / "data" / task / f"{split}.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = {json.loads(line)["text"] for line in lines}
    assert not texts & {shot.text for shot in prompt.shots if isinstance(shot, Shot)}
    assert len(prompt.shots) == 4
