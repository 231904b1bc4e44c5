"""Spans and the tags that encode them: IOB1, BIO, BIOUL and BMES; conversion, checks and F1."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Optional

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data.dataset_readers.dataset_utils import span_utils, to_bioul
from allennlp.modules.conditional_random_field.conditional_random_field import is_transition_allowed
from allennlp.nn.util import dist_reduce_sum
from allennlp.training.metrics import Metric, SpanBasedF1Measure

Spans = list[tuple[str, tuple[int, int]]]
"""The label of each span with its first and its last token."""

# IOB1 marks the first token of a span (B) only if it follows a span of the same type, BIO (IOB2) always. BIOUL also
# marks the last token of a span (L) and spans of one token (U).
PREFIXES = {"IOB1": [*"BIO"], "BIO": [*"BIO"], "BIOUL": [*"BIOUL"]}
"""The coding schemes that can be read, with the prefixes of their tags."""
TARGETS = ("BIO", "BIOUL")
"""The coding schemes that tags can be converted to."""
ENDS = {"BIOUL": "L", "BMES": "E"}
"""The prefix for the last token of a longer span."""


def bioul_to_bio(tags: Iterable[str]) -> list[str]:
    """Return the BIO tags of the same spans.

    >>> bioul_to_bio(["B-PER", "L-PER", "O", "U-LOC"])
    ['B-PER', 'I-PER', 'O', 'B-LOC']
    """
    return [{"U": "B", "L": "I"}.get(tag[0], tag[0]) + tag[1:] for tag in tags]


def bioul_tags_to_spans(tags: list[str], classes_to_ignore: list[str]) -> Spans:
    """Return the spans of BIOUL tags. Ill-formed spans, for which AllenNLP's function raises, count as in BIO."""
    return span_utils.bio_tags_to_spans(bioul_to_bio(tags), classes_to_ignore)


TAGS_TO_SPANS: dict[str, Callable[[list[str], list[str]], Spans]] = {
    "BIO": span_utils.bio_tags_to_spans,
    "IOB1": span_utils.iob1_tags_to_spans,
    "BIOUL": bioul_tags_to_spans,
    "BMES": span_utils.bmes_tags_to_spans,
}


def convert_tags(tags: list[str], scheme: str, target: str) -> list[str]:
    """Convert well-formed tags of `scheme` to `target`, BIO or BIOUL."""
    if scheme == target:
        return tags
    bioul = tags if scheme == "BIOUL" else to_bioul(tags, encoding=scheme)
    return bioul if target == "BIOUL" else bioul_to_bio(bioul)


def first_invalid_tag(tags: list[str], scheme: str) -> Optional[int]:
    """Return the index of the first tag that `scheme` does not allow after the previous tags.

    If the sentence ends inside a span, it is the index of the last tag. IOB1 allows any order of tags, so only the form
    of a tag can be wrong.
    """
    previous = ("START", "")
    for index, tag in enumerate(tags):
        prefix, _, entity = tag.partition("-")
        if prefix not in PREFIXES[scheme] or (prefix == "O" and tag != "O"):
            return index
        if scheme != "IOB1" and not is_transition_allowed(scheme, *previous, prefix, entity):
            return index
        previous = (prefix, entity)
    return None if is_transition_allowed(scheme, *previous, "END", "") else len(tags) - 1


def check_label_encoding(label_encoding: str, labels: Collection[str]) -> None:
    """Raise `ConfigurationError` for an unknown encoding, and for labels that do not belong to it."""
    if label_encoding not in TAGS_TO_SPANS:
        raise ConfigurationError(
            f"'label_encoding': expected null or one of {[*TAGS_TO_SPANS]}, got {label_encoding!r}"
        )
    prefixes = {label[:1] for label in labels}
    end = ENDS.get(label_encoding)
    if end and prefixes & {"B", "I", "M"} and end not in prefixes:
        raise ConfigurationError(
            f"'label_encoding' {label_encoding!r}: expected labels that begin with {end} for the last token of a span, "
            "got none; perhaps the labels are in 'BIO'"
        )
    # The name of each encoding consists of its prefixes. AllenNLP's own entries of a vocabulary begin with @@.
    others = sorted(label for label in labels if label[:1] not in label_encoding and not label.startswith("@@"))
    if others:
        raise ConfigurationError(
            f"'label_encoding' {label_encoding!r}: expected labels of this encoding, got {', '.join(others[:5])}; "
            "set null for labels that encode no spans"
        )


class SpanF1(Metric):
    """Precision, recall and F1 of spans, over all processes of a distributed run.

    It counts like AllenNLP's `SpanBasedF1Measure`, which supports only one process. A predicted span is correct if its
    label, start and end are correct. A tag outside the encoding is a span by itself. Without an encoding, each token
    with a tag other than O is a span, so the scores are those of tokens.

    >>> metric = SpanF1(["O", "B-PER", "I-PER"], "BIO")
    >>> metric([["B-PER", "I-PER", "O"]], [["B-PER", "I-PER", "B-PER"]])
    >>> round(metric.get_metric()["recall-overall"], 2)
    0.5

    # Parameters

    labels : `Iterable[str]`
        The tags that can be predicted. Spans of other types count only in the overall scores.
    label_encoding : `Optional[str]`
        A key of `TAGS_TO_SPANS`, or `None`.
    """

    supports_distributed = True

    def __init__(self, labels: Iterable[str], label_encoding: Optional[str]) -> None:
        self.label_encoding = label_encoding
        types = {label for label in labels if label != "O"}
        if label_encoding is not None:
            types = {label[2:] for label in types if label[:1] in label_encoding}
        self.types = sorted(types | {name.removeprefix("C-") for name in types})  # C- continues a span in SRL
        self.reset()

    def __call__(self, predicted: Sequence[list[str]], gold: Sequence[list[str]]) -> None:  # type: ignore[override]
        """Count the spans in the tags of sentences. All processes must call it equally often."""
        counts = torch.zeros_like(self.counts)
        for predicted_tags, gold_tags in zip(predicted, gold, strict=True):
            got, expected = self._spans(predicted_tags), self._spans(gold_tags)
            for row, spans in zip(counts, (got & expected, got - expected, expected - got), strict=True):
                for name, _ in spans:
                    row[self.types.index(name) if name in self.types else -1] += 1
        self.counts += dist_reduce_sum(counts).cpu()

    def get_metric(self, reset: bool = False) -> dict[str, Any]:
        """Return `precision-`, `recall-` and `f1-measure-` for each type of span counted so far, and for `overall`."""
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
        """Set all counts to zero."""
        # Rows: true positives, false positives, false negatives. Columns: each type, and all other types together.
        self.counts = torch.zeros(3, len(self.types) + 1, dtype=torch.long)

    def _spans(self, tags: list[str]) -> set[tuple[str, tuple[int, int]]]:
        if not tags:
            return set()
        if self.label_encoding is None:
            return {(tag, (index, index)) for index, tag in enumerate(tags) if tag != "O"}
        readable = [tag if tag[:1] in self.label_encoding else f"B-{tag}" for tag in tags]
        spans: Spans = TAGS_TO_SPANS[self.label_encoding](readable, [])
        return set(SpanBasedF1Measure._handle_continued_spans(spans))
