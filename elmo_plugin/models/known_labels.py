"""The labels that a model can predict, and unseen labels: those in its data that were not in the training data."""

import json
import logging
import multiprocessing
import os
import weakref
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from tempfile import gettempdir
from typing import Optional
from zlib import crc32

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from torch import BoolTensor, Tensor

logger = logging.getLogger(__name__)

UNSEEN = "@@UNSEEN@@"
"""Stands for an unseen label whose name another process read and could not pass on."""


class KnownLabels:
    """The labels of a model, with indices 0 to `size` − 1. Any other label in the data counts as an error of the model.

    A label field asks the vocabulary for the index of each label, and AllenNLP raises `KeyError` for an unseen label.
    `KnownLabels` makes the vocabulary answer with a negative index instead. The vocabulary of a model without
    `KnownLabels` still raises, because such a model would use the index.

    >>> vocab = Vocabulary({"labels": {"good": 2, "bad": 1}})
    >>> labels = KnownLabels(vocab, "labels")
    >>> labels.size, vocab.get_token_index("ugly", "labels") < 0
    (2, True)

    # Parameters

    vocab : `Vocabulary`
    namespace : `str`
    size : `Optional[int]`
        The number of labels if they are integers. The default is the size of the namespace.

    Raises `ConfigurationError` if there are no labels.
    """

    def __init__(self, vocab: Vocabulary, namespace: str, size: Optional[int] = None) -> None:
        self.namespace = namespace
        # A lookup would create a missing namespace, and AllenNLP cannot save an empty one.
        exists = namespace in vocab.get_namespaces()
        self._names = vocab.get_index_to_token_vocabulary(namespace) if exists else {}
        self.size = len(self._names) if size is None else size
        if self.size < 1 or (size is None and {*self._names.values()} <= {vocab._padding_token, vocab._oov_token}):
            raise ConfigurationError(
                f"'label_namespace' {namespace!r}: expected labels in the vocabulary, got none (it has the namespaces "
                f"{sorted(vocab.get_namespaces())}); for integer labels set 'num_labels'"
            )
        indices = vocab.get_token_to_index_vocabulary(namespace) if exists else {}
        if not isinstance(indices, _Indices):
            indices = _Indices(indices)
        if exists:
            vocab._token_to_index[namespace] = indices
        self._indices = indices
        self._reported: set[int] = set()

    def name(self, index: int) -> str:
        """Return the name of the label with this index, which may be unseen."""
        return self._names.get(index) or (self._indices.unseen_label(index) if index < 0 else str(index))

    def are_known(self, indices: Tensor) -> BoolTensor:
        """Return which gold labels the model can predict, in the shape of `indices`."""
        return (indices >= 0) & (indices < self.size)  # type: ignore[return-value]

    def check(self, indices: Tensor, training: bool) -> None:
        """Warn once about each gold label that the model cannot predict.

        Raises `ConfigurationError` in training, because the model cannot learn such a label.
        """
        unseen = set(indices[~self.are_known(indices)].tolist())
        if unseen and training and torch.is_grad_enabled():
            raise ConfigurationError(
                f"training data: expected labels among the {self.size} of the model (namespace {self.namespace!r}), "
                f"got {self._list(unseen)}"
            )
        if not unseen <= self._reported:
            unseen |= self._indices.unseen.keys()  # by now the data loader has usually indexed all of its data
            logger.warning("Labels that training has not seen count as errors of the model: %s", self._list(unseen))
            self._reported |= unseen

    def _list(self, indices: set[int]) -> str:
        return ", ".join(sorted({repr(self.name(index)) for index in indices}))


class _Indices(dict[str, int]):
    """Map labels to indices. An unseen label gets a negative index, the same one in every process.

    The model sees only the index. A data loader's worker, which reads the label, writes its name to a file for the
    model's process.
    """

    def __init__(self, indices: dict[str, int]) -> None:
        super().__init__(indices)
        self.unseen: dict[int, str] = {}
        self._owner = os.getpid()
        self._file = os.path.join(gettempdir(), f"elmo_plugin-labels-{token_hex(16)}")
        weakref.finalize(self, _remove, self._file, self._owner)

    def __missing__(self, label: str) -> int:
        index = -1 - crc32(label.encode())
        if index not in self.unseen:
            self.unseen[index] = label
            parent = multiprocessing.parent_process()
            if parent is not None and parent.pid == self._owner:
                line = f"{json.dumps(label)}\n".encode()
                with suppress(OSError):  # without the name, the label counts as `UNSEEN`
                    file = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                    os.write(file, line)  # in one call, so that lines of several workers do not mix
                    os.close(file)
        return index

    def unseen_label(self, index: int) -> str:
        """Return the unseen label with this index."""
        if index not in self.unseen:
            with suppress(OSError):
                lines = Path(self._file).read_bytes().splitlines()
                self.unseen |= {self[label]: label for label in map(json.loads, lines)}
        return self.unseen.get(index, UNSEEN)


def _remove(file: str, owner: int) -> None:
    """Remove the file of an `_Indices`, unless this process is a fork of its owner."""
    if os.getpid() == owner:
        Path(file).unlink(missing_ok=True)
