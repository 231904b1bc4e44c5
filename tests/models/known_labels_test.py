"""A label that training has not seen counts as an error of our models. AllenNLP's own keep their `KeyError`."""

import itertools
import json
import logging
import pickle
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.data.dataset_readers.dataset_utils.span_utils import bio_tags_to_spans
from allennlp.models import load_archive
from sklearn.metrics import accuracy_score, f1_score

from elmo_plugin.models.known_labels import UNSEEN, KnownLabels
from tests.models.configs import ELMO, train_archive
from tests.task_oracles import (
    OPINIONS,
    TOWNS,
    Config,
    allennlp,
    as_tensors,
    build_model,
    classifier,
    csv_reader,
    experiment,
    lstm,
    read_data,
    tagger,
    tags_reader,
    train,
    word_embedder,
)

# `TOWNS` has no tags of LST and MISC.
NEW_TAGS = """Tove B-PER
left O

Item B-LST
one I-LST
: O
Quill B-LOC
Fair B-MISC

nothing O
"""
TAGS = [["B-PER", "O"], ["B-LST", "I-LST", "O", "B-LOC", "B-MISC"], ["O"]]
NEW_CLASSES = "good,a fine day\nugly,a long day\nbad,no day\nodd,one day\n"


@pytest.fixture
def new_tags(tmp_path: Path) -> Path:
    path = tmp_path / "new.txt"
    path.write_text(NEW_TAGS, encoding="utf-8")
    return path


@pytest.fixture
def new_classes(tmp_path: Path) -> Path:
    path = tmp_path / "new.csv"
    path.write_text(NEW_CLASSES, encoding="utf-8")
    return path


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    """The warnings of unseen labels. AllenNLP takes the handlers off the root logger when it trains."""
    logger, said = logging.getLogger("elmo_plugin.models.known_labels"), list[str]()
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    yield said
    logger.removeHandler(handler)


@pytest.mark.parametrize(("crf", "loader"), [(True, "simple"), (True, "workers"), (False, "simple")])
def test_evaluate_counts_tags_that_training_has_not_seen_as_errors(
    crf: bool, loader: str, trained_tagger: Path, tmp_path: Path, new_tags: Path, warnings: list[str]
) -> None:
    archive = trained_tagger
    if not crf:
        archive = train_archive(experiment(tagger(ELMO, crf=False), tags_reader(), TOWNS), tmp_path / "run")
    loaded = load_archive(archive)
    predicted = [each["tags"] for each in loaded.model.forward_on_instances([*loaded.dataset_reader.read(new_tags)])]
    warnings.clear()
    workers = {"data_loader": {"type": "multiprocess", "batch_size": 4, "num_workers": 1, "max_instances_in_memory": 4}}
    metrics = evaluate_from_archive(archive, str(new_tags), cmd_overrides=workers if loader == "workers" else {})
    gold_spans, found_spans = (
        Counter((row, span) for row, tags in enumerate(rows) for span in bio_tags_to_spans(tags))
        for rows in (TAGS, predicted)
    )
    right = sum((gold_spans & found_spans).values())
    tokens = list(zip(itertools.chain(*TAGS), itertools.chain(*predicted), strict=True))
    assert metrics["accuracy"] == pytest.approx(sum(gold == found for gold, found in tokens) / len(tokens))
    assert metrics["precision-overall"] == pytest.approx(right / max(1, found_spans.total()))
    assert gold_spans.total() == 4
    assert metrics["recall-overall"] == pytest.approx(right / gold_spans.total())
    (warning,) = warnings
    assert all(repr(label) in warning for label in ("B-LST", "I-LST", "B-MISC")) and "B-LOC" not in warning
    assert 0 < metrics["loss"] < 100


@pytest.mark.parametrize("crf", [True, False])
def test_the_loss_counts_only_known_tags(crf: bool) -> None:
    model, _ = build_model(experiment(tagger(ELMO, crf=crf), tags_reader(), TOWNS))
    generator = torch.Generator().manual_seed(1)
    n_labels, lengths = model.tag_projection._module.out_features, (4, 3)
    logits = torch.randn(2, 4, n_labels, generator=generator)
    if crf:
        for parameter in model.crf.parameters():
            torch.nn.init.normal_(parameter, generator=generator)
    mask = torch.tensor([[True] * 4, [True] * 3 + [False]])
    tags = torch.tensor([[1, -7, 0, n_labels + 3], [2, 1, 0, 0]])
    losses = []
    for row, length in enumerate(lengths):
        gold = tags[row, :length].tolist()
        if crf:
            sums = []
            for places in ([index if 0 <= index < n_labels else None for index in gold], [None] * length):
                choices = [range(n_labels) if index is None else [index] for index in places]
                sequences = torch.tensor(list(itertools.product(*choices)))
                shape = (len(sequences), length)
                scores = model.crf._joint_likelihood(
                    logits[row, :length].expand(*shape, n_labels),
                    model.crf.transitions,
                    sequences,
                    torch.ones(shape, dtype=torch.bool),
                )
                sums.append(scores.logsumexp(dim=0))
            losses.append(sums[1] - sums[0])
        else:
            known = [place for place, index in enumerate(gold) if 0 <= index < n_labels]
            losses.append(-logits[row].log_softmax(dim=-1)[known, tags[row, known]].mean())
    torch.testing.assert_close(model._loss(logits, tags, mask, ignore_o=False), sum(losses) / 2, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("crf", [True, False])
def test_a_sentence_without_a_known_tag_has_a_loss_of_zero(crf: bool) -> None:
    model, _ = build_model(experiment(tagger(ELMO, crf=crf), tags_reader(), TOWNS))
    logits, unknown = torch.randn(1, 2, model.labels.size), torch.full((1, 2), -5)
    loss = model._loss(logits, unknown, torch.ones(1, 2, dtype=torch.bool), ignore_o=False)
    assert loss.item() == pytest.approx(0.0, abs=1e-5)


def test_a_batch_without_a_known_class_has_a_loss_of_zero() -> None:
    model, data = build_model(experiment(classifier(ELMO), csv_reader(), OPINIONS))
    batch = as_tensors(data[:2], model.vocab)
    assert model(**{**batch, "label": torch.tensor([-1, 9])})["loss"].item() == 0.0


def test_evaluate_counts_classes_that_training_has_not_seen_as_errors(
    tmp_path: Path, new_classes: Path, warnings: list[str]
) -> None:
    archive = train_archive(experiment(classifier(ELMO), csv_reader(), OPINIONS), tmp_path / "run")
    metrics = evaluate_from_archive(archive, str(new_classes))
    (warning,) = warnings
    assert "'odd', 'ugly'" in warning
    loaded = load_archive(archive)
    model = loaded.model
    answers = model.forward_on_instances(list(loaded.dataset_reader.read(new_classes)))
    gold, found = ["good", "ugly", "bad", "odd"], [answer["label"] for answer in answers]
    assert metrics["accuracy"] == pytest.approx(accuracy_score(gold, found))
    labels = [*model.vocab.get_token_to_index_vocabulary("labels")]
    wanted = f1_score(gold, found, labels=labels, average="macro", zero_division=0.0)
    assert metrics["macro_f1"] == pytest.approx(wanted)
    known = [answers[0]["probabilities"]["good"], answers[2]["probabilities"]["bad"]]
    assert metrics["loss"] == pytest.approx(-torch.tensor(known).log().mean().item(), abs=1e-5)


def test_predict_reads_them_with_the_dataset_reader(trained_tagger: Path, tmp_path: Path, new_tags: Path) -> None:
    output = tmp_path / "answers.jsonl"
    options = ("--use-dataset-reader", "--silent", "--output-file", output)
    allennlp("predict", trained_tagger, new_tags, *options)
    assert len(output.read_text(encoding="utf-8").splitlines()) == len(TAGS)


def test_validation_data_may_hold_them_and_training_data_may_not(
    tmp_path: Path, new_tags: Path, warnings: list[str]
) -> None:
    config = {**experiment(tagger(ELMO), tags_reader(), TOWNS), "validation_data_path": str(new_tags)}
    train({**config, "datasets_for_vocab_creation": ["train"]}, tmp_path / "run")
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert 0 < metrics["best_validation_accuracy"] < 1
    assert len(warnings) == 1
    config["train_data_path"], config["validation_data_path"] = str(new_tags), str(TOWNS)
    config["vocabulary"] = {"type": "from_files", "directory": str(tmp_path / "run" / "vocabulary")}
    with pytest.raises(ConfigurationError, match=r"training data: .*'labels'.*'B-LST', 'B-MISC', 'I-LST'"):
        train(config, tmp_path / "other")


def test_labels_that_extend_vocab_adds_are_errors_too(trained_tagger: Path, new_tags: Path) -> None:
    extended = evaluate_from_archive(trained_tagger, str(new_tags), extend_vocab=True)
    assert extended == pytest.approx(evaluate_from_archive(trained_tagger, str(new_tags)), abs=1e-6)


def test_a_namespace_of_another_name_has_padding_and_unknown_which_are_no_labels(
    new_tags: Path, tmp_path: Path
) -> None:
    """AllenNLP adds both to a namespace unless its name ends in `labels` or `tags`."""
    config = experiment(tagger(ELMO, label_namespace="entities"), tags_reader(label_namespace="entities"), TOWNS)
    model = train(config, tmp_path / "run")
    metrics = evaluate_from_archive(tmp_path / "run" / "model.tar.gz", str(new_tags))
    assert 0 <= metrics["f1-measure-overall"] < 1
    for answer in model.eval().forward_on_instances(read_data(config)):
        assert not [tag for tag in answer["tags"] if tag.startswith("@@")]


def test_allennlps_own_models_keep_their_error(tmp_path: Path, new_tags: Path) -> None:
    model: Config = {"type": "simple_tagger", "text_field_embedder": word_embedder(5), "encoder": lstm(5)}
    reader = tags_reader(token_indexers={"tokens": {"type": "single_id"}})
    archive = train_archive(experiment(model, reader, TOWNS), tmp_path / "run")
    with pytest.raises(KeyError, match="not found in vocab namespace"):
        evaluate_from_archive(archive, str(new_tags))


def test_the_index_of_an_unseen_label_is_the_same_in_every_process() -> None:
    vocab = Vocabulary({"labels": {"B-X": 2, "I-X": 1}})
    labels = KnownLabels(vocab, "labels")
    again: Vocabulary = pickle.loads(pickle.dumps(vocab))
    index = vocab.get_token_index("I-LST", "labels")
    assert index < 0 and index != vocab.get_token_index("B-LST", "labels")
    assert again.get_token_index("I-LST", "labels") == index
    assert labels.name(index) == "I-LST" and labels.name(-3) == UNSEEN and labels.name(0) == "B-X"
    assert vocab.get_vocab_size("labels") == 2 and KnownLabels(vocab, "labels").name(index) == "I-LST"


@pytest.mark.parametrize("namespace", ["other_labels", "padded"])
def test_a_namespace_without_labels_is_an_error_that_lists_the_namespaces(namespace: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"'label_namespace' '{namespace}': .*'labels'.*'num_labels'"):
        build_model(experiment(classifier(ELMO, label_namespace=namespace), csv_reader(), OPINIONS))
