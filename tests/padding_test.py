"""Rows that are not padded on the right are an error that says how to pad, wherever ids, masks or tokens come in."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.seq2seq_encoders import GruSeq2SeqEncoder
from torch import Tensor

from elmo_plugin import Elmo, batch_to_ids
from elmo_plugin.bilm import BiLM, BiLMOptions, ElmoLstm, LstmOptions
from elmo_plugin.elmo import ElmoCharCnnEmbedder, ElmoEnhancedEncoder, ElmoTokenEmbedder
from tests.language_model_oracles import language_model
from tests.oracles import options
from tests.task_oracles import TOWNS, as_tensors, build_model, experiment, small_bilm, tagger, tags_reader

SENTENCES = [["Two", "more", "words"], ["One"]]
IDS = batch_to_ids(SENTENCES)  # (2, 3, 50)
MASK = (IDS > 0).any(dim=2)  # (2, 3)
LSTM = {"cell_dim": 6, "projection_dim": 4, "n_layers": 1}


def on_the_left(rows: Tensor) -> Tensor:
    """The second row, of one token, padded on the left as Keras does."""
    moved = rows.clone()
    moved[1] = rows[1].roll(2, dims=0)
    return moved


def with_a_hole(rows: Tensor) -> Tensor:
    moved = rows.clone()
    moved[0, 1] = 0
    return moved


def elmo(**keys: Any) -> Elmo:
    return Elmo(bilm={"options": options().to_dict(), "seed": 1}, dropout=0, **keys)


def word_bilm() -> BiLM:
    return BiLM(BiLMOptions.from_dict({"lstm": {"dim": 6, "projection_dim": 4, "n_layers": 1}, "n_tokens_vocab": 9}))


def windows(moved: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    direction = {"characters": moved(IDS), "words": moved(MASK.long() * 4), "targets": moved(MASK.long() * 4)}
    return {"windows": {"forward": direction, "backward": direction, "first": True}}


def sentences(moved: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    ids = {"characters": {"elmo_tokens": moved(IDS)}, "words": {"tokens": moved(MASK.long() * 4)}}
    return {"tokens": ids}


ENTRIES: dict[str, Callable[[Callable[[Tensor], Tensor], Path], object]] = {
    "Elmo": lambda moved, folder: elmo()(moved(IDS)),
    "Elmo with texts": lambda moved, folder: elmo()(torch.stack([IDS, moved(IDS)])),
    "Elmo with a sentence cache": lambda moved, folder: elmo(sentence_cache=str(folder))(moved(IDS)),
    "ElmoTokenEmbedder": lambda moved, folder: ElmoTokenEmbedder.from_parts(elmo())(moved(IDS)),
    "BiLM": lambda moved, folder: small_bilm()(moved(IDS)),
    "BiLM of words": lambda moved, folder: word_bilm()(moved(MASK.long() * 5)),
    "ElmoLstm": lambda moved, folder: ElmoLstm(LstmOptions(**LSTM))(torch.randn(2, 3, 4), moved(MASK)),
    "ElmoEnhancedEncoder": lambda moved, folder: ElmoEnhancedEncoder.from_config(
        GruSeq2SeqEncoder(7, 3), num_elmo_layers=2, layer_dim=5
    )(torch.randn(2, 3, 12), moved(MASK)),
    "sentences of a language model": lambda moved, folder: language_model()(**sentences(moved)),
    "windows of a language model": lambda moved, folder: language_model()(**windows(moved)),
}


@pytest.mark.parametrize("moved", [on_the_left, with_a_hole])
@pytest.mark.parametrize("entry", ENTRIES)
def test_padding_before_a_token_is_rejected(entry: str, moved: Callable[[Tensor], Tensor], tmp_path: Path) -> None:
    ENTRIES[entry](lambda rows: rows, tmp_path / "cache")
    row = {on_the_left: 1, with_a_hole: 0}[moved] + 2 * (entry == "Elmo with texts")
    with pytest.raises(ConfigurationError, match=f"padding before a token in row {row}; .*padding='post'"):
        ENTRIES[entry](moved, tmp_path / "cache")


def test_the_vectors_of_single_words_do_not_depend_on_where_a_row_is_padded() -> None:
    embedder = ElmoCharCnnEmbedder.from_config(filters=[[1, 2], [2, 2]], output_dim=4)
    torch.testing.assert_close(embedder(on_the_left(IDS)), on_the_left(embedder(IDS)))


def test_models_of_tasks_reject_it() -> None:
    config = experiment(tagger({"bilm": {"options": options().to_dict(), "seed": 1}}), tags_reader(), TOWNS)
    model, instances = build_model(config)
    batch = as_tensors(instances, model.vocab)
    model(**batch)
    batch["tokens"] = {
        name: {key: rows.flip(1) for key, rows in tensors.items()} for name, tensors in batch["tokens"].items()
    }
    with pytest.raises(ConfigurationError, match="padding before a token"):
        model(**batch)
