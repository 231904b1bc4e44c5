"""From one format to another, with a warm state if asked."""

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, Optional, Union

import torch
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.bilm import CharacterLevelEncoder, warm_up
from elmo_plugin.checkpoints.bilm_tf import SUFFIXES as HDF5_SUFFIXES
from elmo_plugin.checkpoints.bilm_tf import BilmTf
from elmo_plugin.checkpoints.checkpoint_format import Checkpoint, Location, build_bilm, load_checkpoint
from elmo_plugin.checkpoints.many_langs import ManyLangs
from elmo_plugin.checkpoints.native import SUFFIX, Native
from elmo_plugin.text import TextFile

SENTENCES_AT_ONCE = 64
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

SOFTMAX, VOCABULARY, WARM_STATE = "softmax", "vocabulary", "warm state"
NO_PLACE = {"native": (), "bilm-tf": (SOFTMAX,), "many-langs": (SOFTMAX, VOCABULARY, WARM_STATE)}
"""The formats that are written, and what each has no place for."""
FOLDERS: dict[str, Union[type[BilmTf], type[ManyLangs]]] = {"bilm-tf": BilmTf, "many-langs": ManyLangs}
FILE_SUFFIXES = (*HDF5_SUFFIXES, ".zip")
"""A folder of such a name would be taken for a file."""


class Conversion(NamedTuple):
    """What was written, which parts had no place there, and the names of the files in the folder, if it is one."""

    checkpoint: Checkpoint
    left_out: list[str]
    files: list[str]


def convert(
    source: Location,
    target: Path,
    warm_on: Optional[Path] = None,
    to: Optional[str] = None,
    dtype: str = "float32",
) -> Conversion:
    """Read a biLM in any format and write it in one that it can be shared in.

    # Parameters

    source : path or URL in any format, or the name of a bundled biLM
    target : the file of a native checkpoint, or the folder where the files of another format go
    warm_on : a text of tokenised sentences, one a line, to compute the warm state on; plain, .gz, .xz or `-`
    to : one of `NO_PLACE`; by default `native` where `target` ends with `.safetensors`, else `bilm-tf`
    dtype : one of `DTYPES`; only native files are of other than float32

    Raises `ConfigurationError` for files that cannot be read or written, and for a biLM that the format cannot hold.
    """
    form = _chosen(target, to)
    if form != "native" and dtype != "float32":
        raise ConfigurationError(f"{form}'s files hold float32; wanted the native format for {dtype}")
    if warm_on is not None and WARM_STATE in NO_PLACE[form]:
        raise ConfigurationError(f"{form}'s files have no place for a warm state; wanted native or bilm-tf")
    checkpoint = load_checkpoint(source)
    if warm_on is not None:
        checkpoint = _warmed(checkpoint, warm_on)
    left_out = [part for part in NO_PLACE[form] if part in _parts(checkpoint)]
    written = _without(left_out, checkpoint)
    if form == "native":
        Native().write(written, target, DTYPES[dtype])
        return Conversion(written, left_out, [])
    return Conversion(written, left_out, FOLDERS[form]().write(written, target))


def _chosen(target: Path, to: Optional[str]) -> str:
    """The format that is meant. Raises `ConfigurationError` for one that is not written, or not under that name."""
    form = to or ("native" if target.suffix == SUFFIX else "bilm-tf")
    if form == "allennlp" or target.name.endswith(".tar.gz"):
        raise ConfigurationError(
            "an archive holds a whole model with its config, and `allennlp train` writes it; wanted one of the formats "
            f"{', '.join(NO_PLACE)}"
        )
    if form not in NO_PLACE:
        raise ConfigurationError(f"the format is '{form}'; wanted one of {', '.join(NO_PLACE)}")
    if form in FOLDERS and target.suffix in FILE_SUFFIXES:
        raise ConfigurationError(f"'{target}' is the name of a file; wanted a folder for the files of {form}")
    return form


def _parts(checkpoint: Checkpoint) -> set[str]:
    """What a checkpoint has beside its weights."""
    has = {
        SOFTMAX: checkpoint.softmax is not None,
        VOCABULARY: checkpoint.vocabulary is not None,
        WARM_STATE: "warm_hidden" in checkpoint.state_dict,
    }
    return {part for part in has if has[part]}


def _without(parts: list[str], checkpoint: Checkpoint) -> Checkpoint:
    """What remains of a checkpoint."""
    weights = checkpoint.state_dict
    return checkpoint._replace(
        softmax=None if SOFTMAX in parts else checkpoint.softmax,
        vocabulary=None if VOCABULARY in parts else checkpoint.vocabulary,
        state_dict={name: weights[name] for name in weights if WARM_STATE not in parts or not name.startswith("warm_")},
    )


def _warmed(checkpoint: Checkpoint, text: Path) -> Checkpoint:
    """The checkpoint with the state that the sentences of a text end with."""
    bilm = build_bilm(checkpoint)
    if not isinstance(bilm.token_encoder, CharacterLevelEncoder):
        raise ConfigurationError("a warm state is computed on characters, which this word-input biLM does not read")
    batches = _batches(text, bilm.token_encoder)
    first = list(islice(batches, 1))
    if not first:
        raise ConfigurationError(f"{text}: found no sentence to warm up on; wanted one a line")
    batches = chain(first, batches)
    bilm.warm_state = warm_up(bilm, Tqdm.tqdm(batches, desc="warming up", unit=f" × {SENTENCES_AT_ONCE} sentences"))
    return checkpoint._replace(state_dict=bilm.state_dict())


def _batches(text: Path, encoder: CharacterLevelEncoder) -> Iterator[Tensor]:
    sentences = (line.split() for line in TextFile(text).lines())
    while batch := list(islice(sentences, SENTENCES_AT_ONCE)):
        yield encoder.batch_to_ids(batch)
