"""Read what a run's weights tell: the weights of the layers in each mix, and which labels a classifier confuses."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.common.util import lazy_groups_of
from allennlp.data import Instance
from allennlp.models.archival import Archive, load_archive
from sklearn.metrics import accuracy_score, f1_score
from torch import Tensor

from elmo_plugin.analysis.runs import CONFIG, read_object
from elmo_plugin.checkpoints import read_weights, unpacked

LAYER_WEIGHTS = "layer_weights.json"
PLACES = ("input", "output")
MIX = re.compile(
    r"(?P<where>.*?)(?P<mix>(scalar_mix_|mixes\.)(?P<number>\d+)|(?P<place>input|output)_mix)\.scalar_parameters"
)
CONFUSION = "confusion.json"
CLASSIFIERS = ("elmo_classifier", "basic_classifier")
TEXTS_PER_BATCH = 32


class LearnedMix(NamedTuple):
    """softmax(w), one number per layer, the token layer first; and γ."""

    weights: list[float]
    gamma: float


def read_layer_weights(folder: Path) -> Optional[dict[str, LearnedMix]]:
    """Return the scalar mixes of a run's best model by place, `input` and `output`, or `None` without weights.

    Reads `layer_weights.json` if the run has one, otherwise `best.th` or `model.tar.gz`. Raises `ConfigurationError`
    if the file cannot be read.
    """
    best, archive = folder / "best.th", folder / "model.tar.gz"
    if (folder / LAYER_WEIGHTS).exists():
        return {place: LearnedMix(**mix) for place, mix in read_object(folder / LAYER_WEIGHTS).items()}
    if best.exists():
        weights = read_weights(best, best.name)
    elif archive.exists():
        with unpacked(archive, archive.name) as inside:
            weights = read_weights(inside / "weights.th", f"{archive.name}/weights.th")
    else:
        return None
    return learned_mixes(weights, read_object(folder / CONFIG)["model"])


def learned_mixes(weights: Mapping[str, Tensor], model: Mapping[str, Any]) -> dict[str, LearnedMix]:
    """Return the scalar mixes in a state dict by their places, which the config of the model names.

    A second mix at the same place is returned by its full name.
    """
    found: dict[str, LearnedMix] = {}
    for key, parameters in weights.items():
        if mix := MIX.fullmatch(key):
            name = f"{mix['where']}{mix['mix']}"
            # The mixes of our models are in the order of `elmo_at`. Other models have ELMo at the input.
            ours = [place for place in PLACES if place in model.get("elmo_at", PLACES)]
            place = mix["place"] or (ours[int(mix["number"])] if mix["where"].startswith("text.") else "input")
            gamma = float(weights[f"{name}.gamma"])
            found[name if place in found else place] = LearnedMix(parameters.float().softmax(dim=0).tolist(), gamma)
    return found


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
        true, predicted, counts = self._pairs()
        return float(accuracy_score(true, predicted, sample_weight=counts))

    @property
    def f1(self) -> dict[str, float]:
        """Return the F1 of each label; 0 for a label without texts and predictions."""
        true, predicted, counts = self._pairs()
        scores = f1_score(true, predicted, sample_weight=counts, labels=self.labels, average=None, zero_division=0)
        return dict(zip(self.labels, scores.tolist(), strict=True))

    def _pairs(self) -> tuple[list[str], list[str], list[int]]:
        """Return the true label, the predicted label and the count of each pair, as scikit-learn takes them."""
        size = len(self.labels)
        true = [label for label in self.labels for _ in range(size)]
        return true, self.labels * size, [count for row in self.counts for count in row]


def read_confusion(folder: Path) -> Optional[Confusion]:
    """Return the confusion matrix of a run that trained a classifier, or `None` for other runs and without weights.

    If the run has no `confusion.json`, the model in `model.tar.gz` or `best.th` labels the validation data. Labels that
    are numbers get the names in a `classes.txt` beside that data. Raises `ConfigurationError` if a file cannot be read.
    """
    config = read_object(folder / CONFIG)
    source = next((path for path in (folder / "model.tar.gz", folder / "best.th") if path.exists()), None)
    if (folder / CONFUSION).exists():
        matrix = Confusion(**read_object(folder / CONFUSION))
    elif source is None or config["model"].get("type") not in CLASSIFIERS:
        return None
    else:
        try:
            matrix = _count(load_archive(folder if source.suffix == ".th" else source))
        except Exception as error:  # a config may name any model and any reader
            raise ConfigurationError(f"{source.name} could not label the validation data: {error}") from error
    return _named(matrix, Path(str(config.get("validation_data_path"))).with_name("classes.txt"))


def _named(matrix: Confusion, file: Path) -> Confusion:
    """Replace labels 1, 2, … by the lines of `classes.txt` beside the data, as Zhang et al. (2015) publish theirs."""
    if not file.is_file() or not all(label.isdecimal() for label in matrix.labels):
        return matrix
    names = dict(enumerate(file.read_text(encoding="utf-8").split("\n"), start=1))
    labels = [names.get(int(label), "").strip() or label for label in matrix.labels]
    return matrix._replace(labels=labels) if len(set(labels)) == len(labels) else matrix


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
