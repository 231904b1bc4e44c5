"""A label that training has not seen counts as an error of our models. AllenNLP's own keep their `KeyError`."""

import itertools
import json
import logging
import pickle
from collections import Counter
from pathlib import Path

import pytest
import torch
from _jsonnet import evaluate_snippet
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.data.dataset_readers.dataset_utils.span_utils import bio_tags_to_spans
from allennlp.models import load_archive
from sklearn.metrics import accuracy_score, f1_score

from elmo_plugin.commands.console import with_hint
from elmo_plugin.models.known_labels import KnownLabels
from tests.models.configs import ELMO
from tests.task_oracles import (
    OPINIONS,
    TOWNS,
    as_tensors,
    build_model,
    classifier,
    csv_reader,
    experiment,
    tagger,
    tags_reader,
    train,
)

# `TOWNS` has no tags of LST and MISC.
NEW_TAGS = "Tove B-PER\nleft O\n\nItem B-LST\none I-LST\n: O\nQuill B-LOC\nFair B-MISC\n\nnothing O\n"
TAGS = [["B-PER", "O"], ["B-LST", "I-LST", "O", "B-LOC", "B-MISC"], ["O"]]
NEW_CLASSES = "good,a fine day\nugly,a long day\nbad,no day\nodd,one day\n"


@pytest.fixture
def new_tags(tmp_path: Path) -> Path:
    path = tmp_path / "new.txt"
    path.write_text(NEW_TAGS, encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("loader", ["simple", "workers"])
def test_evaluate_counts_tags_that_training_has_not_seen_as_errors(
    loader: str, trained_tagger: Path, new_tags: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loaded = load_archive(trained_tagger)
    predicted = [each["tags"] for each in loaded.model.forward_on_instances([*loaded.dataset_reader.read(new_tags)])]
    caplog.clear()
    workers = {"data_loader": {"type": "multiprocess", "batch_size": 1, "num_workers": 2, "max_instances_in_memory": 4}}
    metrics = evaluate_from_archive(trained_tagger, str(new_tags), cmd_overrides=workers if loader == "workers" else {})
    gold_spans, found_spans = (
        Counter((row, span) for row, tags in enumerate(rows) for span in bio_tags_to_spans(tags))
        for rows in (TAGS, predicted)
    )
    right = sum((gold_spans & found_spans).values())
    tokens = list(zip(itertools.chain(*TAGS), itertools.chain(*predicted), strict=True))
    assert metrics["accuracy"] == pytest.approx(sum(gold == found for gold, found in tokens) / len(tokens))
    assert metrics["precision-overall"] == pytest.approx(right / max(1, found_spans.total()))
    assert metrics["recall-overall"] == pytest.approx(right / gold_spans.total()) and gold_spans.total() == 4
    assert 0 < metrics["loss"] < 100
    warned = [
        each.message for each in caplog.records if each.levelno >= logging.WARNING and "worker" not in each.message
    ]
    assert len(warned) == 1 and "'labels'" in warned[0]


@pytest.mark.parametrize("crf", [True, False])
def test_the_loss_counts_only_known_tags(crf: bool) -> None:
    model, _ = build_model(experiment(tagger(ELMO, crf=crf), tags_reader(), TOWNS))
    generator = torch.Generator().manual_seed(1)
    n_labels = model.tag_projection._module.out_features
    logits = torch.randn(2, 4, n_labels, generator=generator)
    if crf:
        for parameter in model.crf.parameters():
            torch.nn.init.normal_(parameter, generator=generator)
    mask = torch.tensor([[True] * 4, [True] * 3 + [False]])
    tags = torch.tensor([[1, -1, 0, -1], [2, 1, 0, 0]])
    losses = []
    for row, length in enumerate((4, 3)):
        scores, gold = logits[row, :length], tags[row, :length].tolist()
        if crf:  # known tags are as probable as all sequences that have them
            sequences = itertools.product(*(range(n_labels) if tag < 0 else [tag] for tag in gold))
            each = [model.crf(scores.unsqueeze(0), torch.tensor([tags_of_all])) for tags_of_all in sequences]
            losses.append(-torch.stack(each).logsumexp(dim=0))
        else:
            known = [place for place, tag in enumerate(gold) if tag >= 0]
            losses.append(-scores.log_softmax(dim=-1)[known, tags[row, known]].mean())
    torch.testing.assert_close(model._loss(logits, tags, mask, ignore_o=False), sum(losses) / 2, rtol=1e-5, atol=1e-5)
    nothing_known = model._loss(logits, torch.full_like(tags, -1), mask, ignore_o=False)
    assert nothing_known.item() == pytest.approx(0.0, abs=1e-5)


@pytest.mark.slow
def test_evaluate_counts_classes_that_training_has_not_seen_as_errors(tmp_path: Path, trained_classifier: Path) -> None:
    new = tmp_path / "new.csv"
    new.write_text(NEW_CLASSES, encoding="utf-8")
    metrics = evaluate_from_archive(trained_classifier, str(new))
    loaded = load_archive(trained_classifier)
    answers = loaded.model.forward_on_instances(list(loaded.dataset_reader.read(new)))
    gold, found = ["good", "ugly", "bad", "odd"], [answer["label"] for answer in answers]
    assert metrics["accuracy"] == pytest.approx(accuracy_score(gold, found))
    labels = [*loaded.model.vocab.get_token_to_index_vocabulary("labels")]
    wanted = f1_score(gold, found, labels=labels, average="macro", zero_division=0.0)
    assert metrics["macro_f1"] == pytest.approx(wanted)
    known = [answers[0]["probabilities"]["good"], answers[2]["probabilities"]["bad"]]
    assert metrics["loss"] == pytest.approx(-torch.tensor(known).log().mean().item(), abs=1e-5)
    batch = as_tensors(list(loaded.dataset_reader.read(new))[:2], loaded.model.vocab)
    assert loaded.model.eval()(**{**batch, "label": torch.tensor([-1, -1])})["loss"].item() == 0.0


def test_validation_data_may_hold_them_and_training_data_may_not(tmp_path: Path, new_tags: Path) -> None:
    config = {**experiment(tagger(ELMO), tags_reader(), TOWNS, num_epochs=1), "validation_data_path": str(new_tags)}
    train({**config, "datasets_for_vocab_creation": ["train"]}, tmp_path / "run")
    assert 0 < json.loads((tmp_path / "run" / "metrics.json").read_text())["best_validation_accuracy"] < 1
    config["train_data_path"], config["validation_data_path"] = str(new_tags), str(TOWNS)
    config["vocabulary"] = {"type": "from_files", "directory": str(tmp_path / "run" / "vocabulary")}
    with pytest.raises(ConfigurationError, match=r"training data: .*'labels'.*check-data"):
        train(config, tmp_path / "other")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["crf", "softmax", "classes"])
def test_a_model_that_goes_on_with_a_new_label_names_it_and_the_config_that_works(kind: str, tmp_path: Path) -> None:
    if kind == "classes":
        config, old, new = experiment(classifier(ELMO), csv_reader(), OPINIONS, num_epochs=1), OPINIONS, "odd,one day\n"
    else:
        model = tagger(ELMO, crf=kind == "crf")
        config, old, new = experiment(model, tags_reader(), TOWNS, num_epochs=1), TOWNS, "\nItem B-LST\n"
    train(config, tmp_path / "run")
    more = tmp_path / "more"
    more.write_text(old.read_text(encoding="utf-8") + new, encoding="utf-8")
    archive = {"type": "from_archive", "archive_file": str(tmp_path / "run" / "model.tar.gz")}
    with pytest.raises(ConfigurationError, match=r"'odd'|'B-LST'") as caught:
        train({**config, "train_data_path": str(more), "model": archive}, tmp_path / "archive")
    block = str(caught.value).split("add to 'model': ")[1].replace("RUN", str(tmp_path / "run"))
    added = json.loads(evaluate_snippet("message", "{ " + block + " }"))
    still = {"num_epochs": 1, "optimizer": {"type": "sgd", "lr": 0.0}}
    config |= {"train_data_path": str(more), "model": {**config["model"], **added}, "trainer": still}
    continued = train(config, tmp_path / "on")
    before, after = torch.load(tmp_path / "run" / "best.th"), continued.state_dict()
    renewed = {name for name in before if not torch.equal(before[name], after[name].cpu())}
    sized = ("tag_projection", "crf", "classification")
    assert renewed == {name for name in before if name.startswith(sized)} and renewed
    assert len(continued.vocab.get_token_to_index_vocabulary("labels")) == continued.labels.size
    del config["model"]["initializer"]["prevent_regexes"]
    with pytest.raises(ConfigurationError, match="Incompatible sizes") as caught:
        train(config, tmp_path / "other")
    assert "prevent_regexes" in with_hint(caught.value)


def test_all_unseen_labels_have_one_index_in_every_process() -> None:
    vocab = Vocabulary({"labels": {"B-X": 2, "I-X": 1}})
    labels = KnownLabels(vocab, "labels")
    again: Vocabulary = pickle.loads(pickle.dumps(vocab))
    for each in (vocab, again):
        assert each.get_token_index("I-LST", "labels") == each.get_token_index("B-LST", "labels") == -1
    assert labels.name(-1) == labels.name(2) == "@@UNSEEN@@" and labels.name(0) == "B-X"
    assert vocab.get_vocab_size("labels") == 2


def test_a_namespace_without_labels_is_an_error_that_lists_the_namespaces() -> None:
    with pytest.raises(ConfigurationError, match=r"'label_namespace' 'padded': .*'labels'"):
        build_model(experiment(classifier(ELMO, label_namespace="padded"), csv_reader(), OPINIONS))
