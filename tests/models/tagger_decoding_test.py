import itertools
from copy import deepcopy
from typing import Any

import pytest
import torch
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.data.dataset_readers.dataset_utils import span_utils
from allennlp.models import Model
from allennlp.modules.conditional_random_field.conditional_random_field import is_transition_allowed
from torch import Tensor

from elmo_plugin.models import ElmoTagger
from elmo_plugin.models.spans import bioul_tags_to_spans
from tests.models.configs import ELMO
from tests.task_oracles import tagger

LABELS = {
    "BIO": ["O", "B-X", "I-X", "B-Y", "I-Y"],
    "BIOUL": ["O", "B-X", "I-X", "L-X", "U-X", "B-Y", "I-Y", "L-Y", "U-Y"],
}


def own_tagger(encoding: Any, crf: bool, labels: list[str]) -> ElmoTagger:
    """A tagger over a given set of labels, with ELMo at both ends."""
    vocab = Vocabulary()
    vocab.add_tokens_to_namespace(labels, "labels")
    model = Model.from_params(Params(tagger(deepcopy(ELMO), label_encoding=encoding, crf=crf)), vocab=vocab)
    assert isinstance(model, ElmoTagger)
    return model.eval()


def valid(encoding: str, tags: list[str]) -> bool:
    """Whether a sequence of tags is one of its encoding, start and end included."""
    states = [("START", ""), *((tag[0], tag[1:]) for tag in tags), ("END", "")]
    return all(is_transition_allowed(encoding, *before, *after) for before, after in itertools.pairwise(states))


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_a_crf_never_breaks_its_encoding(scale: float) -> None:
    labels, lengths = LABELS["BIOUL"], torch.arange(1, 10)
    model = own_tagger("BIOUL", True, labels)
    mask = torch.arange(9) < lengths.unsqueeze(1)
    predicted = model._decode(torch.randn(9, 9, len(labels)) * scale, mask)
    assert [len(tags) for tags in predicted] == lengths.tolist()
    assert all(valid("BIOUL", [labels[tag] for tag in tags]) for tags in predicted)


def measure(model: ElmoTagger, gold: list[list[str]], predicted: list[list[str]]) -> dict[str, float]:
    """The metrics of given predictions."""
    index = model.vocab.get_token_to_index_vocabulary("labels")
    lengths = [len(tags) for tags in gold]
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    padded = torch.zeros(len(gold), max(lengths), dtype=torch.long)
    for row, tags in zip(padded, gold, strict=True):
        row[: len(tags)] = torch.tensor([index[tag] for tag in tags])
    model._measure([[index[tag] for tag in tags] for tags in predicted], padded, mask)
    return model.get_metrics(reset=True)


def test_a_softmax_over_bioul_is_measured_though_its_sequences_are_broken() -> None:
    model = own_tagger("BIOUL", False, LABELS["BIOUL"])
    gold = [["B-X", "L-X", "O", "U-Y"], ["U-X", "O"]]
    predicted = [["B-X", "L-X", "L-X", "U-Y"], ["B-X", "O"]]
    # Predicted: X(0-2), which is broken and wrong, Y(3) · X(0), broken, and where gold has it.
    assert measure(model, gold, predicted) == pytest.approx(
        {"accuracy": 4 / 6, "precision-overall": 2 / 3, "recall-overall": 2 / 3, "f1-measure-overall": 2 / 3}
    )


def test_spans_of_whole_bioul_tags_are_allennlps() -> None:
    for tags in itertools.product(LABELS["BIOUL"], repeat=4):
        if valid("BIOUL", list(tags)):
            assert sorted(bioul_tags_to_spans(list(tags), [])) == sorted(span_utils.bioul_tags_to_spans(list(tags)))


def readable(model: ElmoTagger, logits: Tensor, mask: Tensor) -> dict[str, Any]:
    output = {"logits": logits, "mask": mask, "tags": model._decode(logits, mask)}
    return model.make_output_human_readable(output)


MASK = torch.tensor([[True, True, True], [True, False, False]])


def test_probabilities_of_a_softmax_are_its_own() -> None:
    model = own_tagger("BIO", False, LABELS["BIO"])
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(1))
    whole = model._probabilities(logits, MASK)  # (B, T, labels)
    torch.testing.assert_close(whole.sum(dim=-1), torch.ones(2, 3))
    output = readable(model, logits, MASK)
    assert [len(row) for row in output["probabilities"]] == [3, 1]
    for b, t in MASK.nonzero().tolist():
        assert output["probabilities"][b][t] == pytest.approx(whole[b, t].max().item())
        assert output["tags"][b][t] == LABELS["BIO"][int(whole[b, t].argmax())]


@pytest.mark.parametrize("encoding", [None, "BIO"])
def test_probabilities_of_a_crf_are_its_marginals_over_all_sequences(encoding: Any) -> None:
    model = own_tagger(encoding, True, LABELS["BIO"])
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(2))
    found = model._probabilities(logits, MASK)
    crf = model.crf
    for b, length in enumerate(MASK.sum(dim=1).tolist()):
        wanted = torch.zeros(length, 5)
        for tags in itertools.product(range(5), repeat=length):
            score = crf.start_transitions[tags[0]] + crf.end_transitions[tags[-1]]
            score = score + sum(logits[b, t, tag] for t, tag in enumerate(tags))
            score = score + sum(crf.transitions[before, after] for before, after in itertools.pairwise(tags))
            for t, tag in enumerate(tags):
                wanted[t, tag] += score.detach().exp()
        torch.testing.assert_close(found[b, :length], wanted / wanted.sum(dim=-1, keepdim=True))
    output = readable(model, logits, MASK)
    chosen = [[LABELS["BIO"].index(tag) for tag in tags] for tags in output["tags"]]
    for b, tags in enumerate(chosen):
        assert output["probabilities"][b] == pytest.approx([found[b, t, tag].item() for t, tag in enumerate(tags)])
