"""Tags to spans, of whatever a model predicts."""

from collections.abc import Callable, Collection, Iterable
from typing import Optional

from allennlp.common.checks import ConfigurationError
from allennlp.data.dataset_readers.dataset_utils import span_utils

Spans = list[tuple[str, tuple[int, int]]]
"""Labels with the first and the last token of each."""


def bioul_tags_to_spans(tags: list[str], classes_to_ignore: list[str]) -> Spans:
    """Spans of BIOUL tags. Ill-formed ones count too, as AllenNLP counts those of BIO; its own for BIOUL raises."""
    return span_utils.bio_tags_to_spans(bioul_to_bio(tags), classes_to_ignore)


def bioul_to_bio(tags: Iterable[str]) -> list[str]:
    """The same spans: U begins one, L goes on with one."""
    return [{"U": "B", "L": "I"}.get(tag[0], tag[0]) + tag[1:] for tag in tags]


TAGS_TO_SPANS: dict[str, Callable[[list[str], list[str]], Spans]] = {
    "BIO": span_utils.bio_tags_to_spans,
    "IOB1": span_utils.iob1_tags_to_spans,
    "BIOUL": bioul_tags_to_spans,
    "BMES": span_utils.bmes_tags_to_spans,
}


ENDS = {"BIOUL": "L", "BMES": "E"}
"""What the last token of a span of some tokens is marked with, where it is."""


def check_label_encoding(label_encoding: Optional[str], labels: Collection[str]) -> None:
    """Raise `ConfigurationError` for an unknown encoding, and for labels that are not in it."""
    if label_encoding is None:
        return
    if label_encoding not in TAGS_TO_SPANS:
        raise ConfigurationError(f"'label_encoding' is {label_encoding!r}; wanted null or one of {[*TAGS_TO_SPANS]}")
    prefixes = {label[:1] for label in labels}
    end = ENDS.get(label_encoding)
    if end and prefixes & {"B", "I", "M"} and end not in prefixes:
        raise ConfigurationError(
            f"'label_encoding' is {label_encoding!r}, which marks the last token of a span {end}; "
            "found no such label, perhaps they are in 'BIO'"
        )
    # The name of each encoding is made of its prefixes; @@ begins what AllenNLP itself puts into a vocabulary.
    others = sorted(label for label in labels if label[:1] not in label_encoding and not label.startswith("@@"))
    if others:
        raise ConfigurationError(
            f"'label_encoding' is {label_encoding!r}, but there are labels like {', '.join(others[:5])}; "
            "wanted null for labels that code no spans"
        )
