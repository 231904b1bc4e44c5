"""Layer weights of a trained run, compared with the model in its archive."""

import shutil
from pathlib import Path

import pytest
import torch
from allennlp.models.archival import load_archive

from elmo_plugin.analysis import read_layer_weights
from elmo_plugin.analysis.runs import learned_mixes
from tests.serving_oracles import FILES


@pytest.mark.parametrize("gone", ["best.th", "model.tar.gz"])
def test_layer_weights_equal_those_of_the_archived_model_from_either_file(tmp_path: Path, gone: str) -> None:
    shutil.unpack_archive(FILES / "elmo_tagger.tar.gz", tmp_path, filter="data")
    (tmp_path / "weights.th").rename(tmp_path / "best.th")
    shutil.copy(FILES / "elmo_tagger.tar.gz", tmp_path / "model.tar.gz")
    mixes = [mix for _, mix in load_archive(tmp_path / "model.tar.gz").model.named_modules() if hasattr(mix, "gamma")]
    (tmp_path / gone).unlink()
    found = read_layer_weights(tmp_path)
    assert found is not None and len(found) == len(mixes) > 0
    for (weights, gamma), mix in zip(found.values(), mixes, strict=True):
        assert weights == mix.scalar_parameters.softmax(dim=0).tolist() and gamma == mix.gamma.item()


def test_the_mixes_of_an_enhanced_encoder_name_their_places() -> None:
    weights = {
        f"a.deep.encoder.{place}_mix.{name}": torch.tensor(values)
        for place, values in (("output", [0.0, 2.0]), ("input", [1.0, 1.0]))
        for name, values in (("scalar_parameters", values), ("gamma", [values[1]]))
    }
    found = learned_mixes(weights, {})
    assert found["input"] == ([0.5, 0.5], 1.0)
    assert found["output"].weights == pytest.approx([0.1192, 0.8808], abs=1e-4)


@pytest.mark.parametrize("mix", ["mixes.0", "scalar_mix_0"])
def test_the_mix_of_a_token_embedder_is_at_the_input(mix: str) -> None:
    """The names are those of the first archives and of AllenNLP."""
    name = f"text_field_embedder.token_embedder_elmo.elmo.{mix}"
    weights = {f"{name}.scalar_parameters": torch.zeros(4), f"{name}.gamma": torch.ones(1)}
    assert learned_mixes(weights, {}) == {"input": ([0.25] * 4, 1.0)}
