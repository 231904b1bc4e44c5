"""Precision, recall and F1 of spans, over all processes of a distributed run."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from allennlp.nn.util import dist_reduce_sum
from allennlp.training.metrics import Metric, SpanBasedF1Measure

from elmo_plugin.models.spans import TAGS_TO_SPANS, Spans


class SpanF1(Metric):
    """Counts spans as AllenNLP's `SpanBasedF1Measure` does, which supports one process only.

    A span is right if its label, start and end are. A tag outside of the encoding is a span of its own.

    # Parameters

    labels : `Iterable[str]`
        The tags that can be predicted. Spans of other types count in the overall scores only.
    label_encoding : `str`
        A key of `TAGS_TO_SPANS`.
    """

    supports_distributed = True

    def __init__(self, labels: Iterable[str], label_encoding: str) -> None:
        self.label_encoding = label_encoding
        types = {label[2:] for label in labels if label != "O" and label[:1] in label_encoding}
        self.types = sorted(types | {name.removeprefix("C-") for name in types})  # C- continues a span, in SRL
        self.reset()

    def __call__(self, predicted: Sequence[list[str]], gold: Sequence[list[str]]) -> None:  # type: ignore[override]
        """Add the tags of sentences. Every process must call it as often as the others."""
        counts = torch.zeros_like(self.counts)
        for predicted_tags, gold_tags in zip(predicted, gold, strict=True):
            found, wanted = self._spans(predicted_tags), self._spans(gold_tags)
            for row, spans in zip(counts, (found & wanted, found - wanted, wanted - found), strict=True):
                for name, _ in spans:
                    row[self.types.index(name) if name in self.types else -1] += 1
        self.counts += dist_reduce_sum(counts).cpu()

    def get_metric(self, reset: bool = False) -> dict[str, Any]:
        """Return `precision-`, `recall-` and `f1-measure-` of each type of span seen so far, and `…-overall`."""
        by_type = zip(self.types, self.counts[:, :-1].T.tolist(), strict=True)
        counts = {name: each for name, each in by_type if any(each)} | {"overall": self.counts.sum(dim=1).tolist()}
        metrics = {}
        for name, each in counts.items():
            scores = SpanBasedF1Measure._compute_metrics(*each)
            for key, score in zip(("precision", "recall", "f1-measure"), scores, strict=True):
                metrics[f"{key}-{name}"] = score
        if reset:
            self.reset()
        return metrics

    def reset(self) -> None:
        """Forget all spans."""
        # Right, wrongly predicted, missed; a column each type and one for all others.
        self.counts = torch.zeros(3, len(self.types) + 1, dtype=torch.long)

    def _spans(self, tags: list[str]) -> set[tuple[str, tuple[int, int]]]:
        if not tags:
            return set()
        readable = [tag if tag[:1] in self.label_encoding else f"B-{tag}" for tag in tags]
        spans: Spans = TAGS_TO_SPANS[self.label_encoding](readable, [])
        return set(SpanBasedF1Measure._handle_continued_spans(spans))
