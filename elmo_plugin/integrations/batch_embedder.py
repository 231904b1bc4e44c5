"""ELMo for engines that process batches of columns: Ray Data, Hugging Face `datasets`, Daft and Spark."""

import sys
from copy import copy
from importlib import import_module
from typing import Any, Optional, final

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.common import at_least
from elmo_plugin.embedding import use_one_thread_in_a_fork
from elmo_plugin.integrations.shared import TextEmbedder, Tokenize, pooling_named


@final
class BatchEmbedder(TextEmbedder):
    """Adds a column of vectors to a batch of columns. A row's vectors do not depend on the other rows.

    Each process loads the biLM at its first batch. A pickle holds the name of the biLM but not its weights, so that an
    engine can send it to workers, and `datasets` can tell that a call repeats an earlier one with the same files.

    # Parameters

    input_column : `str`
        The column to read. A row is a text or a list of tokens. A missing row (`None`, NaN) has no tokens.
    output_column : `str`
        The column to add, a list of float32 arrays.
    pooling : `Optional[str]`
        `mean` or `max` over the tokens of a row for one vector per row (D), zeros for a row without tokens; `None` for
        one vector per token, (T, D).
    bilm, mix, precision, cuda_device, initial_state
        As in `elmo_plugin.load`. With `concatenate` or `all`, a vector has L · D numbers, the token layer first.
    tokenizer : `Optional[Tokenize]`
        A function that splits a text into tokens, such as `str.split`; by default spaCy's rules for English.
    num_threads : `Optional[int]`
        The number of PyTorch threads in each process. The default is one in a forked process, such as those of
        `datasets`, and PyTorch's own default elsewhere: `OMP_NUM_THREADS`, which Ray and Spark set, or all cores.

    Raises `ConfigurationError` for an unknown pooling, for a batch without the column and for a row that is not a text;
    at the first batch also for values that `load` rejects.

    >>> embed = BatchEmbedder(bilm="english-tiny")
    >>> [vector.shape for vector in embed({"text": ["The ship sank.", None]})["elmo"]]
    [(512,), (512,)]
    """

    def __init__(
        self,
        input_column: str = "text",
        output_column: str = "elmo",
        pooling: Optional[str] = "mean",
        bilm: str = "english-tiny",
        mix: str = "average",
        precision: str = "float32",
        cuda_device: int = -1,
        initial_state: Optional[str] = None,
        tokenizer: Optional[Tokenize] = None,
        num_threads: Optional[int] = None,
    ) -> None:
        super().__init__(bilm, mix, pooling, tokenizer, precision, cuda_device, initial_state)
        at_least(1, num_threads=num_threads)
        if pooling is not None:
            pooling_named(pooling)
        self.input_column = input_column
        self.output_column = output_column
        self.num_threads = num_threads

    def __call__(self, batch: Any) -> Any:
        """Return a copy of the batch with the column of vectors.

        A batch has columns of equal length, by their names: it is a mapping, a `DataFrame`, or a `Table` of pyarrow.
        """
        if type(batch).__module__.startswith("pyarrow."):
            return self._with_arrow_column(batch)
        return self._with_column(batch)

    def _with_column(self, batch: Any) -> Any:
        """Return a copy of a dict, a `DataFrame` or the like with the column of vectors."""
        if not hasattr(batch, "keys"):
            raise ConfigurationError(
                f"expected a batch of columns, such as a dict or a DataFrame, got a {type(batch).__name__}"
            )
        if self.input_column not in batch:
            raise ConfigurationError(
                f"'input_column': expected one of the columns {', '.join(map(repr, batch)) or 'none'}, got "
                f"{self.input_column!r}"
            )
        column = batch[self.input_column]
        if isinstance(column, str):
            raise ConfigurationError(
                f"column '{self.input_column}': expected the rows of a batch, got the string {column[:100]!r}; "
                "`map` of `datasets` gives batches with `batched=True`"
            )
        rows = column.to_pylist() if hasattr(column, "to_pylist") else column  # Arrow's own values are no strings
        if self.num_threads is not None:
            use_one_thread_in_a_fork()  # or it would replace the number later
            torch.set_num_threads(self.num_threads)
        texts = [[] if _is_missing(row) else row for row in rows]
        embedded = copy(batch)
        embedded[self.output_column] = self._embed(
            texts, np.copy if self.pooling is None else pooling_named(self.pooling)
        )
        return embedded

    def _with_arrow_column(self, table: Any) -> Any:
        """Return a table of pyarrow with the column of vectors."""
        pyarrow: Any = import_module("pyarrow")
        # Not by `__call__`, which Ray runs in the only thread of an executor: a second call would wait for the first.
        vectors = self._with_column({name: table.column(name) for name in table.column_names})[self.output_column]
        kind = pyarrow.list_(pyarrow.float32())
        if self.pooling is None:
            vectors, kind = [list(array) for array in vectors], pyarrow.list_(kind)
        column = pyarrow.array(vectors, type=kind)
        if self.output_column in table.column_names:
            return table.set_column(table.column_names.index(self.output_column), self.output_column, column)
        return table.append_column(self.output_column, column)


def _is_missing(row: object) -> bool:
    of_pandas = getattr(sys.modules.get("pandas"), "NA", None)
    return row is None or row is of_pandas or (isinstance(row, float | np.floating) and bool(np.isnan(row)))
