"""The component against `elmo_plugin.load`, in pipelines that spaCy builds, saves and loads."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc

import elmo_plugin
from tests.task_oracles import D

TEXTS = ["The ship sank.", "A calm, bright morning!", "", "She sold the bakery."]


def pipeline(bilm: str, **keys: object) -> Language:
    """A pipeline of spaCy's rules for English and ELMo."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"bilm": bilm, **keys})
    return nlp


def words(doc: Doc) -> list[str]:
    return [token.text for token in doc]


def test_the_tensor_of_a_single_doc_equals_load_to_the_bit(small: str) -> None:
    nlp, embedder = pipeline(small, mix="top"), elmo_plugin.load(small, "top")
    for text in TEXTS:
        doc = nlp(text)
        (wanted,) = embedder.embed([words(doc)])
        assert type(doc.tensor) is np.ndarray and doc.tensor.dtype == np.float32
        assert doc.tensor.shape == (len(doc), wanted.shape[1])
        np.testing.assert_array_equal(doc.tensor, wanted)


def test_tokens_have_vectors_and_spans_and_docs_have_means(small: str) -> None:
    doc = pipeline(small)("The ship sank at noon.")
    np.testing.assert_array_equal(doc[1].vector, doc.tensor[1])
    np.testing.assert_allclose(doc[1:3].vector, doc.tensor[1:3].mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(doc.vector, doc.tensor.mean(axis=0), rtol=1e-6)
    assert doc.has_vector and doc[1:3].has_vector and doc[1].has_vector
    np.testing.assert_allclose(doc.vector_norm, np.linalg.norm(doc.vector), rtol=1e-6)


def test_similarity_is_the_cosine_even_for_the_same_word_in_two_sentences(small: str) -> None:
    one, other = pipeline(small).pipe(["He sat on the bank of a river", "The bank lent money"])
    assert one[4].text == other[1].text and one[4].similarity(other[1]) < 0.9999
    for left, right in ((one[4], other[1]), (one[1:3], other[2:4]), (one, other), (one, other[1])):
        cosine = left.vector @ right.vector / np.linalg.norm(left.vector) / np.linalg.norm(right.vector)
        assert left.similarity(right) == pytest.approx(cosine, abs=1e-6)


def test_white_space_is_skipped_and_has_zeros(small: str) -> None:
    nlp = pipeline(small)
    plain, spaced = nlp("The ship sank."), nlp(" The  ship\n\nsank. ")
    is_space = np.array([token.is_space for token in spaced])
    assert is_space.tolist() == [True, False, True, False, True, False, False]
    np.testing.assert_array_equal(spaced.tensor[~is_space], plain.tensor)
    assert not spaced.tensor[is_space].any() and not spaced[0].has_vector
    np.testing.assert_array_equal(spaced.vector, plain.vector)
    np.testing.assert_array_equal(spaced[0:4].vector, plain[0:2].vector)


def test_a_doc_without_words_has_zeros(small: str) -> None:
    doc = pipeline(small)("\n \t")
    assert doc.tensor.shape == (len(doc), D) and not doc.tensor.any()
    assert doc.vector.shape == (D,) and not doc.vector.any() and not doc.has_vector
    assert doc.similarity(doc) == 0.0


@pytest.mark.slow
def test_the_bilm_reads_sentence_by_sentence_if_an_earlier_component_has_set_sentences(small: str) -> None:
    nlp = pipeline(small)
    nlp.add_pipe("sentencizer", before="elmo")
    doc = nlp("The ship sank. Nobody saw it.")
    first, second = elmo_plugin.load(small, "average").embed([words(sentence) for sentence in doc.sents])
    np.testing.assert_array_equal(doc.tensor, np.concatenate([first, second]))
    assert not np.allclose(doc.tensor, pipeline(small)(doc.text).tensor, atol=1e-4)


def test_a_saved_pipeline_gives_the_same_vectors(small: str, tmp_path: Path) -> None:
    nlp = pipeline(small, mix="top")
    nlp.to_disk(tmp_path / "saved")
    again = spacy.load(tmp_path / "saved")
    assert again.get_pipe_config("elmo") == nlp.get_pipe_config("elmo")
    for one, other in zip(nlp.pipe(TEXTS), again.pipe(TEXTS), strict=True):
        np.testing.assert_array_equal(one.tensor, other.tensor)
    held = sum(path.stat().st_size for path in (tmp_path / "saved").rglob("*") if "elmo" in path.name)
    assert held == 0, "a saved pipeline holds no weights"
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(nlp))(TEXTS[0]).tensor, nlp(TEXTS[0]).tensor)
