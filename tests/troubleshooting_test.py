"""Each heading of the page about errors is what is printed today, by the mistake that the page describes."""

import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from allennlp.commands.train import train_model
from allennlp.common import Lazy, Params
from allennlp.data import DatasetReader
from allennlp.models.archival import load_archive
from allennlp.predictors import Predictor

import elmo_plugin
from elmo_plugin.elmo import Elmo, SentenceCache
from elmo_plugin.text import read_question
from tests.pages import run_command

PAGE = Path(__file__).resolve().parents[1] / "docs/guides/troubleshooting.md"
NOT_RUN = {
    "No module named 'allennlp'",  # Python's message, without AllenNLP,
    "invalid choice: 'embed-corpus'",  # and argparse's, of the program `allennlp`
    "uv: command not found",  # and a shell's;
    "Unauthorized path",  # NLTK's, for a reader of allennlp-models;
    "'validation_metric': expected",  # of the command line, see commands/console_test.py,
    "not found; check the name",
    "name a predictor that needs no model of spaCy",
    "guides/old-configs.md",  # see old_configs_test.py,
    "the vocabulary is not sorted by count",  # logged, see pretraining/word_order_test.py,
    "of the tokens are not in the vocabulary",  # printed by `evaluate`, see pretraining/perplexity_test.py,
    "looks untokenized",  # logged, see text/raw_text_test.py,
    "looks like a header",  # logged, see models/doubtful_columns_test.py,
    "expected 'validation_data_path', got none",  # logged, see models/bad_input_test.py,
    "do not occur in train",
    "To go on from a trained model with more labels",  # after a first run, see models/known_labels_test.py,
    "is cut off or missing",  # after a first run, see recovery_test.py,
    "this processor multiplies faster in float32",  # logged once per process, see bilm/precision_test.py
}
TAGGED = "in\tO\nPort\tB-LOC\nCalder\tI-LOC\n\nHi\tO\n\n"
READER = {"type": "column_tags", "token_indexers": {"elmo": {"type": "elmo_characters"}}}
TAGGER = {
    "type": "elmo_tagger",
    "elmo": {"bilm": "english-tiny"},
    "encoder": {"type": "lstm", "input_size": 512, "hidden_size": 5},
}
BILM: dict[str, Any] = {"type": "bilm", "bilm": {"options": {"lstm": {"dim": 4, "projection_dim": 2, "n_layers": 1}}}}
TRAINER = {"optimizer": "adam", "num_epochs": 1, "cuda_device": -1}


def train(folder: str = "run", **keys: Any) -> None:
    """Train a tagger with these keys of its config changed."""
    config = {"dataset_reader": READER, "train_data_path": "tags.conll", "model": TAGGER, "trainer": TRAINER}
    train_model(Params(deepcopy(config | {"data_loader": {"batch_size": 2}} | keys)), folder)


def pretrain(text: str) -> None:
    """Train a biLM on this text in windows of 100 streams."""
    vocabulary = {"type": "text_shards", "files": "text.txt"}
    loader = {"type": "unrolled_streams", "streams": 100, "window": 20}
    reader = {"type": "text_shards"}
    train(dataset_reader=reader, model=BILM, vocabulary=vocabulary, data_loader=loader, train_data_path=text)


def tagger_with(**keys: Any) -> dict[str, Any]:
    return TAGGER | {"elmo": {"bilm": "english-tiny"} | keys}


def reader_with(text: str, **keys: Any) -> dict[str, Any]:
    """Write a file of tags; return the keys of a config that reads it."""
    Path("other.conll").write_text(text, encoding="utf-8")
    return {"dataset_reader": READER | keys, "train_data_path": "other.conll"}


def override(overrides: dict[str, Any]) -> None:
    Path("config.json").write_text('{"trainer": {}}')
    Params.from_file("config.json", overrides)


def embed(output: str) -> None:
    run_command(f"elmo-plugin embed-corpus text.txt {output} --bilm english-tiny")


def prepared(text: str) -> None:
    Path("raw.txt").write_text(text, encoding="utf-8")
    run_command("elmo-plugin prepare-text raw.txt out.txt --language en")


def cache_of_two_precisions() -> None:
    for precision in ("float32", "float16"):
        cache = Lazy(SentenceCache, Params({"path": "kept", "precision": precision}))
        Elmo(bilm="english-tiny", sentence_cache=cache)(elmo_plugin.batch_to_ids([["one"]]))


def evaluated_with(overrides: dict[str, Any]) -> None:
    """Load a trained model with overrides."""
    train()
    load_archive("run", overrides=overrides)


def exported(name: str, text: str, replacement: str) -> None:
    """Load the files of `english-tiny` after a replacement in one of them."""
    run_command("elmo-plugin convert-elmo english-tiny folder")
    path = Path("folder", name)
    path.write_text(re.sub(text, replacement, path.read_text(encoding="latin-1"), flags=re.S), encoding="latin-1")
    elmo_plugin.load("folder")


MISTAKES: dict[str, Callable[[], object]] = {
    "not in acceptable choices for": lambda: DatasetReader.from_params(Params({"type": "??"})),
    "expected the name of a": lambda: train(dataset_reader=READER | {"type": "colum_tags"}),
    "is not a registered name for 'Predictor'": lambda: Predictor.by_name("tagger"),
    "Experiment specified a GPU but none is available": lambda: train(trainer=TRAINER | {"cuda_device": 77}),
    "'cuda_device': expected": lambda: elmo_plugin.load("english-tiny", cuda_device=77),
    "expected a key of": lambda: train(model=tagger_with(droput=0.1)),
    "expected one of the config's blocks": lambda: override({"training.num_epochs": 2}),
    "got no such key": lambda: train(model={key: TAGGER[key] for key in ("type", "elmo")}),
    "expected a config, got": lambda: Params.from_file("config.yaml"),
    "expected a folder for the run, got a file": lambda: train("tags.conll"),
    "wandb to be installed": lambda: train(trainer=TRAINER | {"callbacks": ["wandb"]}),
    "expected a number, got": lambda: train(model=tagger_with(dropout="0.5")),
    "encoder.input_size': expected": lambda: train(model=TAGGER | {"encoder": TAGGER["encoder"] | {"input_size": 7}}),
    "'elmo_indexer': expected a token indexer": lambda: train(
        dataset_reader=READER | {"token_indexers": {"tokens": "single_id"}}
    ),
    "expected 'elmo_characters', or the indexer of its biLM": lambda: train(
        dataset_reader=READER | {"token_indexers": {"elmo": {"type": "single_id"}}}
    ),
    "undefined external variable": lambda: (
        Path("config.jsonnet").write_text("{ a: std.extVar('UNSET_VARIABLE') }"),
        Params.from_file("config.jsonnet"),
    ),
    "already exists and is not empty": lambda: train("."),
    "expected a tag that 'coding_scheme'": lambda: train(
        **reader_with("a\tO\nb\tI-LOC\nc\tL-PER\n", coding_scheme="BIO")
    ),
    "as in line 1, got": lambda: train(**reader_with("a b\nc d e\n")),
    "expected a list of tokens": lambda: elmo_plugin.load("english-tiny").embed(["Two words"]),
    "got padding before a token": lambda: Elmo(bilm="english-tiny")(
        elmo_plugin.batch_to_ids([["Two", "words"], ["One"]]).flip(1)
    ),
    "expected 'sentence' (a string) or 'tokens'": lambda: read_question({"text": "Hi"}),
    "expected UTF-8 text, got": lambda: train(**reader_with("a\tO\n\x00\tO\n")),
    "expected at most 4,194,304 bytes, got more": lambda: train(**reader_with("a" * 2**23)),
    "expected a blank line after each sentence": lambda: train(**reader_with(f"{'a' * 1000}\tO\n" * 1100)),
    "matches no file": lambda: pretrain("nowhere-*.txt"),
    "holds no biLM": lambda: elmo_plugin.load("englsh-tiny"),
    "log in with `hf auth login`": lambda: elmo_plugin.load("hf://user/none"),
    "it is an HTML page": lambda: exported("weights.hdf5", ".*", "<html>404</html>"),
    "expected numbers alone for": lambda: exported(
        "options.json", '"lstm"', '"contextualizer": {"type": "elmo_enhanced", "bilm": "english-tiny"}, "lstm"'
    ),
    "expected shape": lambda: exported("options.json", '"projection_dim": 256', '"projection_dim": 128'),
    "holds no warm state": lambda: elmo_plugin.load("english-tiny", initial_state="warm"),
    "expected the archive of a trained model": lambda: elmo_plugin.load("english-tiny", mix="trained"),
    "leave this key out of the overrides": lambda: evaluated_with({"model.elmo.bilm": "other"}),
    "was made with": cache_of_two_precisions,
    "exists already": lambda: (Path("v.npz").touch(), embed("v.npz")),
    "expected a name that ends in": lambda: embed("vectors.csv"),
    "got a page of HTML": lambda: prepared("<!DOCTYPE html>\n<html><body>One sentence.</body></html>\n"),
    "of the tokens with a letter": lambda: prepared("12 34 56\n78 90\n" * 50),
    "a list of words is no text": lambda: prepared("".join(f"word{chr(97 + n % 26)}\n" for n in range(300))),
}


def test_each_heading_is_tested() -> None:
    page = PAGE.read_text(encoding="utf-8")
    headings = re.findall(r"^### (.+)$", page, re.M)
    assert len(headings) >= 20
    assert set(headings) == NOT_RUN | set(MISTAKES)


@pytest.mark.slow
@pytest.mark.parametrize("heading", MISTAKES)
def test_a_mistake_prints_its_heading(
    heading: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    leave_hub: Callable[[], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    leave_hub()
    Path("tags.conll").write_text(TAGGED, encoding="utf-8")
    Path("config.yaml").touch()
    Path("text.txt").write_text("One sentence .\nAnd another .\n", encoding="utf-8")
    with pytest.raises((Exception, SystemExit)) as raised:
        MISTAKES[heading]()
    printed = f"{raised.value} {raised.value.__cause__} {capsys.readouterr()}"
    assert heading in printed
