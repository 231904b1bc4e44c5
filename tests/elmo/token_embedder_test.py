import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.models import Model
from allennlp.modules import TextFieldEmbedder, TokenEmbedder
from allennlp.modules.text_field_embedders import BasicTextFieldEmbedder
from allennlp.modules.token_embedders import ElmoTokenEmbedder as AllenNlpEmbedder

from elmo_plugin.elmo import ElmoTokenEmbedder
from elmo_plugin.text import batch_to_ids
from tests.elmo.small_elmo import IDS, RANDOM
from tests.oracles import options
from tests.task_oracles import bilm_files, build_elmo, tagger

VOCAB = Vocabulary()
OF_WORDS = {"options": options(char_cnn=None, n_tokens_vocab=7).to_dict(), "seed": 1}


def embedder(**keys: Any) -> ElmoTokenEmbedder:
    built = TokenEmbedder.from_params(Params({"type": "elmo", **keys}))
    assert isinstance(built, ElmoTokenEmbedder)
    return built


def field_embedder(**embedders: dict[str, Any]) -> TextFieldEmbedder:
    return TextFieldEmbedder.from_params(Params({"type": "basic", "token_embedders": embedders}), vocab=VOCAB)


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


def test_ids_of_a_wrong_shape_are_told_the_shape_and_the_indexer_of_the_bilm() -> None:
    for bilm, indexer, shape in ((OF_WORDS, "single_id", r"\(B, T\)"), ("english-tiny", "elmo_chara", r"\(B, T, C\)")):
        with pytest.raises(ConfigurationError, match=f"'{indexer}.*{shape}.*got ids of shape .3,."):
            build_elmo(bilm=bilm)(torch.tensor([1, 2, 3]))


def test_the_first_word_to_cache_stands_for_padding() -> None:
    elmo = build_elmo(bilm="english-tiny", dropout=0.0, vocab_to_cache=["@@PADDING@@", "Two", "words"]).eval()
    expected = elmo(batch_to_ids([["Two", "words"], ["words"]])).representations[0]
    found = elmo(torch.zeros(2, 2, 50, dtype=torch.long), torch.tensor([[1, 2], [2, 0]])).representations[0]
    torch.testing.assert_close(found, expected)


def test_a_name_in_the_place_of_an_elmo_is_told_where_a_bilm_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"'model\.elmo'.*'english-tiny'; .*\{ bilm: "):
        Model.from_params(Params(tagger("english-tiny"), "model."), vocab=VOCAB)
