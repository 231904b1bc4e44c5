"""Vectors in Parquet, for Arrow, pandas, Polars, DuckDB and Spark."""

import os
import shutil
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from allennlp.common.checks import ConfigurationError
from more_itertools import constrained_batches

from elmo_plugin.common import atomic_file
from elmo_plugin.embedding.corpus import Window
from elmo_plugin.embedding.vector_file import Layout, VectorFile
from elmo_plugin.text import BOUNDARIES

TOKENS_IN_GROUP = 8192
"""Tokens, sentence boundaries included, of the rows that are written together."""

Row = tuple[int, str, list[str], np.ndarray]


@VectorFile.register("parquet")
class ParquetFile(VectorFile):
    """Holds one row per line: `line`, its number from 0, `sentence`, `tokens`, and vectors.

    With all layers, each layer has a column, `layer_0` …; with a mix of them, the column is `vectors`. A cell holds a
    list with one vector per token, or one vector if they are pooled.

    The output is a folder of Parquet files, the parts themselves, in the order of the text. pandas, Arrow, Polars and
    Spark read such a folder as one table. The vectors of a window are in memory while its part is written: 600 MB for
    all layers of the original size.

    Registered as a `VectorFile` with name `parquet`. Raises `ConfigurationError` without pyarrow, which
    `elmo-plugin[parquet]` installs.

    # Parameters

    compress : `bool`
        Compress with Zstandard.
    """

    part_ending = ".parquet"

    def __init__(self, compress: bool = False) -> None:
        try:
            self._arrow, self._parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        except ImportError as error:
            raise ConfigurationError("parquet needs pyarrow: `pip install 'elmo-plugin[parquet]'`") from error
        self._compression = "zstd" if compress else "none"

    def write_part(self, path: Path, window: Window, arrays: Iterable[tuple[int, np.ndarray]], layout: Layout) -> None:
        """Write a window's rows to a Parquet file."""
        stored = {index: array.astype(layout.dtype) for index, array in arrays}
        rows = ((window.start + index, *line, stored[index]) for index, line in enumerate(window.sentences))
        groups = constrained_batches(rows, TOKENS_IN_GROUP, get_len=lambda row: len(row[2]) + BOUNDARIES, strict=False)
        schema, compression = self._schema(layout), self._compression
        with (
            atomic_file(path) as partial,
            self._parquet.ParquetWriter(partial, schema, compression=compression, use_dictionary=False) as writer,
        ):
            for group in groups:
                writer.write_table(self._table(group, layout, schema))

    def join(self, parts: Path, target: Path, layout: Layout, progress: bool = True) -> None:
        """Rename the folder of the parts. A text without lines gets one file without rows, which holds the schema."""
        if not any(path.suffix == self.part_ending for path in parts.iterdir()):
            shutil.rmtree(parts)
            # Not in `parts`, where a resumed run would take the file for the part of a window.
            parts = parts.with_name("without_rows")
            parts.mkdir(exist_ok=True)
            self.write_part(parts / f"0{self.part_ending}", Window(0, []), [], layout)
        os.replace(parts, target)

    def _to_params(self) -> dict[str, Any]:
        return {"type": "parquet", "compress": self._compression != "none"}

    def _schema(self, layout: Layout) -> Any:
        arrow = self._arrow
        vector = arrow.list_(arrow.from_numpy_dtype(np.dtype(layout.dtype)), layout.shape[-1])
        vectors = arrow.list_(vector) if layout.is_by_token else vector
        names = [f"layer_{layer}" for layer in range(layout.shape[0])] if layout.is_by_layer else ["vectors"]
        about = {"line": arrow.int64(), "sentence": arrow.string(), "tokens": arrow.list_(arrow.string())}
        return arrow.schema({**about, **dict.fromkeys(names, vectors)})

    def _table(self, rows: Sequence[Row], layout: Layout, schema: Any) -> Any:
        lines, texts, tokens, arrays = zip(*rows, strict=True)
        columns = []
        for column in zip(*arrays, strict=True) if layout.is_by_layer else [arrays]:  # arrays (T, D) or (D,)
            values = self._arrow.array(np.concatenate([array.reshape(-1) for array in column]))
            vectors = self._arrow.FixedSizeListArray.from_arrays(values, layout.shape[-1])
            if layout.is_by_token:
                ends = self._arrow.array(np.cumsum([0, *map(len, column)], dtype=np.int32))
                vectors = self._arrow.ListArray.from_arrays(ends, vectors)
            columns.append(vectors)
        return self._arrow.table([lines, texts, tokens, *columns], schema=schema)
