from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance
from sklearn.metrics import accuracy_score, f1_score

from elmo_plugin.elmo import AverageMix, LastMix
from elmo_plugin.models import ElmoClassifier
from tests.models.configs import ELMO, pooling
from tests.task_oracles import (
    OPINIONS,
    Config,
    D,
    as_tensors,
    build_model,
    classifier,
    csv_reader,
    experiment,
)

X = 5


def opinions_model(**keys: Any) -> tuple[ElmoClassifier, list[Instance]]:
    model, data = build_model(experiment(classifier(ELMO, **keys), csv_reader(), OPINIONS))
    assert isinstance(model, ElmoClassifier)
    return model, data


def test_it_pools_both_ends_of_the_rnn_from_two_mixes() -> None:
    feedforward = {"input_dim": 12 + D, "num_layers": 1, "hidden_dims": 9, "activations": "tanh"}
    model, data = opinions_model(feedforward=feedforward)
    elmo = model.text.elmo
    assert elmo is not None and model.feedforward is not None
    elmo.scalar_mix_0, elmo.scalar_mix_1 = AverageMix(3, D), LastMix(3, D)
    batch = as_tensors(data[:3], model.vocab)
    output = model(**batch)
    enhanced = elmo(batch["tokens"]["elmo"]["elmo_tokens"])
    (average, last), mask = enhanced.representations, enhanced.mask
    joint = torch.cat([model.text.encoder(average, mask), last], dim=-1) * mask.unsqueeze(-1)  # (B, T, 12 + D)
    pooled = joint.sum(dim=1) / mask.sum(dim=1, keepdim=True)
    logits = model.classification(model.feedforward(pooled))
    torch.testing.assert_close(output["logits"], logits)
    torch.testing.assert_close(output["probs"], logits.softmax(dim=-1))
    torch.testing.assert_close(output["loss"], torch.nn.functional.cross_entropy(logits, batch["label"]))


def test_accuracy_and_f1_are_sklearns_over_batches() -> None:
    model, _ = opinions_model()
    generator = torch.Generator().manual_seed(0)
    gold, logits = torch.randint(3, (23,), generator=generator), torch.randn(23, 3, generator=generator)
    logits[:, 2] = -10.0  # a label that is never predicted
    for part, scores in zip(gold.split(10), logits.split(10), strict=True):
        model.accuracy(scores, part)
        model.f1(scores, part)
    predicted = logits.argmax(dim=-1)
    f1 = f1_score(gold, predicted, labels=range(3), average=None, zero_division=0.0)
    wanted = {"accuracy": accuracy_score(gold, predicted), "macro_f1": f1.mean()}
    assert model.get_metrics() == pytest.approx(wanted)
    model.verbose_metrics = True
    by_label = {f"f1-measure-{model.labels.name(index)}": value for index, value in enumerate(f1)}
    assert model.get_metrics(reset=True) == pytest.approx({**wanted, **by_label})
    model.verbose_metrics = False
    assert model.get_metrics() == {"accuracy": 0.0, "macro_f1": 0.0}


def test_its_answer_names_the_best_label_and_gives_the_probability_of_each() -> None:
    model, data = opinions_model()
    for answer, instance in zip(model.forward_on_instances(data), data, strict=True):
        assert set(answer["probabilities"]) == {"good", "bad", "mixed"}
        assert sum(answer["probabilities"].values()) == pytest.approx(1.0)
        assert answer["label"] == max(answer["probabilities"], key=answer["probabilities"].get)
        assert answer["words"] == instance["metadata"]["words"]


@pytest.mark.parametrize(
    ("keys", "facts"),
    [
        ({"seq2vec_encoder": pooling(30)}, ["'seq2vec_encoder'", "28", "12 of the encoder", "16 of ELMo", "30"]),
        ({"feedforward": {"input_dim": 30, "num_layers": 1, "hidden_dims": 9, "activations": "tanh"}}, ["28 and 30"]),
    ],
)
def test_a_wrong_size_or_place_is_an_error_that_says_the_right_one(keys: Config, facts: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        opinions_model(**keys)
    assert all(fact in str(caught.value) for fact in facts), caught.value
