"""Each format read back by the library that people read it with."""

import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import h5py
import numpy as np
import pytest
from allennlp.common.checks import ConfigurationError
from h5py import h5f
from hypothesis import given
from hypothesis import strategies as st
from more_itertools import chunked

from elmo_plugin.embedding import Hdf5File, NpzFile, ParquetFile, VectorFile, sentence_key
from elmo_plugin.embedding.corpus import Window
from elmo_plugin.embedding.vector_files import Layout
from elmo_plugin.text import AsciiSpacesTokenizer
from tests.full_disk import disk_of

MANY = ["eleven", "lines", "are sorted", "by number"]
TEXTS = ["The cat", "", "and / or", "The cat", ".", "%2F", "/", "50 % of", "日本語 🙂", "sentence_to_index", *MANY]
LAYOUTS = {
    "all": Layout((3, -1, 4), "float32"),
    "mix": Layout((-1, 4), "float16"),
    "pooled": Layout((3, 4), "float16"),
    "pooled mix": Layout((4,), "float32"),
}
FORMS = list(zip(LAYOUTS.values(), [False, True] * 2, strict=True))
"""Each layout, and whether to compress."""


class Embedded(NamedTuple):
    """A line and its vectors."""

    line: int
    text: str
    tokens: list[str]
    vectors: np.ndarray


def embedded(layout: Layout, texts: list[str] = TEXTS) -> Iterator[Embedded]:
    """Sentences with numbers that are all different; repeated ones with the same."""
    for line, text in enumerate(texts):
        tokens = text.split()
        shape = tuple(len(tokens) if size == -1 else size for size in layout.shape)
        vectors = np.arange(np.prod(shape), dtype=layout.dtype).reshape(shape) + 100 * texts.index(text)
        yield Embedded(line, text, tokens, vectors)


def write(
    file: VectorFile, path: Path, sentences: Iterable[Embedded], layout: Layout, lines: int = 5, ids: bool = False
) -> None:
    """Write parts of `lines` lines, in reverse order, and join them."""
    folder = path.with_name(f"{path.name}.parts")
    folder.mkdir()
    parts = []
    for rows in chunked(sentences, lines):
        names = [f"sp|{each.line}/a" for each in rows] if ids else None
        window = Window(rows[0].line, [each.text for each in rows], names, AsciiSpacesTokenizer())
        parts.append(folder / f"{window.name({})}{file.ending}")
        file.write_part(parts[-1], window, ((i, rows[i].vectors) for i in reversed(range(len(rows)))), layout)
    file.join(parts, path, path.with_suffix(".partial"), layout)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize(("layout", "compress"), FORMS, ids=LAYOUTS)
def test_hdf5_has_one_dataset_per_line_and_an_index(tmp_path: Path, layout: Layout, compress: bool) -> None:
    write(Hdf5File(compress), tmp_path / "file", embedded(layout), layout)
    with h5py.File(tmp_path / "file") as file:
        assert list(file) == [*map(str, range(len(TEXTS))), "sentence_to_index"]
        for sentence in embedded(layout):
            dataset = file[str(sentence.line)]
            assert dataset.dtype == layout.dtype
            np.testing.assert_array_equal(dataset[()], sentence.vectors)
            assert dataset.compression == ("gzip" if compress and sentence.vectors.size else None)
        assert file["sentence_to_index"].shape == (1,)
        index = json.loads(file["sentence_to_index"][0])
    assert index == {text: str(line) for line, text in enumerate(TEXTS) if text}


def test_hdf5_with_sentence_keys_has_each_sentence_once(tmp_path: Path) -> None:
    write(Hdf5File(use_sentence_keys=True), tmp_path / "file", embedded(LAYOUTS["all"]), LAYOUTS["all"])
    with h5py.File(tmp_path / "file") as file:
        assert [unquote(key) for key in file] == [text for text in dict.fromkeys(TEXTS) if text]
        quoted = ["and %2F or", "%2E", "%252F", "%2F", "50 % of", "日本語 🙂", "%73entence_to_index"]
        assert list(file) == ["The cat", *quoted, *MANY]
        for sentence in embedded(LAYOUTS["all"]):
            if sentence.text:
                np.testing.assert_array_equal(file[sentence_key(sentence.text)][()], sentence.vectors)


@pytest.mark.parametrize("file", [Hdf5File(), NpzFile(), ParquetFile()], ids=lambda file: file.ending)
def test_ids_are_the_keys_in_every_format(tmp_path: Path, file: VectorFile) -> None:
    write(file, tmp_path / "file", embedded(LAYOUTS["all"]), LAYOUTS["all"], ids=True)
    wanted = {f"sp|{each.line}/a": each for each in embedded(LAYOUTS["all"])}
    if isinstance(file, ParquetFile):
        table = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "file").to_pylist()
        found = {row["id"]: [row[f"layer_{layer}"] for layer in range(3)] for row in table}
        assert [row["line"] for row in table] == list(range(len(TEXTS)))
    elif isinstance(file, NpzFile):
        with np.load(tmp_path / "file") as archive:
            found = dict(archive)
    else:
        with h5py.File(tmp_path / "file") as opened:
            index = json.loads(opened["sentence_to_index"][0])
            found = {unquote(key): dataset[()] for key, dataset in opened.items() if key != "sentence_to_index"}
        assert index["and / or"] == sentence_key("sp|2/a") in map(sentence_key, found)
    assert list(found) == list(wanted)
    for key, each in wanted.items():
        np.testing.assert_array_equal(np.reshape(found[key], each.vectors.shape), each.vectors)


def test_an_id_may_be_the_name_of_the_index(tmp_path: Path) -> None:
    layout = LAYOUTS["mix"]
    window = Window(0, ["one", "two"], ["sentence_to_index", "b"], AsciiSpacesTokenizer())
    Hdf5File().write_part(tmp_path / "part", window, [(0, np.ones((1, 4))), (1, np.zeros((1, 4)))], layout)
    Hdf5File().join([tmp_path / "part"], tmp_path / "file", tmp_path / "temporary", layout)
    with h5py.File(tmp_path / "file") as file:
        assert json.loads(file["sentence_to_index"][0]) == {"one": sentence_key("sentence_to_index"), "two": "b"}
        np.testing.assert_array_equal(file[sentence_key("sentence_to_index")], np.ones((1, 4)))


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1) | st.just("sentence_to_index"))
def test_a_key_decodes_to_its_sentence_and_is_not_a_path(sentence: str) -> None:
    key = sentence_key(sentence)
    assert unquote(key) == sentence and "/" not in key and key not in (".", "sentence_to_index")


@pytest.mark.parametrize("share", [0.001, 0.5, 0.999999])
def test_hdf5_on_a_full_disk_says_so_and_leaves_nothing_open(tmp_path: Path, share: float) -> None:
    """With an open object, the process would end with hdf5's complaints, or crash."""
    layout, texts = LAYOUTS["all"], ["word " * 100] * 50
    write(Hdf5File(), tmp_path / "whole", embedded(layout, texts), layout)
    room = int(share * (tmp_path / "whole").stat().st_size)
    with pytest.raises((OSError, ConfigurationError), match="File too large"), disk_of(room):
        write(Hdf5File(), tmp_path / "file", embedded(layout, texts), layout)
    assert h5f.get_obj_count(h5f.OBJ_ALL, h5f.OBJ_FILE | h5f.OBJ_DATASET) == 0


@pytest.mark.parametrize(("layout", "compress"), FORMS, ids=LAYOUTS)
def test_npz_has_one_array_per_line(tmp_path: Path, layout: Layout, compress: bool) -> None:
    write(NpzFile(compress), tmp_path / "file.npz", embedded(layout), layout)
    with np.load(tmp_path / "file.npz") as file:
        assert file.files == [str(line) for line in range(len(TEXTS))]
        for sentence in embedded(layout):
            found = file[str(sentence.line)]
            assert found.dtype == layout.dtype
            np.testing.assert_array_equal(found, sentence.vectors)


@pytest.mark.parametrize(("layout", "compress"), FORMS, ids=LAYOUTS)
def test_parquet_has_one_row_per_line_and_one_column_per_layer(tmp_path: Path, layout: Layout, compress: bool) -> None:
    arrow: Any = pytest.importorskip("pyarrow.parquet")
    write(ParquetFile(compress), tmp_path / "file", embedded(layout), layout)
    table = arrow.read_table(tmp_path / "file")
    names = ["layer_0", "layer_1", "layer_2"] if layout.is_by_layer else ["vectors"]
    assert table.column_names == ["line", "sentence", "tokens", *names]
    for row, sentence in zip(table.to_pylist(), embedded(layout), strict=True):
        assert (row["line"], row["sentence"], row["tokens"]) == sentence[:3]
        wanted = sentence.vectors if layout.is_by_layer else [sentence.vectors]
        assert [row[name] for name in names] == [layer.tolist() for layer in wanted]
    value = table.schema.field(names[0]).type
    assert (value.value_type if layout.is_by_token else value).list_size == 4
    group = arrow.ParquetFile(min((tmp_path / "file").iterdir())).metadata.row_group(0)
    column = group.column(group.num_columns - 1)
    assert column.compression == ("ZSTD" if compress else "UNCOMPRESSED")


def test_parquet_without_pyarrow_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigurationError, match=r"pip install 'elmo-plugin\[parquet\]'"):
        ParquetFile()
