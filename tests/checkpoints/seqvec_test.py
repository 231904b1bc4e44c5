"""SeqVec, a protein model in bilm-tf's format, as people use it: residues as tokens, and the sum or mean of layers."""

from pathlib import Path

import numpy as np
import pytest

from elmo_plugin import load
from tests.checkpoints.file_shapes_test import cnn, lstm
from tests.oracles import file_layers, tensorflow_file

PROTEINS = ["SEQWENCE", "MKTAYIAKQRQISFVKSHFSRQ", "X", "MUOBZXJ", ""]
"""Proteins with the rare residues U and O, the ambiguous ones B, Z and J, and the unknown one, X."""
SIZES = {"lstm": lstm(), "char_cnn": cnn(n_highway=2, filters=[[1, 3], [2, 3], [7, 4]])}


@pytest.fixture
def seqvec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a small model like SeqVec's and, beside it, a file of proteins with spaces between the residues."""
    (tmp_path / "seqvec").mkdir()
    (tmp_path / "proteins.txt").write_text("".join(f"{' '.join(protein)}\n" for protein in PROTEINS), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tensorflow_file(tmp_path / "seqvec", SIZES)


def its_layers(folder: Path, protein: str) -> np.ndarray:
    """Return the layers (L, T, D) of one protein that the oracle computes from the files."""
    return file_layers(folder, list(protein))[:, 1:-1].float().numpy()


def test_each_residue_has_one_vector_per_layer(seqvec: Path) -> None:
    for protein, found in zip(PROTEINS, load(seqvec).embed([list(protein) for protein in PROTEINS]), strict=True):
        np.testing.assert_allclose(found, its_layers(seqvec, protein), atol=1e-5)
