"""Labels that are integers, and the parts of our answers that AllenNLP's tools for classifiers read."""

from pathlib import Path

import pytest
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance
from allennlp.models import load_archive
from sklearn.metrics import accuracy_score, f1_score

from tests.models.configs import ELMO, train_archive
from tests.task_oracles import OPINIONS, Config, build_model, classifier, csv_reader, experiment, train

NUMBERS = {"good": 0, "bad": 1, "mixed": 2}
JSON = {"type": "text_classification_json", "tokenizer": "just_spaces", "skip_label_indexing": True}


def integers(folder: Path, reader: str) -> tuple[Config, Path]:
    """`OPINIONS` with integers for labels, and a reader of them."""
    rows = [line.split(",", 1) for line in OPINIONS.read_text(encoding="utf-8").splitlines()]
    path = folder / f"integers.{reader}"
    if reader == "csv":
        lines = [f"{NUMBERS[label]},{text}" for label, text in rows]
        keys = csv_reader(skip_label_indexing=True)
    else:
        lines = [f'{{"label": "{NUMBERS[label]}", "text": "{text.strip(chr(34))}"}}' for label, text in rows]
        keys = {**JSON, "token_indexers": csv_reader()["token_indexers"]}
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return keys, path


@pytest.mark.parametrize("reader", ["csv", "json"])
def test_integers_need_no_vocabulary(reader: str, tmp_path: Path) -> None:
    keys, data = integers(tmp_path, reader)
    path = train_archive(experiment(classifier(ELMO, num_labels=4), keys, data), tmp_path / "run")
    archive = load_archive(path)
    assert archive.model.vocab.get_vocab_size("labels") == 0 and archive.model.classification.out_features == 4
    instances: list[Instance] = list(archive.dataset_reader.read(data))
    answers = archive.model.forward_on_instances(instances)
    gold, found = [str(each["label"].label) for each in instances], [answer["label"] for answer in answers]
    assert set(gold) == {"0", "1", "2"} and set(found) <= {"0", "1", "2", "3"}
    assert all(list(answer["probabilities"]) == ["0", "1", "2", "3"] for answer in answers)
    metrics = evaluate_from_archive(path, str(data))
    wanted = f1_score(gold, found, labels=["0", "1", "2", "3"], average="macro", zero_division=0.0)
    assert metrics["accuracy"] == pytest.approx(accuracy_score(gold, found))
    assert metrics["macro_f1"] == pytest.approx(wanted)


def test_an_integer_beyond_num_labels_is_an_error_in_training_that_names_it(tmp_path: Path) -> None:
    keys, data = integers(tmp_path, "csv")
    with pytest.raises(ConfigurationError, match=r"among the 2 of the model .*\[2\]"):
        train(experiment(classifier(ELMO, num_labels=2), keys, data), tmp_path / "run")


def test_integers_without_a_number_of_labels_are_an_error_that_names_the_key(tmp_path: Path) -> None:
    keys, data = integers(tmp_path, "csv")
    with pytest.raises(ConfigurationError, match="set 'num_labels'"):
        build_model(experiment(classifier(ELMO), keys, data))


@pytest.mark.parametrize("label", ["good", "-1"])
def test_a_label_that_is_not_an_integer_is_an_error_with_its_line(label: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text(f"0,fine\n{label},dull\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=rf"line 2: .*'skip_label_indexing'.*'{label}'"):
        build_model(experiment(classifier(ELMO, num_labels=2), csv_reader(skip_label_indexing=True), path))
