"""Spans and the tags that encode them: the coding schemes of data, the label encodings of models, and F1."""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Optional

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data.dataset_readers.dataset_utils import span_utils, to_bioul
from allennlp.modules.conditional_random_field.conditional_random_field import is_transition_allowed
from allennlp.nn.util import dist_reduce_sum
from allennlp.training.metrics import Metric, SpanBasedF1Measure

Spans = list[tuple[str, tuple[int, int]]]
"""The label of each span with its first and its last token."""


class Scheme(NamedTuple):
    """A coding scheme: one of AllenNLP's label encodings, perhaps with other letters, or read from right to left.

    `letters` maps the prefix of each tag to the same prefix in the encoding. `needs` are the prefixes that a span of
    several tokens always has.
    """

    encoding: str
    letters: dict[str, str]
    needs: str = ""
    mirrored: bool = False


# IOB1 marks the first token of a span (B) only if it follows a span of the same type, BIO (IOB2) always. BIOUL also
# marks the last token of a span and spans of one token (L and U; E and S in BIOES and BMES, and M for I in BMES). IOE1
# and IOE2 mark the last token (E) where IOB1 and IOB2 mark the first.
SCHEMES = {
    "BIO": Scheme("BIO", {"B": "B", "I": "I", "O": "O"}, "B"),
    "IOB1": Scheme("IOB1", {"B": "B", "I": "I", "O": "O"}),
    "BIOUL": Scheme("BIOUL", {"B": "B", "I": "I", "O": "O", "U": "U", "L": "L"}, "BL"),
    "BIOES": Scheme("BIOUL", {"B": "B", "I": "I", "O": "O", "E": "L", "S": "U"}, "BE"),
    "BMES": Scheme("BIOUL", {"B": "B", "M": "I", "E": "L", "S": "U", "O": "O"}, "BE"),
    "IOE2": Scheme("BIO", {"I": "I", "O": "O", "E": "B"}, "E", mirrored=True),
    "IOE1": Scheme("IOB1", {"I": "I", "O": "O", "E": "B"}, mirrored=True),
}
"""The coding schemes that can be read, the ones that are most likely first."""
OTHER_NAMES = {"IOB2": "BIO", "BILOU": "BIOUL", "BILUO": "BIOUL", "IOBES": "BIOES", "BMESO": "BMES"}
"""Names that other libraries give to these schemes."""


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
"""The label encodings of models, which are those that AllenNLP has constraints for. Its BMES has no O."""


def convert_tags(tags: list[str], scheme: str, target: str) -> list[str]:
    """Convert well-formed tags of `scheme` to `target`, BIO or BIOUL.

    >>> convert_tags(["B-PER", "E-PER", "O"], "BIOES", "BIO")
    ['B-PER', 'I-PER', 'O']
    """
    encoding, letters, _, mirrored = SCHEMES[scheme]
    tags = [letters[tag[0]] + tag[1:] for tag in (reversed(tags) if mirrored else tags)]
    bioul = tags if encoding == "BIOUL" else to_bioul(tags, encoding=encoding)
    if mirrored:
        bioul = [{"B": "L", "L": "B"}.get(tag[0], tag[0]) + tag[1:] for tag in reversed(bioul)]
    return bioul if target == "BIOUL" else bioul_to_bio(bioul)


def first_invalid_tag(tags: list[str], scheme: str) -> Optional[int]:
    """Return the index of the first tag that `scheme` does not allow after the previous tags.

    If the sentence ends inside a span, it is the index of the last tag. A mirrored scheme is checked from right to
    left. IOB1 and IOE1 allow any order of tags, so only the form of a tag can be wrong.
    """
    encoding, letters, _, mirrored = SCHEMES[scheme]
    order = range(len(tags))[:: -1 if mirrored else 1]
    previous = ("START", "")
    for index in order:
        prefix, _, entity = tags[index].partition("-")
        if prefix not in letters or tags[index].endswith("-") or (prefix == "O" and tags[index] != "O"):
            return index
        current = (letters[prefix], entity)
        if encoding != "IOB1" and not is_transition_allowed(encoding, *previous, *current):
            return index
        previous = current
    return None if is_transition_allowed(encoding, *previous, "END", "") else order[-1]


def check_label_encoding(label_encoding: str, labels: Collection[str]) -> None:
    """Raise `ConfigurationError`, with the keys that fit, for an unknown encoding, and for labels of another one.

    Labels are of another encoding even if they have the same letters: I-X without B-X is not BIO but IOB1, which
    CoNLL-2003 uses.
    """
    own = {label for label in labels if not label.startswith("@@")}  # AllenNLP's own entries of a vocabulary
    fitting = [scheme for scheme in SCHEMES if not _misfits(own, scheme)]
    # BMES has no O in AllenNLP.
    usable = [scheme for scheme in fitting if scheme in TAGS_TO_SPANS and not (scheme == "BMES" and "O" in own)]
    if label_encoding in usable:
        return
    if label_encoding in TAGS_TO_SPANS:
        expected, got = f"labels of {label_encoding!r}", ", ".join((_misfits(own, label_encoding) or ["O"])[:5])
    else:
        expected, got = f"null or one of {[*TAGS_TO_SPANS]}", repr(label_encoding)
    advice = "set null for labels that encode no spans"
    if usable:
        advice = f"the labels fit {usable[0]!r}"
    elif fitting:
        advice = (
            f"the labels fit {fitting[0]!r}: let 'column_tags' convert them, with 'coding_scheme' {fitting[0]!r} and "
            "'convert_to_coding_scheme' 'BIOUL', and set 'label_encoding' 'BIOUL'"
        )
    raise ConfigurationError(f"'label_encoding': expected {expected}, got {got}; {advice}")


def _misfits(labels: set[str], scheme: str) -> list[str]:
    """Return the labels that are not tags of `scheme`, or else those of types without a prefix that it needs."""
    _, letters, needs, _ = SCHEMES[scheme]
    others = {label for label in labels if label[:1] not in letters or label[1:2] not in ("", "-", "_")}
    in_spans = {label for label in labels - others if label != "O" and label[:1] not in "US"}
    lacking = {label for label in in_spans if not {each + label[1:] for each in needs} <= in_spans}
    return sorted(others) or sorted(lacking)


SCORES = ("precision", "recall", "f1-measure")


class SpanF1(Metric):
    """Precision, recall and F1 of spans, over all processes of a distributed run.

    It counts like AllenNLP's `SpanBasedF1Measure`, which supports only one process. A predicted span is correct if its
    label, start and end are correct. Neighbouring tags outside the encoding are one span. Without an encoding, each
    token with a tag other than O is a span, so the scores are those of tokens.

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
        counts = [*self.counts[:, :-1].T.tolist(), self.counts.sum(dim=1).tolist()]
        metrics: dict[str, float] = {}
        for name, each in zip([*self.types, "overall"], counts, strict=True):
            if any(each) or name == "overall":
                scores = SpanBasedF1Measure._compute_metrics(*each)
                metrics |= {f"{key}-{name}": score for key, score in zip(SCORES, scores, strict=True)}
        if reset:
            self.reset()
        return metrics

    def names(self) -> list[str]:
        """Return the names of all scores that `get_metric` may return."""
        return [f"{key}-{name}" for name in (*self.types, "overall") for key in SCORES]

    def reset(self) -> None:
        """Set all counts to zero."""
        # Rows: true positives, false positives, false negatives. Columns: each type, and all other types together.
        self.counts = torch.zeros(3, len(self.types) + 1, dtype=torch.long)

    def _spans(self, tags: list[str]) -> set[tuple[str, tuple[int, int]]]:
        if self.label_encoding is None:
            return {(tag, (index, index)) for index, tag in enumerate(tags) if tag != "O"}
        inside = "M" if self.label_encoding == "BMES" else "I"
        readable = [
            tag if tag[:1] in self.label_encoding else f"{inside if tag == before else 'B'}-{tag}"
            for before, tag in pairwise(["", *tags])
        ]
        return set(SpanBasedF1Measure._handle_continued_spans(TAGS_TO_SPANS[self.label_encoding](readable, [])))
