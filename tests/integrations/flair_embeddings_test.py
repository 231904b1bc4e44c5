"""The embeddings against flair's own `ELMoEmbeddings` on the same layers, and inside flair's tagger."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import flair
import numpy as np
import pytest
import torch
from allennlp.common.checks import ConfigurationError
from flair.data import Corpus, Dictionary, Sentence
from flair.embeddings import (
    CharacterEmbeddings,
    DocumentCNNEmbeddings,
    DocumentEmbeddings,
    DocumentPoolEmbeddings,
    DocumentRNNEmbeddings,
    ELMoEmbeddings,
    FlairEmbeddings,
    OneHotEmbeddings,
    StackedEmbeddings,
    TokenEmbeddings,
)
from flair.models import LanguageModel, SequenceTagger, TextClassifier
from flair.trainers import ModelTrainer

import elmo_plugin
from elmo_plugin.integrations.flair_embeddings import ElmoEmbeddings
from tests.oracles import lively, write_files
from tests.task_oracles import D, L, small_bilm

TEXTS = [["The", "ship", "left", "Boston", "."], ["She", "sold", "bread"]]
flair.device = torch.device("cpu")


def sentences() -> list[Sentence]:
    """The sentences, with Boston as an entity."""
    found = [Sentence(words) for words in TEXTS]
    found[0][3:4].add_label("ner", "GPE")
    return found


def vectors(sentence: Sentence) -> np.ndarray:
    return np.stack([token.embedding.cpu().numpy() for token in sentence])  # (T, width)


def probabilities(sentence: Sentence) -> list[float]:
    return [label.score for token in sentence for label in token.tags_proba_dist["ner"]]


@pytest.mark.parametrize("mode", ["all", "top"])
def test_vectors_equal_those_of_flairs_own_class(mode: str, small: str, monkeypatch: pytest.MonkeyPatch) -> None:
    retired = ModuleType("allennlp.commands.elmo")
    retired.ElmoEmbedder = elmo_plugin.ElmoEmbedder  # type: ignore[attr-defined]
    retired.DEFAULT_OPTIONS_FILE = retired.DEFAULT_WEIGHT_FILE = ""  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "allennlp.commands.elmo", retired)
    monkeypatch.setattr("allennlp.commands.elmo", retired, raising=False)
    files = {"options_file": f"{small}/options.json", "weight_file": f"{small}/weights.hdf5"}
    theirs, ours, named = sentences(), sentences(), sentences()
    ELMoEmbeddings(**files, embedding_mode=mode).embed(theirs)
    embeddings = ElmoEmbeddings(**files, embedding_mode=mode)
    embeddings.embed(ours)
    ElmoEmbeddings(small, embedding_mode=mode).embed(named)
    assert embeddings.embedding_length == (L * D if mode == "all" else D)
    for wanted, found, other in zip(theirs, ours, named, strict=True):
        np.testing.assert_allclose(vectors(found), vectors(wanted), atol=1e-6)
        np.testing.assert_array_equal(vectors(other), vectors(found))


def test_a_tagger_on_a_stack_trains_and_what_it_saves_needs_no_other_file(warm: str, tmp_path: Path) -> None:
    corpus = Corpus(train=sentences(), dev=sentences(), test=sentences(), sample_missing_splits=False)
    elmo = ElmoEmbeddings(warm, embedding_mode="average", initial_state="warm")
    tagger = SequenceTagger(
        embeddings=StackedEmbeddings([elmo, OneHotEmbeddings.from_corpus(corpus, min_freq=1)]),
        tag_dictionary=corpus.make_label_dictionary("ner", add_unk=False),
        tag_type="ner",
        hidden_size=8,
    )
    before = {name: value.clone() for name, value in tagger.state_dict().items()}
    ModelTrainer(tagger, corpus).train(tmp_path / "run", max_epochs=1, mini_batch_size=2, learning_rate=0.1)
    assert any(not torch.equal(value, before[name]) for name, value in tagger.state_dict().items())

    shutil.rmtree(warm)
    loaded = SequenceTagger.load(tmp_path / "run" / "final-model.pt")
    for one, other in zip(sentences(), sentences(), strict=True):
        tagger.predict(one, embedding_storage_mode="cpu", return_probabilities_for_all_classes=True)
        loaded.predict(other, embedding_storage_mode="cpu", return_probabilities_for_all_classes=True)
        np.testing.assert_array_equal(vectors(one), vectors(other))
        assert probabilities(one) == probabilities(other)


def characters() -> Dictionary:
    dictionary = Dictionary()
    for character in [*sorted(set(" ".join(map(" ".join, TEXTS)))), "\n"]:
        dictionary.add_item(character)
    return dictionary


def character_lm(seed: int) -> FlairEmbeddings:
    torch.manual_seed(seed)
    return FlairEmbeddings(LanguageModel(characters(), is_forward_lm=True, hidden_size=3, nlayers=1))


STACKS: dict[str, Callable[[str], list[TokenEmbeddings]]] = {
    "elmo first": lambda bilm: [ElmoEmbeddings(bilm, embedding_mode="top"), character_lm(0)],
    "elmo last": lambda bilm: [character_lm(0), ElmoEmbeddings(bilm)],
    "elmo between": lambda bilm: [character_lm(0), ElmoEmbeddings(bilm), CharacterEmbeddings(characters(), 3)],
    "modes of one biLM": lambda bilm: [
        ElmoEmbeddings(bilm, embedding_mode=mode) for mode in ("top", "all", "average", "last")
    ],
    "precisions and states": lambda bilm: [
        ElmoEmbeddings(bilm, precision="int8"),
        ElmoEmbeddings(bilm, initial_state="warm"),
        ElmoEmbeddings(bilm, precision="bfloat16"),
        ElmoEmbeddings(bilm, name="my own name"),
    ],
    "more than ten": lambda bilm: [character_lm(seed) for seed in range(10)] + [ElmoEmbeddings(bilm), character_lm(10)],
    "stacks in a stack": lambda bilm: [
        StackedEmbeddings([character_lm(0), ElmoEmbeddings(bilm)]),
        StackedEmbeddings([ElmoEmbeddings(bilm, embedding_mode="top"), character_lm(1)]),
    ],
}


@pytest.mark.parametrize("stack", STACKS)
def test_a_loaded_tagger_reads_the_vectors_of_a_token_in_the_same_order(stack: str, warm: str, tmp_path: Path) -> None:
    """flair concatenates them in the order of the embeddings' names."""
    tagger = SequenceTagger(
        embeddings=StackedEmbeddings(STACKS[stack](warm)),
        tag_dictionary=Corpus(train=sentences(), sample_missing_splits=False).make_label_dictionary("ner", False),
        tag_type="ner",
        hidden_size=8,
    )
    tagger.eval().save(tmp_path / "model.pt")
    loaded = SequenceTagger.load(tmp_path / "model.pt")
    loaded.save(tmp_path / "again.pt")
    again = SequenceTagger.load(tmp_path / "again.pt")
    for one, *others in zip(sentences(), sentences(), sentences(), strict=True):
        tagger.predict(one, embedding_storage_mode="cpu", return_probabilities_for_all_classes=True)
        for model, other in zip((loaded, again), others, strict=True):
            model.predict(other, embedding_storage_mode="cpu", return_probabilities_for_all_classes=True)
            np.testing.assert_array_equal(vectors(other), vectors(one))
            assert probabilities(other) == probabilities(one)


@pytest.mark.parametrize(
    "document", [DocumentPoolEmbeddings, DocumentRNNEmbeddings, DocumentCNNEmbeddings], ids=lambda each: each.__name__
)
@pytest.mark.parametrize("stack", ["elmo first", "elmo last", "modes of one biLM"])
def test_a_loaded_classifier_reads_the_same_document_vectors(
    document: Callable[[list[TokenEmbeddings]], DocumentEmbeddings], stack: str, warm: str, tmp_path: Path
) -> None:
    labels = Dictionary(add_unk=False)
    for label in ("trade", "travel"):
        labels.add_item(label)
    classifier = TextClassifier(document(STACKS[stack](warm)), label_type="topic", label_dictionary=labels)
    classifier.save(tmp_path / "model.pt")
    loaded = TextClassifier.load(tmp_path / "model.pt")
    for one, other in zip(sentences(), sentences(), strict=True):
        for model, sentence in ((classifier.eval(), one), (loaded.eval(), other)):
            model.predict(sentence, embedding_storage_mode="cpu", return_probabilities_for_all_classes=True)
        np.testing.assert_allclose(other.embedding, one.embedding, atol=1e-7)
        assert other.embedding.any()
        np.testing.assert_allclose([label.score for label in other.labels], [label.score for label in one.labels])


def test_what_is_saved_names_the_file_and_an_unknown_mode_is_rejected(small: str) -> None:
    files = {"options_file": f"{small}/options.json", "weight_file": f"{small}/weights.hdf5"}
    assert ElmoEmbeddings(**files).to_params()["model"] == files["weight_file"]
    with pytest.raises(ConfigurationError, match=r"'embedding_mode': expected one of .*\btop\b.*, got 'middle'"):
        ElmoEmbeddings(small, embedding_mode="middle")


@pytest.mark.usefixtures("rounded_small_weights")
def test_other_files_or_settings_never_leave_their_vectors_on_a_sentence(small: str, warm: str, tmp_path: Path) -> None:
    """flair skips tokens that have vectors under the same name."""
    options_file, weight_file = write_files(tmp_path / "other", lively(small_bilm(), scale=0.5))
    several = [
        ElmoEmbeddings(options_file=f"{small}/options.json", weight_file=f"{small}/weights.hdf5"),
        ElmoEmbeddings(options_file=options_file, weight_file=weight_file),
        ElmoEmbeddings(warm),
        ElmoEmbeddings(warm, initial_state="warm"),
        ElmoEmbeddings(warm, precision="int8"),
    ]
    sentence = Sentence(TEXTS[0])
    for embeddings in several:
        alone = Sentence(TEXTS[0])
        embeddings.embed(alone)
        embeddings.embed(sentence)
        for token, wanted in zip(sentence, alone, strict=True):
            found = token.get_embedding([embeddings.name])
            np.testing.assert_array_equal(found, wanted.get_embedding([embeddings.name]))
    # The small biLM and the warm one from a zero state have the same weights.
    assert len({embeddings.name for embeddings in several}) == 4
