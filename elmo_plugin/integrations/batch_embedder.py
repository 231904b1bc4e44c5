"""ELMo for engines that pass batches of columns: Ray Data, Hugging Face `datasets`, Daft and Spark."""

import os
import sys
from collections.abc import Callable, MutableMapping
from copy import copy
from typing import Any, Optional, final

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.config_keys import at_least
from elmo_plugin.embedding import Embedder, load
from elmo_plugin.integrations.texts import Tokenize, pooling_named, tokenized

Batch = MutableMapping[str, Any]
"""Columns of equal length by name."""


@final
class BatchEmbedder:
    """Adds a column of vectors to a batch of columns. A row's vectors do not depend on the other rows.

    The biLM is loaded at the first batch, once per process. A pickle holds its name and not its weights, so that
    engines can send it to workers, and so that `datasets` recognises the same call again.

    # Parameters

    input_column : `str`
        The column that is read. A row is a text, or a list of its tokens. A missing one (`None`, NaN) has no tokens.
    output_column : `str`
        The column that is added, a list of float32 arrays.
    pooling : `Optional[str]`
        `mean` or `max` over the tokens of a row, which has one vector (D) then, zeros for a row without tokens; `None`
        for a vector per token, (T, D).
    bilm, mix, precision, cuda_device, initial_state
        As in `elmo_plugin.load`. With `concatenate`, or its other name `all`, a vector has L · D numbers, those of the
        token layer first.
    tokenizer : `Optional[Tokenize]`
        A function that splits a text into tokens, such as `str.split`; by default spaCy's rules for English.
    num_threads : `Optional[int]`
        The number of PyTorch's threads in each process. By default one in a forked process, as `datasets` starts them,
        and elsewhere what PyTorch takes: `OMP_NUM_THREADS`, which Ray and Spark set, or all cores.

    Raises `ConfigurationError` for another pooling, for a batch without the column and for a row that is no text; at
    the first batch also for values that `load` rejects.

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
        at_least(1, num_threads=num_threads)
        if pooling is not None:
            pooling_named(pooling)
        self.input_column = input_column
        self.output_column = output_column
        self.pooling = pooling
        self.tokenizer = tokenizer
        self.num_threads = num_threads
        self._keys = (bilm, "concatenate" if mix == "all" else mix, precision, cuda_device, initial_state)
        self._embedder: Optional[Embedder] = None
        self._set_up_in: Optional[int] = None

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with the column of vectors. The given batch is left as it is."""
        if not hasattr(batch, "keys"):
            raise ConfigurationError(
                f"expected a batch of columns, such as a dict or a DataFrame, got a {type(batch).__name__}"
            )
        if self.input_column not in batch:
            columns = ", ".join(map(repr, batch)) or "none"
            raise ConfigurationError(
                f"'input_column': expected one of the columns {columns}, got {self.input_column!r}"
            )
        column = batch[self.input_column]
        if isinstance(column, str):
            raise ConfigurationError(
                f"column '{self.input_column}': expected the rows of a batch, got the string {column[:100]!r}; "
                "`map` of `datasets` gives batches with `batched=True`"
            )
        rows = column.to_pylist() if hasattr(column, "to_pylist") else column  # an Arrow array holds no plain values
        sentences = tokenized([[] if _is_missing(row) else row for row in rows], self.tokenizer)
        pool: Callable[[np.ndarray], np.ndarray] = np.asarray if self.pooling is None else pooling_named(self.pooling)
        embedded = copy(batch)
        embedded[self.output_column] = [pool(array) for array in self._loaded().embed(sentences)]
        return embedded

    def _loaded(self) -> Embedder:
        if self.num_threads is not None and self._set_up_in != os.getpid():
            torch.set_num_threads(self.num_threads)
            self._set_up_in = os.getpid()
        if self._embedder is None:
            self._embedder = load(*self._keys)
        return self._embedder

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_embedder": None, "_set_up_in": None}


def _is_missing(row: object) -> bool:
    if row is None or row is getattr(sys.modules.get("pandas"), "NA", None):
        return True
    return isinstance(row, float | np.floating) and bool(np.isnan(row))
