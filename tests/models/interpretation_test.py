"""AllenNLP's interpreters and attackers on our models: gradients against those computed by hand."""

import copy
import pickle
from typing import Any

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Vocabulary
from allennlp.interpret.attackers import Hotflip
from allennlp.interpret.saliency_interpreters import IntegratedGradient, SimpleGradient, SmoothGradient
from allennlp.models import Model
from allennlp.predictors import Predictor
from torch import Tensor, nn

from elmo_plugin.models import ElmoTagger
from tests.models.configs import ELMO, ELMO_ONLY, pooling
from tests.task_oracles import (
    OPINIONS,
    TOWNS,
    Config,
    D,
    as_tensors,
    classifier,
    csv_reader,
    experiment,
    lstm,
    tagger,
    tags_reader,
    word_embedder,
)

QUESTION = {"tokens": ["Tove", "left", "Harrow", "."]}
T = 4
X = 5
SALIENCY = [SimpleGradient, IntegratedGradient, SmoothGradient]


def predictor_of(config: Config, **keys: Any) -> Any:
    """A predictor for the untrained model of an experiment, whose weights are far from zero."""
    reader = DatasetReader.from_params(Params(copy.deepcopy(config["dataset_reader"])))
    vocab = Vocabulary.from_instances(reader.read(config["train_data_path"]))
    torch.manual_seed(3)
    model = Model.from_params(Params(copy.deepcopy(config["model"])), vocab=vocab)
    for name, weights in model.named_parameters():
        if name.startswith(("tag_projection", "classification")):
            nn.init.normal_(weights)
    name = "elmo_classifier" if "classifier" in config["model"]["type"] else "elmo_tagger"
    return Predictor.by_name(name)(model, reader, **keys)  # type: ignore[call-arg]


def experiment_of(make: Any, elmo: Any = ELMO, x: bool = True, elmo_at: Any = ("input", "output"), **keys: Any) -> Any:
    """The config of an `elmo_tagger` or an `elmo_classifier` with word vectors x and ELMo."""
    encoder = lstm(X * x + D * (elmo is not None and "input" in elmo_at))
    keys |= {"elmo_at": [*elmo_at], "encoder": encoder, "text_field_embedder": word_embedder(X) if x else None}
    if make is tagger:
        return experiment(tagger(elmo, **keys), tags_reader(), TOWNS)
    keys |= {"seq2vec_encoder": pooling(12 + D * ("output" in elmo_at))}
    return experiment(classifier(elmo, **keys), csv_reader(), OPINIONS)


CRF = experiment_of(tagger)
SOFTMAX = experiment_of(tagger, crf=False)
CLASSIFIER = experiment_of(classifier)
OUTPUT = experiment_of(classifier, {**ELMO, "requires_grad": True}, elmo_at=["output"])


def loss_by_hand(model: Any, whole: Tensor, instance: Instance) -> Tensor:
    """The loss of a labelled instance without a CRF, in plain torch, from its whole input (1, T, x and ELMo)."""
    width = model.text.encoder.get_input_dim()
    mask = torch.ones(whole.shape[:2], dtype=torch.bool)
    hidden = torch.cat([model.text.encoder(whole[..., :width], mask), whole[..., width:]], dim=-1)
    if not isinstance(model, ElmoTagger):
        return -model.classification(hidden.mean(dim=1)).log_softmax(dim=-1)[0, instance["label"].label]
    logits = hidden[0] @ model.tag_projection._module.weight.T + model.tag_projection._module.bias  # (T, labels)
    index = model.vocab.get_token_to_index_vocabulary("labels")
    tags = instance["tags"].labels
    counted = [t for t in range(T) if tags[t] != "O" or not instance["ignore_loss_on_o_tags"].flag_value]
    return torch.stack([-logits[t].log_softmax(dim=-1)[index[tags[t]]] for t in counted]).mean()


def by_hand(model: Any, instance: Instance) -> tuple[Tensor, Tensor, Tensor]:
    """The whole input `[x; ELMo]` of a labelled instance, the gradient of the loss there, and the loss."""
    tokens = as_tensors([instance], model.vocab)["tokens"]
    x = model.text.text_field_embedder({"tokens": tokens["tokens"]})
    whole = torch.cat([x, *model.text.elmo(*tokens["elmo"].values()).representations], dim=-1)
    whole = whole.detach().requires_grad_()
    loss = loss_by_hand(model, whole, instance)
    (gradient,) = torch.autograd.grad(loss, whole)
    return whole, gradient, loss


@pytest.mark.slow
@pytest.mark.parametrize("config", [SOFTMAX, OUTPUT])
def test_a_model_is_explained_by_the_gradients_of_its_whole_input(config: Config) -> None:
    predictor = predictor_of(config)
    trainable = {name: weights.requires_grad for name, weights in predictor._model.named_parameters()}
    for instance in predictor.json_to_labeled_instances(QUESTION):
        gradients, outputs = predictor.get_gradients([instance])
        _, expected, loss = by_hand(predictor._model, instance)
        torch.testing.assert_close(outputs["loss"], loss, atol=1e-4, rtol=1e-4)
        assert [*gradients] == ["grad_input_1"] and expected.abs().sum() > 1e-3
        torch.testing.assert_close(torch.tensor(gradients["grad_input_1"]), expected, atol=1e-5, rtol=1e-3)
    assert trainable == {name: weights.requires_grad for name, weights in predictor._model.named_parameters()}


@pytest.mark.slow
def test_scores_are_the_gradients_times_the_inputs_of_each_token() -> None:
    predictor = predictor_of(CLASSIFIER)
    (instance,) = predictor.json_to_labeled_instances(QUESTION)
    whole, gradient, _ = by_hand(predictor._model, instance)
    smooth = SmoothGradient(predictor)
    smooth.stdev, smooth.num_samples = 0.0, 1
    for interpreter, products in ((SimpleGradient(predictor), (gradient * whole)[0]), (smooth, gradient[0])):
        scores = products.sum(dim=-1).abs()  # (T,)
        answer = interpreter.saliency_interpret_from_json(QUESTION)["instance_1"]["grad_input_1"]
        assert answer == pytest.approx((scores / scores.sum()).tolist(), abs=1e-4)


def labelled(instances: list[Instance]) -> list[Any]:
    """The tags of each instance, or its label."""
    return [each["tags"].labels if "tags" in each else each["label"].label for each in instances]  # type: ignore[attr-defined]


def test_each_predicted_span_is_an_instance() -> None:
    predictor = predictor_of(CRF)
    instance = predictor._json_to_instance(QUESTION)
    tags = ["B-PER", "I-PER", "O", "B-LOC"]
    found = predictor.predictions_to_labeled_instances(instance, {"tags": tags})
    first, second = ["B-PER", "I-PER", "O", "O"], ["O", "O", "O", "B-LOC"]
    assert labelled(found) == [first, second]
    assert all(each["ignore_loss_on_o_tags"].flag_value for each in found) and "tags" not in instance
    (none,) = predictor.predictions_to_labeled_instances(instance, {"tags": ["O"] * T})
    assert labelled([none]) == [["O"] * T] and not none["ignore_loss_on_o_tags"].flag_value


def test_hotflip_swaps_words_until_the_prediction_changes() -> None:
    predictor = predictor_of(CLASSIFIER)
    labeled = predictor.json_to_labeled_instances(QUESTION)
    found = Hotflip(predictor).attack_from_json(QUESTION)
    assert found["original"] == QUESTION["tokens"] and len(found["final"]) == len(labeled)
    for instance, tokens in zip(labeled, found["final"], strict=True):
        swapped = sum(one != other for one, other in zip(tokens, QUESTION["tokens"], strict=True))
        assert 0 < swapped < T and tokens[-1] == "."
        still = labelled(predictor.json_to_labeled_instances({"tokens": tokens}))
        assert labelled([instance])[0] not in still or swapped == T - 1


def test_hotflip_without_word_ids_is_an_error_that_says_what_to_add() -> None:
    config = experiment_of(classifier, x=False)
    config["dataset_reader"]["token_indexers"] = ELMO_ONLY
    with pytest.raises(ConfigurationError, match=r"'single_id'.*ELMoTokenCharactersIndexer"):
        Hotflip(predictor_of(config)).attack_from_json(QUESTION)


@pytest.mark.slow
def test_where_nothing_changes_the_loss_scores_are_0_and_not_nan() -> None:
    predictor = predictor_of(CLASSIFIER)
    nn.init.zeros_(predictor._model.classification.weight)
    for interpreter in SALIENCY:
        for scores in interpreter(predictor).saliency_interpret_from_json(QUESTION).values():
            assert scores == {"grad_input_1": [0.0] * T}


def test_the_whole_input_adds_no_weights_and_is_copied_with_its_model() -> None:
    model = predictor_of(CRF)._model
    assert not [name for name in model.state_dict() if "whole_input" in name]
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        embedder, elmo = twin.text.whole_input._embedders
        assert embedder is twin.text.text_field_embedder and elmo is twin.text.elmo is not model.text.elmo
