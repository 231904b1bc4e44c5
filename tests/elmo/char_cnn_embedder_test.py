from pathlib import Path
from typing import Any

import torch
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.modules import TokenEmbedder

from elmo_plugin.elmo import ElmoCharCnnEmbedder
from elmo_plugin.text import batch_to_ids
from tests.elmo.small_elmo import IDS, MASK
from tests.oracles import SENTENCES, reference_elmo
from tests.task_oracles import small_bilm, text_tensors

SIZES = {"filters": [[1, 4], [2, 8], [3, 8]], "output_dim": 8, "embedding_dim": 4, "n_highway": 2}


def embedder(**keys: Any) -> ElmoCharCnnEmbedder:
    built = TokenEmbedder.from_params(Params({"type": "elmo_char_cnn", **SIZES, **keys}))
    assert isinstance(built, ElmoCharCnnEmbedder)
    return built


def trained_embedder() -> ElmoCharCnnEmbedder:
    """An embedder with biases other than zero."""
    cnn = embedder()
    cnn.encoder.load_state_dict(small_bilm().token_encoder.state_dict())
    return cnn


def test_it_is_the_character_encoder_of_a_bilm(tmp_path: Path) -> None:
    cnn = trained_embedder()
    theirs = reference_elmo(tmp_path, small_bilm())._elmo_lstm._token_embedder
    wanted = theirs(IDS)["token_embedding"]  # (B, T + 2, P)
    for row, length in enumerate(MASK.sum(dim=1)):
        torch.testing.assert_close(cnn(IDS)[row, :length], wanted[row, 1 : length + 1], atol=1e-6, rtol=0)
    assert cnn.get_output_dim() == 8 and not cnn(IDS)[~MASK].any()
    cnn(IDS).square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in cnn.parameters())


def test_a_batch_of_empty_texts_and_more_dimensions_are_read() -> None:
    cnn = embedder()
    assert cnn(text_tensors([[], []], Vocabulary())["elmo"]["elmo_tokens"]).shape == (2, 0, 8)
    assert torch.equal(cnn(IDS.view(2, 2, *IDS.shape[1:])), cnn(IDS).view(2, 2, -1, 8))


def test_words_are_cut_to_max_characters_per_token() -> None:
    short = embedder(max_characters_per_token=12)
    torch.testing.assert_close(short(IDS), short(batch_to_ids(SENTENCES, 12)))
