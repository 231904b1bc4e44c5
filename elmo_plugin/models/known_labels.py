"""The labels that a model can predict, and unseen labels: those in its data that were not in the training data."""

import logging
from collections.abc import Sequence

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from torch import BoolTensor, Tensor

logger = logging.getLogger(__name__)

UNSEEN = "@@UNSEEN@@"
"""The name of all unseen labels: a model's process gets only their index, because another process may read them."""


class KnownLabels:
    """The labels of a model, with indices 0 to `size` − 1. Any other label in the data counts as an error of the model.

    A label field asks the vocabulary for the index of each label, and AllenNLP raises `KeyError` for an unseen label.
    `KnownLabels` makes the vocabulary answer −1 instead. The vocabulary of a model without `KnownLabels` still raises,
    because such a model would use the index.

    >>> vocab = Vocabulary({"labels": {"good": 2, "bad": 1}})
    >>> labels = KnownLabels(vocab, "labels")
    >>> labels.size, vocab.get_token_index("ugly", "labels"), labels.name(-1)
    (2, -1, '@@UNSEEN@@')

    A vocabulary that is extended later, as `from_archive` does, gives an unseen label an index of `size` or more.

    Raises `ConfigurationError` if there are no labels.

    # Parameters

    vocab : `Vocabulary`
    namespace : `str`
        The namespace of the labels.
    layers : `Sequence[str]`
        The names of the model's layers whose size is the number of labels.
    """

    def __init__(self, vocab: Vocabulary, namespace: str, layers: Sequence[str] = ()) -> None:
        self.namespace = namespace
        self.layers = layers
        # A lookup would create a missing namespace, and AllenNLP cannot save an empty one.
        self.names = vocab.get_index_to_token_vocabulary(namespace) if namespace in vocab.get_namespaces() else {}
        self.size = len(self.names)
        if {*self.names.values()} <= {vocab._padding_token, vocab._oov_token}:
            raise ConfigurationError(
                f"'label_namespace' {namespace!r}: expected labels in the vocabulary, got none (it has the namespaces "
                f"{sorted(vocab.get_namespaces())})"
            )
        self._indices = _Indices(vocab.get_token_to_index_vocabulary(namespace))
        vocab._token_to_index[namespace] = self._indices
        self._has_warned = False

    def name(self, index: int) -> str:
        """Return the name of the label with this index."""
        return self.names.get(index, UNSEEN)

    def known(self, indices: Tensor, training: bool) -> BoolTensor:
        """Return which gold labels the model can predict, in the shape of `indices`, and warn once if it cannot all.

        Raises `ConfigurationError` in training, because the model cannot learn such a label.
        """
        known: BoolTensor = (indices >= 0) & (indices < self.size)  # type: ignore[assignment]
        if known.all():
            return known
        if training and torch.is_grad_enabled():
            names = {*map(self.name, indices[~known].tolist())} - {UNSEEN} or self._indices.unseen
            raise ConfigurationError(
                f"training data: expected one of the {self.size} labels of the model (namespace {self.namespace!r}), "
                f"got {', '.join(map(repr, sorted(names)[:5])) or 'others'} (`elmo-plugin check-data` lists them). To "
                "go on from a trained model with more labels, keep its config, and add to 'model': initializer: { "
                "regexes: [['.*', { type: 'pretrained', weights_file_path: 'RUN/best.th' }]], prevent_regexes: "
                f"{[*self.layers]} }}"
            )
        if not self._has_warned:
            logger.warning(
                "The data have labels that training has not seen (namespace %r). They count as errors of the model; "
                "`elmo-plugin check-data` lists them",
                self.namespace,
            )
        self._has_warned = True
        return known


class _Indices(dict[str, int]):
    """Map labels to indices, and any unseen label to −1. `unseen` are those that this process has read."""

    def __init__(self, labels: dict[str, int]) -> None:
        super().__init__(labels)
        self.unseen = set[str]()

    def __missing__(self, label: str) -> int:
        self.unseen.add(label)
        return -1
