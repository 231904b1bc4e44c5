"""What a user may do wrong in a config or with a file, and what they are told."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.predictors import Predictor

from tests.oracles import options
from tests.task_oracles import (
    OPINIONS,
    TOWNS,
    Config,
    D,
    bilm_files,
    classifier,
    csv_reader,
    experiment,
    lstm,
    tagger,
    tags_reader,
    train,
)

ROOT = Path(__file__).resolve().parents[2]
RANDOM = {"bilm": {"options": options().to_dict(), "seed": 0}}


def stock_tagger(elmo: Config, **encoder: Any) -> Config:
    """AllenNLP's own tagger on `elmo` alone."""
    embedder = {"type": "basic", "token_embedders": {"elmo": {"type": "elmo", **elmo}}}
    return {"type": "simple_tagger", "text_field_embedder": embedder, "encoder": {**lstm(D), **encoder}}


def towns(model: Config, data: Path = TOWNS) -> Config:
    return experiment(model, tags_reader(token_indexers={"elmo": {"type": "elmo_characters"}}), data)


def error_of(config: Config, folder: Path) -> str:
    """What `allennlp train` says, before it has written any weights."""
    with pytest.raises(ConfigurationError) as caught:
        train(config, folder / "run")
    assert not list((folder / "run").glob("*.th"))
    return str(caught.value)


def cut_in_half(files: Config) -> None:
    path = Path(files["weight_file"])
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def write_text_for_weights(files: Config) -> None:
    Path(files["weight_file"]).write_text("not weights at all\n", encoding="utf-8")


def empty_weights(files: Config) -> None:
    Path(files["weight_file"]).write_bytes(b"")


def drop_the_projection(files: Config) -> None:
    path = Path(files["options_file"])
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["lstm"]["projection_dim"]
    path.write_text(json.dumps(content), encoding="utf-8")


def break_the_json(files: Config) -> None:
    Path(files["options_file"]).write_text('{"lstm": ', encoding="utf-8")


def write_latin_1(files: Config) -> None:
    Path(files["options_file"]).write_bytes('{"char_cnn": "Ü"}'.encode("latin-1"))


def swap_the_files(files: Config) -> None:
    files["options_file"], files["weight_file"] = files["weight_file"], files["options_file"]


def remove_the_weights(files: Config) -> None:
    Path(files["weight_file"]).unlink()


@pytest.mark.parametrize(
    ("spoil", "wanted"),
    [
        (remove_the_weights, ["'weight_file' is '", "weights.hdf5', which cannot be had"]),
        (cut_in_half, ["'weight_file' ", "weights.hdf5 is no complete hdf5 file"]),
        (write_text_for_weights, ["'weight_file' ", "weights.hdf5 is no complete hdf5 file"]),
        (empty_weights, ["'weight_file' ", "weights.hdf5 is no complete hdf5 file"]),
        (
            drop_the_projection,
            ["'options_file' ", "options.json: the key 'lstm.projection_dim' is missing"],
        ),
        (break_the_json, ["'options_file' ", "options.json: Expecting value: line 1"]),
        (write_latin_1, ["'options_file' ", "options.json: 'utf-8' codec can't decode byte 0xdc"]),
        (swap_the_files, ["'options_file' ", "weights.hdf5", "swapped"]),
    ],
)
@pytest.mark.parametrize("model", [tagger, stock_tagger])
def test_a_spoilt_file_is_named_with_what_is_wrong_with_it(
    model: Callable[..., Config], spoil: Callable[[Config], None], wanted: list[str], tmp_path: Path
) -> None:
    files = bilm_files(tmp_path / "bilm")
    spoil(files)
    found = error_of(towns(model(files)), tmp_path)
    position = 0
    for part in wanted:
        assert part in found[position:], found
        position = found.index(part, position)


@pytest.mark.parametrize("model", [tagger, stock_tagger, classifier])
@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ({"mix": "sclar"}, "elmo.mix': expected one of scalar, average, "),
        (
            {"mix": {"type": "scalar", "initial_scalar_parameters": [0.0, 1.0]}},
            "'mix': 'initial_scalar_parameters' has 2 numbers; wanted 3",
        ),
        ({"scalar_mix_parameters": [0, 0, 0, 1]}, "'scalar_mix_parameters': 'initial_scalar_parameters' has 4 n"),
        ({"initial_state": "hot"}, "elmo.initial_state': expected one of zero, warm, "),
        ({"initial_state": "warm"}, "'initial_state' is 'warm', but random:0 holds no warm state"),
        ({"precision": "half"}, "'precision': expected one of float32, bfloat16, auto, got 'half'"),
        ({"kernel": "cuda"}, "'kernel': expected one of auto, "),
    ],
)
def test_a_choice_that_there_is_not_is_told_with_those_there_are(
    model: Callable[..., Config], keys: Config, wanted: str, tmp_path: Path
) -> None:
    reader, data = (csv_reader(), OPINIONS) if model is classifier else (tags_reader(), TOWNS)
    found = error_of(experiment(model({**RANDOM, **keys}), reader, data), tmp_path)
    assert wanted in found


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("/no/such/place", "'/no/such/place' holds no biLM: there is no such file or folder"),
        ("/no/such/model.tar.gz", "'/no/such/model.tar.gz' holds no biLM: there is no such file or folder"),
        ("/no/such/weights.hdf5", "'/no/such/weights.hdf5' holds no biLM: there is no such file or folder"),
    ],
)
def test_a_pretrained_bilm_that_is_not_there_is_told_with_its_path(source: str, wanted: str, tmp_path: Path) -> None:
    assert error_of(towns(stock_tagger({"bilm": {"pretrained": source}})), tmp_path).startswith(wanted)


@pytest.mark.parametrize("make", [tagger, classifier])
def test_a_misspelt_place_of_elmo_is_told_with_the_two_there_are(make: Callable[..., Config], tmp_path: Path) -> None:
    reader, data = (csv_reader(), OPINIONS) if make is classifier else (tags_reader(), TOWNS)
    found = error_of(experiment(make(RANDOM, elmo_at=["output", "imput"]), reader, data), tmp_path)
    assert found == "'elmo_at' is ['output', 'imput']; wanted one or both of ['input', 'output']"


@pytest.mark.parametrize(("num_layers", "width"), [(2, 32), (4, 64)])
def test_layers_that_elmo_enhanced_expects_in_vain_are_told_in_numbers(
    num_layers: int, width: int, tmp_path: Path
) -> None:
    elmo = {**RANDOM, "mix": "concatenate"}
    sizes = {"num_elmo_layers": num_layers, "layer_dim": D}
    encoder = {"type": "elmo_enhanced", "encoder": lstm(D), **sizes}
    model = {**stock_tagger(elmo), "encoder": encoder}
    wanted = f"text field embedding dim must match encoder input dim, but got 48 and {width} instead"
    assert error_of(towns(model), tmp_path) == wanted


@pytest.mark.parametrize("content", [b"", b"\n\n \n", b"-DOCSTART- O\n\n"])
def test_tagged_data_without_a_sentence_is_told_with_its_file(content: bytes, tmp_path: Path) -> None:
    data = tmp_path / "nothing.txt"
    data.write_bytes(content)
    assert error_of(towns(tagger(RANDOM), data), tmp_path) == f"{data}: found no sentence; wanted lines of columns"


def test_labelled_data_without_a_row_is_told_with_its_file(tmp_path: Path) -> None:
    data = tmp_path / "nothing.csv"
    data.write_bytes(b"\n")
    found = error_of(experiment(classifier(RANDOM), csv_reader(), data), tmp_path)
    assert found == f"{data}: found no row; wanted a text in each"


@pytest.mark.parametrize("kind", ["tagged", "labelled"])
def test_bytes_that_are_not_utf_8_are_told_with_their_line(kind: str, tmp_path: Path) -> None:
    data = tmp_path / "latin.txt"
    lines = b"Oslo B-LOC\nTroms\xf8 B-LOC\n" if kind == "tagged" else b"good,fine\nbad,na\xefve\n"
    data.write_bytes(lines)
    config = towns(tagger(RANDOM), data) if kind == "tagged" else experiment(classifier(RANDOM), csv_reader(), data)
    byte = "0xf8" if kind == "tagged" else "0xef"
    assert error_of(config, tmp_path).startswith(f"{data}, line 2: found byte {byte}; wanted UTF-8")


@pytest.fixture(scope="module")
def tagger_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tagger")
    train(towns(tagger(RANDOM)), folder)
    return folder / "model.tar.gz"


def test_a_word_of_10000_characters_is_answered_by_what_is_read_of_it(tagger_archive: Path) -> None:
    predictor = Predictor.from_path(str(tagger_archive), predictor_name="elmo_embedder")
    words = ["x" * 10_000, "x" * 48, "🙂" * 10_000, "🙂" * 12]  # 48 bytes of each
    long, cut, longs, cuts = predictor.predict_batch_json([{"tokens": [word]} for word in words])
    assert long["default"] == pytest.approx(cut["default"], abs=1e-6) and len(long["elmo"]) == 1
    assert longs["default"] == pytest.approx(cuts["default"], abs=1e-6) and longs["default"] != long["default"]


def test_a_sentence_of_5000_words_has_5000_tags(tagger_archive: Path) -> None:
    predictor = Predictor.from_path(str(tagger_archive))
    answer = predictor.predict_json({"tokens": ["to", "Quill"] * 2_500})
    assert len(answer["tags"]) == len(answer["probabilities"]) == 5_000


def test_a_text_of_5000_words_has_a_label(tmp_path: Path) -> None:
    train(experiment(classifier(RANDOM), csv_reader(), OPINIONS), tmp_path)
    predictor = Predictor.from_path(str(tmp_path / "model.tar.gz"))
    assert predictor.predict_json({"sentence": "so it goes " * 1_700})["label"] in ("good", "bad", "mixed")


def test_the_last_line_on_the_command_line_is_the_message(tmp_path: Path) -> None:
    config = towns(stock_tagger({**bilm_files(tmp_path / "bilm"), "weight_file": "weights.hdf"}))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    command = [sys.executable, "-m", "allennlp", "train", str(path), "-s", str(tmp_path / "run")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    wanted = "'weight_file' is 'weights.hdf', which cannot be had: "
    assert result.stderr.splitlines()[-1].startswith(f"allennlp: {wanted}")
    assert "Traceback" not in result.stderr and "Traceback" in (tmp_path / "run" / "out.log").read_text("utf-8")
