"""Write a folder for the Hugging Face Hub: one native file, its sizes, and a model card."""

import json
from os import PathLike
from pathlib import Path
from typing import Optional

import torch

from elmo_plugin.checkpoints.checkpoint_format import Checkpoint
from elmo_plugin.checkpoints.native import Native
from elmo_plugin.common import atomic_folder

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


def write_hub_folder(
    checkpoint: Checkpoint,
    folder: "PathLike[str]",
    dtype: torch.dtype = torch.float32,
    license: Optional[str] = None,
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
        name=Path(folder).resolve().name,
        n_layers=options.lstm.n_layers,
        num_layers=options.num_layers,
        layer_dim=options.layer_dim,
        parameters=checkpoint.n_parameters,
        input="words by its vocabulary" if options.reads_words else "the characters of any word",
    )
    with atomic_folder(Path(folder), last="model.safetensors") as partial:
        Native().write(checkpoint, partial / "model.safetensors", dtype)
        config = {"model_type": "elmo", "library_name": "elmo_plugin", **sizes}
        (partial / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        (partial / "README.md").write_text(card, encoding="utf-8")
        return sorted(path.name for path in partial.iterdir())
