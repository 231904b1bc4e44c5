"""Count which labels a classifier confuses: its best model on the run's validation data."""

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
TEXTS_PER_BATCH = 32


class Confusion(NamedTuple):
    """The number of texts for each pair of labels: one row per true label, one column per predicted label.

    >>> Confusion(["glad", "sour"], [[3, 1], [0, 4]]).accuracy
    0.875
    """

    labels: list[str]
    counts: list[list[int]]

    @property
    def accuracy(self) -> float:
        """Return the share of texts whose predicted label is the true one."""
        return sum(row[i] for i, row in enumerate(self.counts)) / max(1, sum(map(sum, self.counts)))

    @property
    def macro_f1(self) -> float:
        """Return the mean over labels of F1 = 2 · hits / (true + predicted); 0 for a label with neither."""
        gold = [sum(row) for row in self.counts]
        predicted = [sum(column) for column in zip(*self.counts, strict=True)]
        hits = [row[i] for i, row in enumerate(self.counts)]
        return sum(2 * h / max(1, g + p) for h, g, p in zip(hits, gold, predicted, strict=True)) / len(self.labels)


def confusion(folder: Path) -> Optional[Confusion]:
    """Return the confusion matrix of a run that trained a classifier, or `None` for other runs and without weights.

    If the run has no `confusion.json`, the model in `model.tar.gz` or `best.th` labels the validation data. Labels that
    are numbers get the names in a `classes.txt` beside that data. Raises `ConfigurationError` if a file cannot be read.
    """
    config = read_object(folder / CONFIG) if (folder / CONFIG).exists() else {}
    data = Path(str(config.get("validation_data_path")))
    if (folder / FILE).exists():
        return _named(_read(folder / FILE), data)
    source = next((path for path in (folder / "model.tar.gz", folder / "best.th") if path.exists()), None)
    if source is None or config["model"].get("type") not in CLASSIFIERS:
        return None
    try:
        return _named(_count(load_archive(folder if source.suffix == ".th" else source)), data)
    except Exception as error:  # a config may name any model and any reader
        raise ConfigurationError(f"{source.name} could not label the validation data: {error}") from error


def write_confusion(folder: Path, matrix: Confusion) -> None:
    """Write the confusion matrix of a run to its `confusion.json`."""
    write_object(folder / FILE, matrix._asdict())


def add_up(matrices: list[Confusion], labels: list[str]) -> Confusion:
    """Return the sum of matrices over `labels`. A label that a matrix lacks counts as 0 there."""
    counts: Counter[tuple[str, str]] = Counter()
    for matrix in matrices:
        for gold, row in zip(matrix.labels, matrix.counts, strict=True):
            for predicted, count in zip(matrix.labels, row, strict=True):
                counts[gold, predicted] += count
    return Confusion(labels, [[counts[gold, predicted] for predicted in labels] for gold in labels])


def _read(path: Path) -> Confusion:
    """Read `confusion.json`. Raises `ConfigurationError` unless it holds a number for each pair of labels."""
    content = read_object(path)
    try:
        matrix = Confusion(**content)
        size = len(matrix.labels)
        is_square = size > 0 and [len(row) for row in matrix.counts] == [size] * size
        has_labels = all(isinstance(label, str) for label in matrix.labels)
        has_counts = all(isinstance(count, int) and count >= 0 for row in matrix.counts for count in row)
    except TypeError:
        is_square = False
    if not (is_square and has_labels and has_counts):
        raise ConfigurationError(
            f"{path.name}: expected 'labels' and the 'counts' of each pair of labels, got {str(content)[:100]}"
        )
    return matrix


def _named(matrix: Confusion, data: Path) -> Confusion:
    """Replace labels 1, 2, … by the lines of `classes.txt` beside the data, as Zhang et al. (2015) publish theirs."""
    file = data.parent / "classes.txt"
    if not file.is_file() or not all(label.isdecimal() for label in matrix.labels):
        return matrix
    names = dict(enumerate(file.read_text(encoding="utf-8").split("\n"), start=1))
    return matrix._replace(labels=[names.get(int(label), "").strip() or label for label in matrix.labels])


def _count(archive: Archive) -> Confusion:
    """Label the validation data, in batches of similar length."""
    model: Any = archive.model.eval()
    read = archive.validation_dataset_reader.read(archive.config["validation_data_path"])
    instances = sorted(read, key=lambda instance: len(instance["tokens"]))
    namespace = archive.config["model"].get("label_namespace", "labels")
    counts: Counter[tuple[str, str]] = Counter()
    for group in lazy_groups_of(instances, TEXTS_PER_BATCH):
        unlabelled = [Instance({"tokens": instance["tokens"]}) for instance in group]
        for instance, output in zip(group, model.forward_on_instances(unlabelled), strict=True):
            gold: Any = instance["label"]
            counts[str(gold.label), output["label"]] += 1
    # The vocabulary lacks integer labels, and labels that do not occur in training.
    found = {label for pair in counts for label in pair}
    labels = sorted({*model.vocab.get_token_to_index_vocabulary(namespace), *found})
    return Confusion(labels, [[counts[gold, predicted] for predicted in labels] for gold in labels])
