"""From one format to another, with a warm state if asked."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Optional

import torch
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.bilm import SpellingEncoder, warm_up
from elmo_plugin.checkpoints.bilm_tf import BilmTf
from elmo_plugin.checkpoints.checkpoint_format import Checkpoint, Location, build_bilm, load_checkpoint
from elmo_plugin.checkpoints.native import SUFFIX, Native

SENTENCES_AT_ONCE = 64
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def convert(
    source: Location,
    target: Path,
    warm_on: Optional[Path] = None,
    to: Optional[str] = None,
    dtype: str = "float32",
) -> Checkpoint:
    """Read a biLM in any format and write it in one that it can be shared in.

    # Parameters

    source : path or URL in any format, or the name of a bundled biLM
    target : the file of a native checkpoint, or the folder where bilm-tf's files go
    warm_on : a text of tokenised sentences, one a line, to compute the warm state on
    to : `native` or `bilm-tf`; by default the first where `target` ends with `.safetensors`
    dtype : one of `DTYPES`; bilm-tf's files are always float32

    Raises `ConfigurationError` for files that cannot be read or written.
    """
    native = to == "native" if to else target.suffix == SUFFIX
    if not native and dtype != "float32":
        raise ConfigurationError(f"bilm-tf's files hold float32; wanted the native format for {dtype}")
    checkpoint = load_checkpoint(source)
    if warm_on is not None:
        checkpoint = _warmed(checkpoint, warm_on)
    if native:
        Native().write(checkpoint, target, DTYPES[dtype])
    else:
        BilmTf().write(checkpoint, target)
    return checkpoint


def _warmed(checkpoint: Checkpoint, text: Path) -> Checkpoint:
    """The checkpoint with the state that the sentences of a text end with."""
    bilm = build_bilm(checkpoint)
    if not isinstance(bilm.token_encoder, SpellingEncoder):
        raise ConfigurationError("a warm state is computed on characters, which this word-input biLM does not read")
    batches = _batches(text, bilm.token_encoder)
    bilm.warm_state = warm_up(bilm, Tqdm.tqdm(batches, desc="warming up", unit=f" × {SENTENCES_AT_ONCE} sentences"))
    return checkpoint._replace(state_dict=bilm.state_dict())


def _batches(text: Path, encoder: SpellingEncoder) -> Iterator[Tensor]:
    try:
        with text.open(encoding="utf-8") as lines:
            sentences = (line.split() for line in lines)
            while batch := list(islice(sentences, SENTENCES_AT_ONCE)):
                yield encoder.batch_to_ids(batch)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"'{text}' is no text to warm up on: {error}") from error
