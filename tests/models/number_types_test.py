"""Models after `half()`, `bfloat16()` and `double()`: ours, and AllenNLP's with `elmo_enhanced`."""

from copy import deepcopy
from itertools import cycle

import pytest
import torch
from allennlp.models import Model

from tests.models.configs import pooling
from tests.oracles import options
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

BILM = {"bilm": {"options": options().to_dict(), "seed": 0}}
LAYERS = {"type": "elmo", **BILM, "mix": "concatenate", "dropout": 0.0}
X = 5
ENHANCED = {"type": "elmo_enhanced", "encoder": lstm(X + D), "num_elmo_layers": L, "layer_dim": D}

MODELS: dict[str, Config] = {
    "elmo_tagger": tagger(BILM, encoder=lstm(X + D), text_field_embedder=word_embedder(X)),
    "elmo_tagger without CRF": tagger(BILM, crf=False, encoder=lstm(D, type="gru")),
    "elmo_tagger of all layers": tagger({**BILM, "mix": "concatenate"}, encoder=lstm(L * D)),
    "elmo_classifier": classifier(BILM),
    "simple_tagger": {
        "type": "simple_tagger",
        "text_field_embedder": word_embedder(X, elmo={"type": "elmo", **BILM}),
        "encoder": lstm(X + D),
    },
    "simple_tagger, enhanced": {
        "type": "simple_tagger",
        "text_field_embedder": word_embedder(X, elmo=LAYERS),
        "encoder": ENHANCED,
    },
    "basic_classifier, enhanced": {
        "type": "basic_classifier",
        "text_field_embedder": word_embedder(X, elmo=LAYERS),
        "seq2seq_encoder": ENHANCED,
        "seq2vec_encoder": pooling(12 + D),
    },
}


@pytest.mark.parametrize(("name", "dtype"), zip(MODELS, cycle([torch.bfloat16, torch.float16, torch.float64])))
def test_a_model_in_another_number_type_answers_and_trains(name: str, dtype: torch.dtype) -> None:
    of_text = "classifier" in name
    model, data = build_model(
        experiment(MODELS[name], csv_reader() if of_text else tags_reader(), OPINIONS if of_text else TOWNS)
    )
    batch = as_tensors(data[:3], model.vocab)
    wanted = model(**batch)
    converted: Model = deepcopy(model).to(dtype)
    found = converted(**batch)
    assert found["logits"].dtype == dtype
    tolerance = 1e-6 if dtype == torch.float64 else 0.01
    torch.testing.assert_close(found["logits"].float(), wanted["logits"], rtol=0, atol=tolerance)
    torch.testing.assert_close(found["loss"].float(), wanted["loss"], rtol=tolerance, atol=0)
    if not (dtype == torch.bfloat16 and name.startswith("simple_tagger")):  # it asks for an array, and NumPy has none
        converted.make_output_human_readable(found)
    converted.train()(**batch)["loss"].backward()
    trained = [parameter for parameter in converted.parameters() if parameter.requires_grad]
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in trained)
