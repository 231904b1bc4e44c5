"""The schemes that code spans as one tag a token: what each permits, and the way from one to another."""

from typing import Optional

from allennlp.data.dataset_readers.dataset_utils import to_bioul
from allennlp.modules.conditional_random_field.conditional_random_field import is_transition_allowed

from elmo_plugin.models.spans import bioul_to_bio

# IOB1 marks a begin (B) only between two spans of one type, BIO (IOB2) always; BIOUL also marks the last token of a
# span (L) and spans of one token (U).
PREFIXES = {"IOB1": [*"BIO"], "BIO": [*"BIO"], "BIOUL": [*"BIOUL"]}
TARGETS = ("BIO", "BIOUL")


def broken_tag(tags: list[str], scheme: str) -> Optional[int]:
    """Index of the first tag that `scheme` does not permit behind those before it, or of the last if a span stays open.

    In IOB1 each order of tags has one meaning, and AllenNLP reads it, so there only the form of a tag can be wrong.
    """
    before = ("START", "")
    for index, tag in enumerate(tags):
        prefix, _, entity = tag.partition("-")
        if prefix not in PREFIXES[scheme] or (prefix == "O" and tag != "O"):
            return index
        if scheme != "IOB1" and not is_transition_allowed(scheme, *before, prefix, entity):
            return index
        before = (prefix, entity)
    return None if is_transition_allowed(scheme, *before, "END", "") else len(tags) - 1


def recode(tags: list[str], scheme: str, target: str) -> list[str]:
    """Tags in `target`, BIO or BIOUL, of tags that `broken_tag` finds whole in `scheme`."""
    if scheme == target:
        return tags
    bioul = tags if scheme == "BIOUL" else to_bioul(tags, encoding=scheme)
    if target == "BIOUL":
        return bioul
    return bioul_to_bio(bioul)
