import shutil
from pathlib import Path
from typing import Any, Optional
from unittest.mock import patch

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import load_archive
from allennlp.modules import Seq2SeqEncoder
from torch import Tensor

from elmo_plugin.checkpoints import Checkpoint, Native
from elmo_plugin.elmo import ElmoEnhancedEncoder, ScalarMix
from tests.oracles import options
from tests.task_oracles import (
    TOWNS,
    Config,
    D,
    L,
    bilm_files,
    build_model,
    experiment,
    lstm,
    small_bilm,
    tags_reader,
    train,
    word_embedder,
)

B, T, X = 3, 5, 7
MASK = torch.arange(T) < torch.tensor([5, 2, 3]).unsqueeze(1)  # (B, T)
INPUT_WEIGHTS, OUTPUT_WEIGHTS = [1.0, -1.0, 0.0], [0.0, 2.0, -2.0]
SIZES = {"num_elmo_layers": L, "layer_dim": D}


def mix(weights: list[float]) -> dict[str, Any]:
    return {"type": "scalar", "initial_scalar_parameters": weights}


def enhanced(encoder: dict[str, Any], **keys: Any) -> ElmoEnhancedEncoder:
    return from_keys(encoder=encoder, **{**SIZES, "dropout": 0.0, **keys})


def from_keys(**keys: Any) -> ElmoEnhancedEncoder:
    """Build an encoder from these keys of a config and no others."""
    torch.manual_seed(2)
    built = Seq2SeqEncoder.from_params(Params({"type": "elmo_enhanced", **keys}))
    assert isinstance(built, ElmoEnhancedEncoder)
    return built


def random_parts() -> tuple[Tensor, Tensor]:
    """Layers (L, B, T, D) and x (B, T, X), zero where there is no token, as embedders return them."""
    generator = torch.Generator().manual_seed(3)
    live = MASK.unsqueeze(-1)
    layers, x = torch.randn(L, B, T, D, generator=generator), torch.randn(B, T, X, generator=generator)
    layers[0, ..., D // 2 :] = layers[0, ..., : D // 2]  # a token's vector, twice
    return layers * live, x * live


def side_by_side(layers: Tensor, x: Tensor, layers_at: str = "first") -> Tensor:
    flat = torch.cat(list(layers), dim=-1)  # (B, T, L · D)
    return torch.cat([flat, x] if layers_at == "first" else [x, flat], dim=-1)


def by_hand(weights: list[float], layers: Tensor) -> Tensor:
    shares = torch.tensor(weights).softmax(dim=0)
    return shares[0] * layers[0] + shares[1] * layers[1] + shares[2] * layers[2]  # (B, T, D)


@pytest.mark.parametrize(
    ("layers_at", "at_input", "at_output"),
    [
        ("first", True, True),
        ("first", False, True),
        ("last", True, False),
    ],
)
def test_it_concatenates_elmo_before_and_after_the_encoder(layers_at: str, at_input: bool, at_output: bool) -> None:
    encoder = enhanced(
        lstm(X + D * at_input),
        input_mix=mix(INPUT_WEIGHTS) if at_input else None,
        output_mix=mix(OUTPUT_WEIGHTS) if at_output else None,
        layers_at=layers_at,
    )
    layers, x = random_parts()
    read = torch.cat([x, by_hand(INPUT_WEIGHTS, layers)], dim=-1) if at_input else x
    hidden = encoder.encoder(read, MASK)  # (B, T, 12)
    wanted = torch.cat([hidden, by_hand(OUTPUT_WEIGHTS, layers)], dim=-1) if at_output else hidden
    torch.testing.assert_close(encoder(side_by_side(layers, x, layers_at), MASK), wanted)
    assert encoder.get_input_dim() == L * D + X
    assert encoder.get_output_dim() == wanted.size(-1) == 12 + D * at_output


def test_a_missing_mix_is_scalar_and_null_omits_it() -> None:
    both, neither = enhanced(lstm(X + D)), enhanced(lstm(X), input_mix=None, output_mix=None)
    assert isinstance(both.input_mix, ScalarMix) and isinstance(both.output_mix, ScalarMix)
    assert both.input_mix is not both.output_mix
    assert neither.input_mix is None and neither.output_mix is None
    layers, x = random_parts()
    torch.testing.assert_close(neither(side_by_side(layers, x), MASK), neither.encoder(x, MASK))


def test_dropout_applies_to_elmo_but_not_to_x_and_the_hidden_vectors() -> None:
    encoder = enhanced(lstm(X), dropout=0.5, input_mix=None, output_mix="average")
    layers, x = random_parts()
    found = encoder(side_by_side(layers, x), MASK)
    hidden, elmo_out = found.split([12, D], dim=-1)
    torch.testing.assert_close(hidden, encoder.encoder(x, MASK))
    kept = elmo_out != 0
    torch.testing.assert_close(elmo_out[kept], 2 * layers.mean(dim=0)[kept])
    assert 0.3 < kept[MASK].float().mean() < 0.7


@pytest.mark.parametrize(
    ("output_mix", "bidirectional", "wanted"), [(None, True, True), (None, False, False), ("last", True, False)]
)
def test_it_is_bidirectional_if_the_halves_of_its_output_are_two_directions(
    output_mix: Optional[str], bidirectional: bool, wanted: bool
) -> None:
    assert enhanced(lstm(X + D, bidirectional=bidirectional), output_mix=output_mix).is_bidirectional() is wanted


def test_vectors_of_another_width_are_an_error_that_states_the_expected_width() -> None:
    with pytest.raises(ConfigurationError) as caught:
        enhanced(lstm(X + D))(torch.zeros(B, T, D + X), MASK)
    assert all(fact in str(caught.value) for fact in ("'elmo_enhanced'", "55", "3 layers of 16", "x of 7", "got 23"))


@pytest.mark.parametrize("layers_at", ["first", "last"])
def test_layers_at_the_other_end_of_the_input_are_an_error(layers_at: str) -> None:
    encoder, (layers, x) = enhanced(lstm(X + D), layers_at=layers_at), random_parts()
    with pytest.raises(ConfigurationError, match=r"'layers_at': .* biLM"):
        encoder(side_by_side(layers, x, "last" if layers_at == "first" else "first"), MASK)
    torch.manual_seed(0)
    dropped = side_by_side(torch.nn.functional.dropout(layers), x, layers_at)
    assert encoder(dropped, MASK).shape == encoder(side_by_side(layers, x, layers_at), MASK).shape


def stock_tagger(elmo: Config, encoder: Config) -> Config:
    """An experiment with AllenNLP's tagger, with ELMo at both ends of its task RNN."""
    embedder = word_embedder(X, elmo={"type": "elmo", "mix": "concatenate", "dropout": 0.0, **elmo})
    encoder = {"type": "elmo_enhanced", "encoder": lstm(X + D), **encoder}
    model = {"type": "simple_tagger", "text_field_embedder": embedder, "encoder": encoder}
    return experiment(model, tags_reader(), TOWNS, num_epochs=1)


def test_an_allennlp_model_trains_by_config_alone_and_its_archive_needs_no_files_of_the_bilm(tmp_path: Path) -> None:
    weights = bilm_files(tmp_path / "bilm")["weight_file"]
    config = stock_tagger({"bilm": weights}, {"bilm": weights})
    before, _ = build_model(config)
    model = train(config, tmp_path / "run")
    moved = {name: not torch.equal(value, before.get_parameter(name)) for name, value in model.named_parameters()}
    assert all(is_moved != (".bilm." in name) for name, is_moved in moved.items())
    assert {name.split(".")[1] for name in moved if name.endswith("gamma")} == {"input_mix", "output_mix"}
    shutil.rmtree(tmp_path / "bilm")
    loaded = load_archive(tmp_path / "run/model.tar.gz").model
    assert sizes_of(loaded.encoder) == (L, D)  # type: ignore[arg-type]
    for name, value in model.named_parameters():
        assert torch.equal(loaded.get_parameter(name), value)


def sizes_of(encoder: ElmoEnhancedEncoder) -> tuple[int, int]:
    return encoder.num_elmo_layers, encoder.layer_dim


def test_the_sizes_come_from_the_bilm(tmp_path: Path) -> None:
    for bilm in (bilm_files(tmp_path / "bilm"), {"options": options().to_dict(), "seed": 4}):
        encoder = from_keys(encoder=lstm(X + D), bilm=bilm)
        assert sizes_of(encoder) == (L, D)
        assert encoder.input_mix is not None and encoder.input_mix.get_output_dim() == D


def test_the_sizes_of_the_bilm_are_read_without_its_weights(tmp_path: Path) -> None:
    files = bilm_files(tmp_path)
    Path(files["weight_file"]).write_bytes(b"")
    assert sizes_of(from_keys(encoder=lstm(D), bilm=files["weight_file"])) == (L, D)
    native = tmp_path / "tiny.safetensors"
    Native().write(Checkpoint(options(), small_bilm().state_dict()), native)
    with patch.object(Native, "read", side_effect=AssertionError):
        assert sizes_of(from_keys(encoder=lstm(D), bilm=str(native))) == (L, D)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"num_elmo_layers": L}, "'bilm', or 'num_elmo_layers' and 'layer_dim'.*'layer_dim': None"),
        ({"bilm": "english-tiny", "num_elmo_layers": L}, "'bilm': .*'num_elmo_layers' and 'layer_dim'"),
        ({"num_layers": L, **SIZES}, "'num_layers' is the old name of 'num_elmo_layers'"),
        ({"bilm": {"pretraned": "x"}}, "'bilm': expected .*'pretrained'.* got .*pretraned"),
        ({**SIZES, "layers_at": "middle"}, "'layers_at': .* got 'middle'"),
        ({**SIZES, "output_mix": mix([1.0, 2.0])}, "output_mix.*initial_scalar_parameters': .*3.* 2"),
        ({**SIZES, "encoder": lstm(10)}, "'input_size': expected 16 .* got 10"),
    ],
)
def test_missing_contradictory_and_impossible_keys_are_an_error(keys: Config, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        from_keys(**{"encoder": lstm(600), **keys})


def test_the_old_name_of_the_number_of_layers_works_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="now 'num_elmo_layers'"):
        assert sizes_of(from_keys(encoder=lstm(D), num_layers=L, layer_dim=D)) == (L, D)
