"""Models after `half()`, `bfloat16()` and `double()`: ours, and AllenNLP's with `elmo_enhanced`."""

from copy import deepcopy

import pytest
import torch
from allennlp.models import Model

from tests.models.configs import ELMO
from tests.task_oracles import (
    OPINIONS,
    TOWNS,
    Config,
    D,
    L,
    as_tensors,
    build_model,
    classifier,
    csv_reader,
    experiment,
    lstm,
    tagger,
    tags_reader,
    word_embedder,
)

X = 5
LAYERS = {"type": "elmo", **ELMO, "mix": "concatenate"}
ENHANCED: Config = {
    "type": "simple_tagger",
    "text_field_embedder": word_embedder(X, elmo=LAYERS),
    "encoder": {"type": "elmo_enhanced", "encoder": lstm(X + D), "num_elmo_layers": L, "layer_dim": D},
}


@pytest.mark.parametrize(
    ("config", "dtype"),
    [
        (experiment(tagger(ELMO), tags_reader(), TOWNS), torch.bfloat16),
        (experiment(classifier(ELMO), csv_reader(), OPINIONS), torch.float16),
        (experiment(ENHANCED, tags_reader(), TOWNS), torch.float64),
    ],
)
def test_a_model_in_another_number_type_answers_and_trains(config: Config, dtype: torch.dtype) -> None:
    model, data = build_model(config)
    batch = as_tensors(data[:3], model.vocab)
    wanted = model(**batch)
    converted: Model = deepcopy(model).to(dtype)
    found = converted(**batch)
    assert found["logits"].dtype == dtype
    tolerance = 1e-6 if dtype == torch.float64 else 0.01
    torch.testing.assert_close(found["logits"].float(), wanted["logits"], rtol=0, atol=tolerance)
    torch.testing.assert_close(found["loss"].float(), wanted["loss"], rtol=tolerance, atol=0)
    converted.make_output_human_readable(found)
    converted.train()(**batch)["loss"].backward()
    trained = [parameter for parameter in converted.parameters() if parameter.requires_grad]
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in trained)
