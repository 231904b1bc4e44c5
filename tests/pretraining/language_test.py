"""The language of the text stays with the biLM: in the vocabulary, the archive and other formats."""

from dataclasses import replace
from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.predictors import Predictor

import elmo_plugin
from elmo_plugin.bilm import BiLM, BiLMOptions, ZeroState, identity, language_of
from elmo_plugin.checkpoints import convert, load_checkpoint
from elmo_plugin.pretraining import BiLMVocabulary
from elmo_plugin.serving import load_served
from tests.language_model_oracles import experiment, write_corpus
from tests.oracles import options
from tests.task_oracles import TOWNS, tagger, tags_reader, train
from tests.task_oracles import experiment as task_experiment

GERMAN = "Es hat den ganzen Tag geregnet , und niemand kam nach Hause .\nDer alte Mann wartete im Haus .\n"
BATCHES = {"type": "unrolled_streams", "streams": 2, "window": 4}


def test_the_language_of_the_text_is_guessed_printed_and_saved(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "text.txt").write_text(GERMAN, encoding="utf-8")
    BiLMVocabulary.from_text_shards(str(tmp_path / "text.txt")).save_to_files(str(tmp_path / "guessed"))
    assert "language 'de'" in caplog.text
    caplog.clear()
    BiLMVocabulary.from_text_shards(str(tmp_path / "text.txt"), language="nl").save_to_files(str(tmp_path / "given"))
    assert "the text is in the language" not in caplog.text
    for folder, language in (("guessed", "de"), ("given", "nl")):
        vocab = Vocabulary.from_files(str(tmp_path / folder))
        assert vocab.get_token_from_index(0, "language_tags") == language
        assert vocab.get_vocab_size("language_tags") == 1


@pytest.mark.slow
def test_an_archive_and_what_is_made_of_it_know_the_language(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path)
    config = experiment(corpus, BATCHES)
    config["vocabulary"] = {**config["vocabulary"], "language": "de"}
    train(config, tmp_path / "run")
    archive = tmp_path / "run/model.tar.gz"
    assert load_checkpoint(archive).options.language == "de"
    for target in ("exported", "exported.safetensors"):
        convert(archive, tmp_path / target)
        assert language_of(elmo_plugin.load(tmp_path / target).elmo) == "de"


def test_the_language_is_no_part_of_what_a_bilm_computes() -> None:
    sizes = BiLMOptions.from_dict({"lstm": {"dim": 4, "projection_dim": 2}, "n_tokens_vocab": 9})
    german = BiLM.random(replace(sizes, language="de"), 1)
    assert identity(german, ZeroState()) == identity(BiLM.random(sizes, 1), ZeroState())
    with pytest.raises(ConfigurationError, match="'language': expected the code"):
        BiLMOptions.from_dict({**sizes.to_dict(), "language": "../x"})


@pytest.mark.slow
def test_raw_text_is_tokenized_in_the_language_of_the_bilm(tmp_path: Path) -> None:
    keys = {"bilm": {"options": {**options().to_dict(), "language": "de"}, "seed": 0}}
    train(task_experiment(tagger(keys), tags_reader(), TOWNS), tmp_path / "run")
    (tmp_path / "run/model.tar.gz").rename(tmp_path / "tagger.tar.gz")
    text, german, english = (
        "Er kam z.B. heute.",
        ["Er", "kam", "z.B.", "heute", "."],
        ["Er", "kam", "z.", "B.", "heute", "."],
    )
    for name in ("elmo_tagger", "elmo_embedder"):
        predictor = Predictor.from_path(str(tmp_path / "tagger.tar.gz"), name)
        assert predictor.predict_json({"sentence": text})["tokens"] == german
    assert (
        Predictor.from_path(str(tmp_path / "tagger.tar.gz"), "elmo_tagger", language="en").predict(text)["tokens"]
        == english
    )
    served = load_served(str(tmp_path / "tagger.tar.gz"))
    assert served.read([text]) == [german] and served.label([text])[0]["tokens"] == german
    assert load_served(str(tmp_path / "tagger.tar.gz"), language="en").read([text]) == [english]


@pytest.mark.slow
def test_a_served_bilm_reads_raw_text_in_its_language(tmp_path: Path) -> None:
    config = experiment(write_corpus(tmp_path), BATCHES)
    config["vocabulary"] = {**config["vocabulary"], "language": "de"}
    train(config, tmp_path / "run")
    convert(tmp_path / "run/model.tar.gz", tmp_path / "bilm.safetensors")
    for bilm in ("run/model.tar.gz", "bilm.safetensors"):
        assert load_served(str(tmp_path / bilm)).read(["z.B. heute."]) == [["z.B.", "heute", "."]]
    with pytest.raises(ConfigurationError, match=r"'language': .*'deu_'"):
        BiLMVocabulary.from_text_shards(str(tmp_path / "train.txt"), language="deu_")
