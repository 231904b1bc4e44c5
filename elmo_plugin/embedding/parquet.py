"""Vectors in Parquet, for Arrow, pandas, Polars, DuckDB and Spark."""

from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from allennlp.common.checks import ConfigurationError
from more_itertools import constrained_batches

from elmo_plugin.embedding.vector_file import EmbeddedSentence, Layout, VectorFile
from elmo_plugin.text import BOUNDARIES

TOKENS_IN_GROUP = 8192
"""Tokens, sentence boundaries included, of the rows that are written together."""


@VectorFile.register("parquet")
class ParquetFile(VectorFile):
    """A row a line: `line`, its number from 0, `sentence`, `tokens`, and vectors.

    All layers are a column each, `layer_0` …; a mix of them is the column `vectors`. Either holds a list with a vector
    a token, or one vector where they are pooled.

    Registered as a `VectorFile` with name `parquet`. Needs pyarrow, `elmo-plugin[parquet]`; raises
    `ConfigurationError` without.

    # Parameters

    compress : `bool`
        By Zstandard.
    """

    def __init__(self, compress: bool = False) -> None:
        try:
            self._arrow, self._parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        except ImportError as error:
            raise ConfigurationError("parquet needs pyarrow: `pip install 'elmo-plugin[parquet]'`") from error
        self._compression = "zstd" if compress else "none"

    def write(self, path: Path, sentences: Iterable[EmbeddedSentence], layout: Layout) -> None:
        """Write the arrays of sentences to a new file."""
        schema = self._schema(layout)
        groups = constrained_batches(sentences, TOKENS_IN_GROUP, get_len=_length, strict=False)
        with self._parquet.ParquetWriter(path, schema, compression=self._compression, use_dictionary=False) as writer:
            for group in groups:
                writer.write_table(self._table(group, layout, schema))

    def _to_params(self) -> dict[str, Any]:
        return {"type": "parquet", "compress": self._compression != "none"}

    def _schema(self, layout: Layout) -> Any:
        arrow = self._arrow
        vector = arrow.list_(arrow.from_numpy_dtype(np.dtype(layout.dtype)), layout.shape[-1])
        vectors = arrow.list_(vector) if layout.is_by_token else vector
        names = [f"layer_{layer}" for layer in range(layout.shape[0])] if layout.is_by_layer else ["vectors"]
        about = {"line": arrow.int64(), "sentence": arrow.string(), "tokens": arrow.list_(arrow.string())}
        return arrow.schema({**about, **dict.fromkeys(names, vectors)})

    def _table(self, group: Sequence[EmbeddedSentence], layout: Layout, schema: Any) -> Any:
        lines, texts, tokens, arrays = zip(*group, strict=True)
        by_column = zip(*arrays, strict=True) if layout.is_by_layer else [arrays]
        columns = [self._vectors(column, layout) for column in by_column]
        return self._arrow.table([lines, texts, tokens, *columns], schema=schema)

    def _vectors(self, arrays: Sequence[np.ndarray], layout: Layout) -> Any:
        """A column of arrays, (T, D) or (D,) each."""
        values = np.concatenate([array.reshape(-1) for array in arrays])
        vectors = self._arrow.FixedSizeListArray.from_arrays(self._arrow.array(values), layout.shape[-1])
        if not layout.is_by_token:
            return vectors
        ends = np.cumsum([0, *map(len, arrays)], dtype=np.int32)
        return self._arrow.ListArray.from_arrays(self._arrow.array(ends), vectors)


def _length(sentence: EmbeddedSentence) -> int:
    return len(sentence.tokens) + BOUNDARIES
