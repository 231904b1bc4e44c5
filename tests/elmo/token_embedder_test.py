import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.modules import TextFieldEmbedder, TokenEmbedder
from allennlp.modules.text_field_embedders import BasicTextFieldEmbedder
from allennlp.modules.token_embedders import ElmoTokenEmbedder as AllenNlpEmbedder
from allennlp.nn.util import get_text_field_mask

from elmo_plugin.elmo import ElmoTokenEmbedder
from elmo_plugin.text import batch_to_ids
from tests.elmo.small_elmo import IDS, RANDOM
from tests.oracles import SENTENCES, options
from tests.task_oracles import WORDS, D, bilm_files, paragraph_tensors, text_tensors, vocabulary_folder

VOCAB = Vocabulary()
OF_WORDS = {"options": options(char_cnn=None, n_tokens_vocab=7).to_dict(), "seed": 1}


def embedder(**keys: Any) -> ElmoTokenEmbedder:
    built = TokenEmbedder.from_params(Params({"type": "elmo", **keys}))
    assert isinstance(built, ElmoTokenEmbedder)
    return built


def field_embedder(**embedders: dict[str, Any]) -> TextFieldEmbedder:
    return TextFieldEmbedder.from_params(Params({"type": "basic", "token_embedders": embedders}), vocab=VOCAB)


@pytest.mark.parametrize(
    "keys",
    [
        {"requires_grad": True},
        {"do_layer_norm": False, "requires_grad": False, "projection_dim": 9, "scalar_mix_parameters": [1, 1, 0]},
        {"vocab_to_cache": ["unused", "The", "cat", "sat", "."]},
    ],
    ids=lambda keys: next(iter(keys)),
)
def test_a_config_of_allennlps_embedder_only_needs_another_type(tmp_path: Path, keys: dict[str, Any]) -> None:
    config = {**bilm_files(tmp_path), "dropout": 0.0, **keys}
    ours = embedder(**config)
    theirs = TokenEmbedder.from_params(Params({"type": "elmo_token_embedder", **config}))
    if "projection_dim" in keys:
        ours.elmo.projections[0].load_state_dict(theirs._projection.state_dict())
    ids = (
        IDS[:1, :4] if len(keys) < 4 else IDS
    )  # AllenNLP's layer norm is over the batch, so the batch has one sentence
    assert ours.get_output_dim() == theirs.get_output_dim()
    torch.testing.assert_close(ours(ids), theirs(ids), atol=1e-5, rtol=0)


def test_code_for_allennlps_class_only_needs_another_import(tmp_path: Path) -> None:
    files = bilm_files(tmp_path).values()
    for arguments in ((), (False, 0.0, True, 7, None, [0.2, -3.0, 1.0])):
        ours, theirs = ElmoTokenEmbedder(*files, *arguments), AllenNlpEmbedder(*files, *arguments)
        if arguments:
            ours.elmo.projections[0].load_state_dict(theirs._projection.state_dict())
        field = BasicTextFieldEmbedder({"elmo": ours.eval()})
        torch.testing.assert_close(field({"elmo": {"elmo_tokens": IDS}}), theirs.eval()(IDS), atol=1e-5, rtol=0)
        assert ours.elmo.bilm.is_trained == bool(arguments)
    names = [*inspect.signature(AllenNlpEmbedder).parameters]
    assert [*inspect.signature(ElmoTokenEmbedder).parameters][: len(names)] == names


def test_ids_of_allennlps_characters_indexer_are_an_error() -> None:
    basic = field_embedder(elmo={"type": "elmo", "bilm": RANDOM})
    for tensors in ({"token_characters": IDS}, {}, {"token_ids": IDS, "type_ids": IDS}):
        with pytest.raises(ConfigurationError, match="'elmo_characters'"):
            basic({"elmo": tensors})


def test_a_list_of_sentences_is_embedded_sentence_by_sentence() -> None:
    basic = field_embedder(elmo={"type": "elmo", "bilm": RANDOM, "dropout": 0.0})
    tensors = paragraph_tensors([SENTENCES[:2], [SENTENCES[3]]], VOCAB)["elmo"]
    ids = tensors["elmo_tokens"]
    assert ids.shape == (2, 2, 6, 50)
    wrapped = basic({"elmo": tensors}, num_wrapping_dims=1)
    flat = embedder(bilm=RANDOM, dropout=0.0)(ids.flatten(0, 1))
    assert torch.equal(wrapped, flat.view(2, 2, 6, D))
    assert torch.equal(embedder(bilm=RANDOM, dropout=0.0)(ids), wrapped)


def word_vocabulary(folder: Path) -> Vocabulary:
    """AllenNLP's vocabulary, read from the vocabulary file that a biLM was trained with."""
    params = {"type": "from_files", "directory": str(vocabulary_folder(folder)), "oov_token": "<UNK>"}
    return Vocabulary.from_params(Params(params))


def test_a_word_input_bilm_reads_the_lines_of_its_vocabulary_file(tmp_path: Path) -> None:
    vocab = word_vocabulary(tmp_path / "vocabulary")
    lines = WORDS.read_text(encoding="utf-8").split()
    assert [vocab.get_token_index(word) for word in lines] == list(range(1, len(lines) + 1))
    sentences = [["the", "cat", "sat", "."], ["the", "dog"]]
    tensors = {"elmo": text_tensors(sentences, vocab)["tokens"]}
    assert tensors["elmo"]["tokens"].tolist() == [[4, 5, 6, 7], [4, 3, 0, 0]]
    bilm = {"options": options(char_cnn=None, n_tokens_vocab=len(lines)).to_dict(), "seed": 1}
    basic = field_embedder(elmo={"type": "elmo", "bilm": bilm, "mix": "concatenate", "dropout": 0.0})
    layers = basic(tensors)[..., :D]  # (B, T, D) of the token layer
    elmo = basic.token_embedder_elmo.elmo
    rows = elmo.bilm.token_encoder.embedding.weight[tensors["elmo"]["tokens"]]  # (B, T, P)
    torch.testing.assert_close(layers, torch.cat([rows, rows], dim=-1))
    mask = get_text_field_mask(tensors)
    assert torch.equal(elmo(tensors["elmo"]["tokens"]).mask, mask) and not layers[~mask].any()
    assert torch.equal(layers[0, 0], layers[1, 0]) and not torch.equal(layers[1, 1], layers[0, 1])


def test_ids_of_another_vocabulary_and_of_characters_are_an_error() -> None:
    with pytest.raises(ValueError, match="expected word ids up to 7, got the id 8"):
        embedder(bilm=OF_WORDS)(torch.tensor([[1, 8]]))
    with pytest.raises(ConfigurationError, match=r"'single_id', .* reads words, got the ids of 'elmo_characters'"):
        embedder(bilm=OF_WORDS)(IDS)


def test_a_number_of_representations_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="'num_output_representations' is a key of the module `Elmo`"):
        embedder(num_output_representations=2)


def test_kept_boundaries_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    built = embedder(bilm=RANDOM, keep_sentence_boundaries=True)
    assert built(batch_to_ids([["Two", "words"]])).shape[:2] == (1, 4)
    assert "AllenNLP's models take the text's own mask" in caplog.text
