"""The language model: windows against whole sentences, where gradients stop, precision, and invalid configs."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary

from elmo_plugin.pretraining import BidirectionalLanguageModel, TextShardsReader, UnrolledStreams
from elmo_plugin.pretraining.vocabulary import WordIds
from tests import many_langs_oracle
from tests.language_model_oracles import (
    CHARACTERS,
    HELDOUT,
    TRAIN,
    WORD_INPUT,
    WORDS,
    Config,
    language_model,
    nats_by_hand,
    perplexities,
)

SAMPLED = {"type": "sampled", "n_samples": 4}
ADAPTIVE = {"type": "adaptive", "cutoffs": [4, 9], "div_value": 2.0}
NATIVE = "elmo_plugin.bilm.precision.has_native_bfloat16"
READING_WORDS: Config = {"bilm": {"options": WORD_INPUT, "seed": 1}}
LSTM = {"type": "lstm", "input_size": 8, "hidden_size": 8, "bidirectional": True}


def windows(folder: Path, model: BidirectionalLanguageModel, lines: list[str], **keys: Any) -> Iterator[Any]:
    """Return batches of windows over these sentences, in their order."""
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    loader = UnrolledStreams(TextShardsReader(), str(folder / "text.txt"), shuffle=False, **keys)
    loader.index_with(model.vocab)
    return iter(loader)


def sentences(model: BidirectionalLanguageModel, lines: list[str]) -> Config:
    """Return a batch of whole sentences."""
    return {"tokens": WordIds(model.vocab).of_sentences([line.split() for line in lines])}


def score(model: BidirectionalLanguageModel, batch: Config) -> tuple[float, float, float]:
    """Return the loss, and the mean nats forward and backward, of one batch in evaluation."""
    model.eval().get_metrics(reset=True)
    with torch.no_grad():
        loss = float(model(**batch)["loss"])
    metrics = model.get_metrics(reset=True)
    return loss, math.log(metrics["forward_perplexity"]), math.log(metrics["backward_perplexity"])


@pytest.mark.parametrize(
    ("keys", "window"), [({}, 1), ({}, 20), ({"softmax": SAMPLED}, 3), ({"softmax": ADAPTIVE}, 3), (READING_WORDS, 3)]
)
def test_a_sentence_read_in_windows_has_the_log_probabilities_of_the_whole_sentence(
    tmp_path: Path, keys: Config, window: int
) -> None:
    """As in bilm-tf, the backward direction reads each sentence from its end, window by window."""
    model = language_model(**keys)
    with torch.no_grad():
        whole = model(**sentences(model, HELDOUT[:1]))
    forward = -whole["forward_log_probs"][0]  # (T + 1,)
    backward = -whole["backward_log_probs"][0].flip(0)  # (T + 1,), in the order of reading
    parts = list(windows(tmp_path, model, HELDOUT[:1], streams=1, window=window))
    assert len(parts) == math.ceil(len(forward) / window)
    for part, ahead, behind in zip(parts, forward.split(window), backward.split(window), strict=True):
        loss, *found = score(model, part)
        assert found == pytest.approx([float(ahead.mean()), float(behind.mean())], rel=1e-5)
        assert loss == pytest.approx((found[0] + found[1]) / 2, rel=1e-6)


def test_the_loss_is_the_mean_of_both_directions_and_no_sentence_changes_another() -> None:
    model = language_model()
    each = [nats_by_hand(model, line.split()) for line in TRAIN]
    by_hand = perplexities(each)
    wanted = [math.log(by_hand[name]) for name in ("perplexity", "forward_perplexity", "backward_perplexity")]
    assert score(model, sentences(model, TRAIN)) == pytest.approx(wanted, rel=1e-5)
    training = model.train()(**sentences(model, TRAIN))
    assert training["loss"].item() == pytest.approx(wanted[0], rel=1e-5)
    assert set(training) == {"loss"}  # nothing that training has no need of is worked out
    readable = model.make_output_human_readable(model.eval()(**sentences(model, TRAIN)))
    for forward, backward, nats in zip(
        readable["forward_log_probs"], readable["backward_log_probs"], each, strict=True
    ):
        assert forward == pytest.approx(-nats.forward, abs=1e-5)
        assert backward == pytest.approx(-nats.backward[::-1], abs=1e-5)


def test_the_gradient_is_cut_at_each_window(tmp_path: Path) -> None:
    """Words of the first sentence get a gradient from the second one only if both are in the same window."""
    lines = ["gull left fog", "sea came read"]
    model = language_model(**READING_WORDS).train()
    table = model.bilm.token_encoder.embedding  # type: ignore[union-attr]
    early, late = (WordIds(model.vocab).words([line.split()], 3)[0] for line in lines)

    def gradients(window: int) -> tuple[torch.Tensor, torch.Tensor]:
        for batch in windows(tmp_path, model, lines, streams=1, window=window):
            model.zero_grad()
            model(**batch)["loss"].backward()
        return table.weight.grad[early], table.weight.grad[late]  # type: ignore[index]

    first, second = gradients(window=4)
    assert not first.any() and second.abs().sum(dim=1).gt(0).all()
    first, second = gradients(window=8)
    assert first.abs().sum(dim=1).gt(0).all() and second.abs().sum(dim=1).gt(0).all()


def test_evaluation_in_the_middle_of_training_starts_from_zero_and_keeps_the_state_of_training(tmp_path: Path) -> None:
    model = language_model().train()
    batches = list(windows(tmp_path, model, TRAIN, streams=2, window=5))
    heldout = list(windows(tmp_path, model, HELDOUT, streams=3, window=4))

    def evaluate() -> list[tuple[float, float, float]]:
        return [score(model, batch) for batch in heldout]

    losses = [model.train()(**batch)["loss"].item() for batch in batches]
    undisturbed = evaluate()
    for batch, loss in zip(batches, losses, strict=True):
        assert model.train()(**batch)["loss"].item() == pytest.approx(loss, rel=1e-6)
        assert evaluate() == undisturbed


def test_dropout_applies_only_in_training() -> None:
    model = language_model(dropout=0.5)
    plain = language_model()
    assert score(model, sentences(model, TRAIN)) == score(plain, sentences(plain, TRAIN))
    assert model.bilm.lstm.input_dropout.p == 0.5
    assert model.train()(**sentences(model, TRAIN))["loss"] != model(**sentences(model, TRAIN))["loss"]


def test_training_on_samples_reports_no_perplexity_but_evaluation_does() -> None:
    model = language_model(softmax=SAMPLED).train()
    model(**sentences(model, TRAIN))
    assert model.get_metrics() == {}
    model.eval()(**sentences(model, TRAIN))
    assert list(model.get_metrics()) == ["perplexity"]
    assert model.get_metrics(reset=True)["n_tokens"] == sum(len(line.split()) + 1 for line in TRAIN)


def differentiate(model: BidirectionalLanguageModel, batches: list[Config]) -> tuple[float, torch.Tensor]:
    """Return the mean loss, and all its gradients as one vector."""
    model.zero_grad()
    loss = torch.stack([model(**batch)["loss"] for batch in batches]).mean()
    loss.backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return loss.item(), torch.cat([gradient.flatten() for gradient in gradients])


@pytest.mark.usefixtures("native_bfloat16")
@pytest.mark.parametrize(("softmax", "streamed"), [({"type": "full"}, False), (SAMPLED, True), (ADAPTIVE, False)])
def test_bfloat16_is_float32_but_for_rounding(tmp_path: Path, softmax: Config, streamed: bool) -> None:
    exact, rounded = (language_model(softmax=softmax, precision=name).train() for name in ("float32", "bfloat16"))
    batches = list(windows(tmp_path, exact, TRAIN, streams=2, window=5)) if streamed else [sentences(exact, TRAIN)]
    (wanted_loss, wanted), (loss, gradient) = (differentiate(model, batches) for model in (exact, rounded))
    assert loss != wanted_loss
    assert loss == pytest.approx(wanted_loss, rel=0.01)
    assert gradient.dtype == torch.float32 and gradient.isfinite().all()
    assert float(torch.cosine_similarity(gradient, wanted, dim=0)) > 0.99
    if streamed:
        assert {part.dtype for part in rounded.carried[True]} == {torch.float32}


@pytest.mark.parametrize(
    ("native", "precision", "computed"),
    [(False, "bfloat16", "float32"), (False, "auto", "float32"), (True, "auto", "bfloat16")],
)
def test_bfloat16_and_auto_are_bfloat16_where_it_is_native_and_float32_where_it_is_emulated(
    native: bool, precision: str, computed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NATIVE, lambda: native)
    chosen, wanted = (language_model(precision=name) for name in (precision, computed))
    assert score(chosen, sentences(chosen, TRAIN)) == score(wanted, sentences(wanted, TRAIN))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"precision": "float16"}, "'precision'.*float16"),
        ({"bilm": {"options": {**CHARACTERS, "n_tokens_vocab": 7}}}, rf"n_tokens_vocab'.* {len(WORDS)}\D.* 7"),
        ({"contextualizer": {**LSTM, "input_size": 7}}, "'contextualizer'.* 8 .* 7 "),
        ({"contextualizer": {**LSTM, "hidden_size": 6}}, "'contextualizer'.* 16, .* 12"),
        ({"softmax": {**SAMPLED, "n_samples": 999}}, "n_samples'.* 999"),
    ],
)
def test_an_invalid_config_is_rejected(keys: Config, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        language_model(**keys)


def test_a_bilm_of_many_langs_is_rejected(tmp_path: Path) -> None:
    folder = many_langs_oracle.write_folder(tmp_path / "bilm", many_langs_oracle.config())
    with pytest.raises(ConfigurationError, match=r"'bilm'.*bytes or words.*ELMoForManyLangs"):
        language_model(bilm=str(folder))


def test_a_vocabulary_of_another_order_is_rejected() -> None:
    """In AllenNLP's default vocabulary the unknown word comes first, and there are no boundaries."""
    with pytest.raises(ConfigurationError, match=r"'vocabulary'.*'text_shards'"):
        BidirectionalLanguageModel(Vocabulary({"tokens": {"the": 3, "fog": 2}}), {"options": CHARACTERS})


def test_no_sentence_depends_on_one_that_a_stateful_contextualizer_has_read() -> None:
    model = language_model(contextualizer={**LSTM, "stateful": True}).eval()
    losses = [model(**sentences(model, lines))["loss"] for lines in (TRAIN[:2], TRAIN[2:5], TRAIN[:2])]
    assert losses[0] == losses[2]


def test_a_contextualizer_reads_whole_sentences_and_no_windows(tmp_path: Path) -> None:
    model = language_model(contextualizer=LSTM)
    loss, forward, backward = score(model, sentences(model, TRAIN))
    assert loss == pytest.approx((forward + backward) / 2, rel=1e-6)
    batch = next(windows(tmp_path, model, TRAIN, streams=2, window=5))
    with pytest.raises(ConfigurationError, match=r"'contextualizer'.*LstmSeq2SeqEncoder.*sentence_batches"):
        model(**batch)
