from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance
from torch.nn.functional import cross_entropy

from elmo_plugin.models import ElmoTagger
from elmo_plugin.models.spans import check_label_encoding
from tests.models.configs import ELMO
from tests.task_oracles import (
    TOWNS,
    as_tensors,
    build_model,
    experiment,
    tagger,
    tags_reader,
)

X = 5


def towns_model(**keys: Any) -> tuple[ElmoTagger, list[Instance]]:
    reader = tags_reader(convert_to_coding_scheme=keys.get("label_encoding", "BIO"))
    model, data = build_model(experiment(tagger(ELMO, **keys), reader, TOWNS))
    assert isinstance(model, ElmoTagger)
    return model, data


def test_probabilities_of_a_crf_leave_no_gradients_behind() -> None:
    model, data = towns_model()
    output = model.forward_on_instances(data[:2])
    assert all(len(each["probabilities"]) == len(each["tags"]) == len(each["words"]) for each in output)
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("crf", [True, False])
def test_the_loss_is_the_mean_over_sentences(crf: bool) -> None:
    model, data = towns_model(crf=crf)
    batch = as_tensors(data[:2], model.vocab)
    output = model(**batch)
    if crf:
        wanted = -model.crf(output["logits"], batch["tags"], output["mask"]) / 2
    else:
        rows = zip(output["logits"], batch["tags"], output["mask"], strict=True)
        means = [cross_entropy(logits[live], tags[live]) for logits, tags, live in rows]
        wanted = sum(means) / 2
    torch.testing.assert_close(output["loss"], wanted)


@pytest.mark.parametrize(
    ("encoding", "labels", "facts"),
    [
        ("bio", "O", ["'bio'", "BIO", "IOB1", "BIOUL", "BMES"]),
        ("BIO", "DT NN IN O", ["DT, IN, NN", "set null"]),
        ("BIO", "O B-PER L-PER U-PER", ["L-PER", "the labels fit 'BIOUL'"]),
        ("BIO", "O I-PER I-LOC B-LOC", ["I-PER", "the labels fit 'IOB1'"]),
        ("BIOES", "O B-X E-X S-X", ["'coding_scheme' 'BIOES'", "'convert_to_coding_scheme' 'BIOUL'"]),
        ("BMES", "O B-X M-X E-X", ["got O", "'coding_scheme' 'BMES'"]),
        ("BIO", "O B_PER I_PER", None),
        ("BIOUL", "O U-PER", None),
        ("BMES", "B-X E-X", None),
        ("IOB1", "O B-X", None),
    ],
)
def test_labels_of_another_encoding_are_an_error_that_names_some(encoding: str, labels: str, facts: Any) -> None:
    if facts is None:
        check_label_encoding(encoding, labels.split())
        return
    with pytest.raises(ConfigurationError, match="'label_encoding'") as caught:
        check_label_encoding(encoding, labels.split())
    assert all(fact in str(caught.value) for fact in facts)


def test_a_tagger_checks_its_labels(tmp_path: Path) -> None:
    (tmp_path / "iob1.txt").write_text("Tove I-PER\nleft O\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"'label_encoding': .*I-PER.*'IOB1'"):
        build_model(experiment(tagger(ELMO), tags_reader(coding_scheme=None), tmp_path / "iob1.txt"))
