"""What a classifier takes for what: its best model on the run's validation data."""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.common.util import lazy_groups_of
from allennlp.data import Instance
from allennlp.models.archival import Archive, load_archive

from elmo_plugin.analysis.runs import CONFIG, read_object, write_object

FILE = "confusion.json"
CLASSIFIERS = ("elmo_classifier", "basic_classifier")
TEXTS_AT_ONCE = 32


class Confusion(NamedTuple):
    """Texts by their label, a row each, and by what they were taken for, a column each, in the order of `labels`."""

    labels: list[str]
    counts: list[list[int]]

    @property
    def accuracy(self) -> float:
        """Share of the texts that were taken for what they are."""
        return sum(row[i] for i, row in enumerate(self.counts)) / max(1, sum(map(sum, self.counts)))

    @property
    def macro_f1(self) -> float:
        """The mean over labels of F1 = 2 · hits / (texts of the label + texts taken for it); 0 without either."""
        gold = [sum(row) for row in self.counts]
        taken = [sum(column) for column in zip(*self.counts, strict=True)]
        hits = [row[i] for i, row in enumerate(self.counts)]
        return sum(2 * h / max(1, g + t) for h, g, t in zip(hits, gold, taken, strict=True)) / len(self.labels)


def confusion(folder: Path) -> Optional[Confusion]:
    """The confusion matrix of a run that trained a classifier; `None` of other runs, and where no trace is left.

    Read from `confusion.json` if that is there; else the model in `model.tar.gz` or `best.th` labels the validation
    data. Raises `ConfigurationError` if that is not to be had.
    """
    if (folder / FILE).exists():
        return _read(folder / FILE)
    config = read_object(folder / CONFIG)
    source = next((path for path in (folder / "model.tar.gz", folder / "best.th") if path.exists()), None)
    if config["model"].get("type") not in CLASSIFIERS or source is None:
        return None
    try:
        return _count(load_archive(folder if source.suffix == ".th" else source))
    except Exception as error:  # the model and the reader of a config may be anyone's
        raise ConfigurationError(f"{source.name} could not label the validation data: {error}") from error


def write_confusion(folder: Path, matrix: Confusion) -> None:
    """Keep the confusion matrix of a run in its `confusion.json`."""
    write_object(folder / FILE, matrix._asdict())


def _read(path: Path) -> Confusion:
    """Raises `ConfigurationError` unless there is a number for each pair of labels."""
    try:
        matrix = Confusion(**read_object(path))
        size = len(matrix.labels)
        if not size or [len(row) for row in matrix.counts] != [size] * size:
            raise TypeError(f"found {size} labels and other numbers of counts")
        if not all(isinstance(count, int) and count >= 0 for row in matrix.counts for count in row):
            raise TypeError("found counts that are no whole numbers")
    except TypeError as error:
        raise ConfigurationError(f"{path.name}: {error}; wanted 'labels' and the 'counts' of each pair") from error
    return matrix


def _count(archive: Archive) -> Confusion:
    """Label the validation data, texts of like length together."""
    model: Any = archive.model.eval()
    read = archive.validation_dataset_reader.read(archive.config["validation_data_path"])
    instances = sorted(read, key=lambda instance: len(instance["tokens"]))
    namespace = archive.config["model"].get("label_namespace", "labels")
    counts: Counter[tuple[str, str]] = Counter()
    for group in lazy_groups_of(instances, TEXTS_AT_ONCE):
        unlabelled = [Instance({"tokens": instance["tokens"]}) for instance in group]
        for instance, output in zip(group, model.forward_on_instances(unlabelled), strict=True):
            gold: Any = instance["label"]
            counts[str(gold.label), output["label"]] += 1
    found = {label for pair in counts for label in pair}  # some are not in the vocabulary: unseen ones and integers
    labels = sorted({*model.vocab.get_token_to_index_vocabulary(namespace), *found})
    return Confusion(labels, [[counts[label, taken] for taken in labels] for label in labels])
