"""Write a biLM in any format, or convert one from one format to another, and add a warm state on request."""

import json
from pathlib import Path
from typing import NamedTuple, Optional

import torch
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError
from more_itertools import chunked, peekable

from elmo_plugin.bilm import BiLM, CharacterLevelEncoder, check_precision, warm_up
from elmo_plugin.checkpoints.bilm_tf import HDF5_SUFFIXES, BilmTf
from elmo_plugin.checkpoints.files import Checkpoint, Location
from elmo_plugin.checkpoints.loading import build_bilm, fitting_bilm, load_checkpoint
from elmo_plugin.checkpoints.native import SUFFIX, Native, check_target
from elmo_plugin.common import atomic_folder, named_errors
from elmo_plugin.tensors import NUMBER_TYPES
from elmo_plugin.text import TOKENIZED, TextFile, look_at, split_tokens

SENTENCES_PER_BATCH = 64
FORMATS = ("native", "bilm-tf", "hub")
"""The formats that `convert` writes."""
FILE_SUFFIXES = (*HDF5_SUFFIXES, ".zip", ".gz")
"""Suffixes for which a folder would be read as a file."""


CARD = """---
library_name: elmo_plugin
pipeline_tag: feature-extraction
license: {license}
tags: [elmo, bilm, allennlp]
---

# {name}

An ELMo: a bidirectional language model with {n_layers} LSTM layers, whose {num_layers} layers give each token
{num_layers} vectors of width {layer_dim}. It has {parameters:,} parameters and reads {input}.

## Use

In Python:

```python
import elmo_plugin

embedder = elmo_plugin.load("hf://USER/{name}")
layers = embedder.embed([["Two", "words"], ["One"]])[0]  # ({num_layers}, 2, {layer_dim})
```

In an AllenNLP config:

```jsonnet
token_embedders: {{ elmo: {{ type: 'elmo', bilm: 'hf://USER/{name}' }} }}
```

## Training

State the language, the text, its licence, and the perplexity on held-out text.
"""


class Conversion(NamedTuple):
    """Hold what was written, the parts that were left out, and the names of the files if the target is a folder."""

    checkpoint: Checkpoint
    left_out: list[str]
    files: list[str]


def convert(
    source: Location,
    target: Path,
    warm_on: Optional[Path] = None,
    to: Optional[str] = None,
    dtype: str = "float32",
    license: Optional[str] = None,
    options_file: Optional[Location] = None,
) -> Conversion:
    """Read a biLM in any format and write it in one of `FORMATS`.

    # Parameters

    source : `Location`
        A path or URL in any format, or the name of a bundled biLM.
    options_file : `Optional[Location]`
        The sizes, for weights that come without them.
    warm_on : `Optional[Path]`
        A text to compute the warm state on, one tokenized sentence per line: a plain, `.gz` or `.xz` file, or `-`.
    target, to, dtype, license
        See `write_checkpoint`.

    Raises `ConfigurationError` for files that cannot be read or written, and for a biLM that the format cannot hold.
    """
    form, _ = _format(target, to, dtype, license)
    with Tqdm.tqdm(total=2, desc="reading, then writing", unit=" steps") as progress:
        checkpoint = load_checkpoint(source, options_file)
        fitting_bilm(checkpoint, source=source)  # a format of another package may not have compared them
        progress.update()
        if warm_on is not None:
            checkpoint = _with_warm_state(checkpoint, warm_on)
        with named_errors(f"'{source}'", ConfigurationError):
            written = write_checkpoint(checkpoint, target, form, dtype, license)
        progress.update()
    return written


def save_bilm(
    bilm: BiLM,
    target: Path,
    to: Optional[str] = None,
    dtype: str = "float32",
    license: Optional[str] = None,
    vocabulary: Optional[list[str]] = None,
) -> Conversion:
    """Write a biLM, such as one that was fine-tuned, in one of `FORMATS`. The biLM itself stays as it is.

    >>> bilm = build_bilm(load_checkpoint("english-tiny"))
    >>> save_bilm(bilm, Path("tuned.safetensors")).checkpoint.options == bilm.options  # doctest: +SKIP
    True

    `vocabulary` is the lines of its vocabulary, if it reads words; see `write_checkpoint` for the other arguments.
    Raises `ConfigurationError` if the files cannot be written, and for a biLM that the format cannot hold.
    """
    checkpoint = Checkpoint(bilm.options, bilm.state_dict(), vocabulary=vocabulary)
    return write_checkpoint(checkpoint, target, to, dtype, license)


def write_checkpoint(
    checkpoint: Checkpoint,
    target: Path,
    to: Optional[str] = None,
    dtype: str = "float32",
    license: Optional[str] = None,
) -> Conversion:
    """Write a checkpoint in one of `FORMATS`. `bilm-tf` has no place for the softmax.

    # Parameters

    checkpoint : `Checkpoint`
    target : `Path`
        The file of a native checkpoint, or the folder for the files of another format.
    to : `Optional[str]`
        One of `FORMATS`. The default is `native` if `target` ends with `.safetensors`, else `bilm-tf`.
    dtype : `str`
        One of `elmo_plugin.tensors.NUMBER_TYPES`; `float32` for `bilm-tf`.
    license : `Optional[str]`
        The licence in the model card of `hub`, such as `apache-2.0`; `unknown` by default.

    Raises `ConfigurationError` if the files cannot be written, and for a biLM that the format cannot hold.
    """
    form, numbers = _format(target, to, dtype, license)
    if form == "native":
        Native().write(checkpoint, target, numbers)
        return Conversion(checkpoint, [], [])
    if form == "hub":
        return Conversion(checkpoint, [], _write_hub_folder(checkpoint, target, numbers, license))
    left_out = [] if checkpoint.softmax is None else ["softmax"]
    return Conversion(checkpoint._replace(softmax=None), left_out, BilmTf().write(checkpoint, target))


def _write_hub_folder(
    checkpoint: Checkpoint,
    folder: Path,
    dtype: torch.dtype,
    license: Optional[str],
) -> list[str]:
    """Write a folder for `hf upload`, which is read as format `native`, and return the names of its files.

    `license` is the licence in the model card by its name on the Hub, such as `apache-2.0`; the default is `unknown`.
    Existing files stay as they are if writing fails. Raises `ConfigurationError` if the folder cannot be written.
    """
    options = checkpoint.options
    sizes = options.to_dict()
    for entries in ("words", "characters"):  # they are in the safetensors file
        sizes.get("lexicon", {}).pop(entries, None)
    card = CARD.format(
        license=license or "unknown",
        name=folder.resolve().name,
        n_layers=options.lstm.n_layers,
        num_layers=options.num_layers,
        layer_dim=options.layer_dim,
        parameters=checkpoint.n_parameters,
        input="words by its vocabulary" if options.reads_words else "the characters of any word",
    )
    with atomic_folder(folder, last="model.safetensors") as partial:
        Native().write(checkpoint, partial / "model.safetensors", dtype)
        config = {"model_type": "elmo", "library_name": "elmo_plugin", **sizes}
        (partial / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        (partial / "README.md").write_text(card, encoding="utf-8")
        return sorted(path.name for path in partial.iterdir())


def _format(target: Path, to: Optional[str], dtype: str, license: Optional[str]) -> tuple[str, torch.dtype]:
    """Return the format and the number type to write.

    Raises `ConfigurationError` for a format or a type that cannot be written, or not to this target.
    """
    form = to or ("native" if target.suffix == SUFFIX else "bilm-tf")
    if form not in FORMATS:
        raise ConfigurationError(f"expected one of the formats {', '.join(FORMATS)}, got '{form}'")
    if form == "bilm-tf" and dtype != "float32":
        raise ConfigurationError(
            f"'dtype': expected float32 for the format bilm-tf, got {dtype}; use the native format"
        )
    if form != "hub" and license is not None:
        raise ConfigurationError(f"'license': expected none, because the format {form} has no model card; use hub")
    if form == "native":
        check_target(target)
    elif target.suffix in FILE_SUFFIXES:
        raise ConfigurationError(f"'{target}': expected a folder for the files of {form}, got the name of a file")
    return form, NUMBER_TYPES[check_precision(dtype, [*NUMBER_TYPES], "dtype")]


def _with_warm_state(checkpoint: Checkpoint, text: Path) -> Checkpoint:
    """Compute the warm state on the sentences of a text and add it."""
    bilm = build_bilm(checkpoint)
    encoder = bilm.token_encoder
    if not isinstance(encoder, CharacterLevelEncoder):
        raise ConfigurationError("'warm_on': expected a biLM that reads characters, got one that reads words")
    sentences = map(split_tokens, look_at(TextFile(text).lines(), str(text), TOKENIZED)[1])
    batches = peekable(map(encoder.batch_to_ids, chunked(sentences, SENTENCES_PER_BATCH)))
    if not batches:
        raise ConfigurationError(f"{text}: expected one sentence per line to compute the warm state on, got none")
    progress = Tqdm.tqdm(batches, desc="warming up", unit=f" × {SENTENCES_PER_BATCH} sentences")
    bilm.warm_state = warm_up(bilm, progress)
    return checkpoint._replace(state_dict=bilm.state_dict())
