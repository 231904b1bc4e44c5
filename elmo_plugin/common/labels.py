"""The labels of instances, and those that a part of the data has and training has not."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from allennlp.data import Instance
from allennlp.data.fields import LabelField, MultiLabelField, SequenceLabelField


def count_labels(instance: Instance, counts: defaultdict[str, Counter[str]]) -> None:
    """Add the labels of an instance to the counts of each field of labels."""
    for name, field in instance.fields.items():
        if isinstance(field, LabelField):
            counts[name][str(field.label)] += 1
        elif isinstance(field, SequenceLabelField | MultiLabelField):
            counts[name].update(map(str, field.labels))


def labels_not_in_train(
    part: str, labels: Mapping[str, Counter[str]], trained: Mapping[str, Counter[str]]
) -> Iterator[str]:
    """Yield a message about each field of labels in which a part of the data has labels that training has not."""
    for name, counts in labels.items():
        if new := sorted(counts.keys() - trained.get(name, {}).keys()):
            which = f"1 label of '{name}' does" if len(new) == 1 else f"{len(new)} labels of '{name}' do"
            yield (
                f"{part}: {which} not occur in train ({some_of(new)}), so no model can learn them; add examples to "
                "train, or count them as errors"
            )


def some_of(names: list[str], most: int = 5) -> str:
    """Return the first of many names, separated by commas."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
