"""Each row of the moving guide's table of attributes: AllenNLP's line and ours give the same numbers and shapes."""

import re
from pathlib import Path
from typing import Any

import allennlp.modules.elmo as allennlps_elmo
import pytest
import torch
from allennlp.modules.elmo_lstm import ElmoLstm as AllenNlpLstm
from allennlp.modules.scalar_mix import ScalarMix as AllenNlpMix
from allennlp.modules.token_embedders import ElmoTokenEmbedder as AllenNlpEmbedder
from torch import Tensor, nn

from elmo_plugin.bilm import ElmoLstm
from elmo_plugin.elmo import Elmo, ElmoTokenEmbedder, ScalarMix
from elmo_plugin.text import batch_to_ids
from tests.oracles import write_files
from tests.task_oracles import D, L, small_bilm

PAGE = Path(__file__).resolve().parents[1] / "docs/guides/moving.md"
ROWS = re.findall(r"^\| `([^|]+)` \| `([^|]+)` \|$", PAGE.read_text("utf-8").partition("## The retired")[0], re.M)
MASK = torch.tensor([[True, True, True, True], [True, True, False, False]])


def filled(module: nn.Module) -> nn.Module:
    """Fill all parameters with numbers that depend on their shapes alone, so that other names do not matter."""
    for parameter in module.parameters():
        numbers = torch.arange(parameter.numel(), dtype=torch.float32)
        parameter.data = (0.5 * torch.sin(numbers + 1)).view(parameter.shape)
    return module


class FilledLstm:
    """Stands for the class in our line, which is built by `from_config`."""

    @staticmethod
    def from_config(*sizes: int, **options: Any) -> nn.Module:
        return filled(ElmoLstm.from_config(*sizes, **options))


@pytest.fixture(scope="module")
def namespaces(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """The names in the lines of AllenNLP and in ours, over the same weights."""
    files = write_files(tmp_path_factory.mktemp("bilm"), small_bilm())
    torch.manual_seed(4)
    one, two, three = torch.randn(3, 2, 4, D)
    given = {
        "torch": torch,
        "ids": batch_to_ids([["Two", "words"], ["One"]]),
        "vectors": torch.randn(2, 4, 5),
        "mask": MASK,
    }
    given |= {"one": one, "two": two, "three": three, "layer_dim": D}
    theirs = {
        **given,
        "elmo": filled_mixes(allennlps_elmo.Elmo(*files, 2, dropout=0.25)),
        "Elmo": lambda *keys, **named: allennlps_elmo.Elmo(*keys, dropout=0, **named),
        "bilm": allennlps_elmo._ElmoBiLm(*files),
        "token_embedder": filled_projection(AllenNlpEmbedder(*files, projection_dim=3)),
        "ScalarMix": lambda size: AllenNlpMix(size),
        "ElmoLstm": lambda *sizes: filled(AllenNlpLstm(*sizes)),
    }
    ours = {
        **given,
        "elmo": filled_mixes(Elmo(*files, 2, dropout=0.25)),
        "Elmo": type("Parts", (), {"from_parts": lambda bilm, mixes: Elmo.from_parts(bilm, mixes, dropout=0)}),
        "bilm": small_bilm(),
        "mixes": [ScalarMix(L, D)],
        "token_embedder": filled_projection(ElmoTokenEmbedder(*files, projection_dim=3)),
        "ScalarMix": ScalarMix,
        "ElmoLstm": FilledLstm,
    }
    return theirs, ours


def filled_mixes(elmo: Any) -> Any:
    """Give the mixes weights that differ from each other's and from layer to layer."""
    state = elmo.state_dict()
    for name in state:
        if "gamma" in name:
            state[name].fill_(2.0 + ("mix_1" in name))
        elif name.endswith("scalar_parameters"):
            state[name].copy_(torch.arange(L))
        elif "scalar_parameters." in name:
            state[name].fill_(float(name.rpartition(".")[2]))
    return elmo.eval()


def filled_projection(embedder: Any) -> Any:
    for parameter in embedder.parameters():
        if len(parameter) == 3 and parameter.dim() == 2:
            filled_one = torch.sin(torch.arange(parameter.numel(), dtype=torch.float32)).view(parameter.shape)
            parameter.data = filled_one
    return embedder


def as_tensor(value: Any) -> Tensor:
    """One tensor of a number, a tensor or a list of tensors."""
    if isinstance(value, list):
        return torch.stack(value)
    return torch.as_tensor(value)


def test_the_page_has_the_rows() -> None:
    assert len(ROWS) == 14


@pytest.mark.parametrize(("theirs", "ours"), ROWS)
def test_a_row_gives_the_same_numbers_and_shapes(
    theirs: str, ours: str, namespaces: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    wanted, found = (as_tensor(eval(line, names)) for line, names in zip((theirs, ours), namespaces, strict=True))
    present = as_tensor(namespaces[1]["elmo"].layers(namespaces[1]["ids"])[1])
    if wanted.dim() == 4 and wanted.shape[1:3] == present.shape:  # AllenNLP leaves numbers where there is no token
        wanted = wanted * present.unsqueeze(-1)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)
