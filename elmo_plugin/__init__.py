"""ELMo as AllenNLP components that jsonnet configs assemble.

     text ──► character ids ──► token vectors ──► biLM layers ──► one vector per token ──► tags, labels
                  text/              bilm/  (lstm/)      │             elmo/                   models/
                                                         │
     text shards ──► streams ──► biLM under one softmax ──► checkpoints/
                     pretraining/
     corpus ──► batches of similar length ──► layers or a mix ──► hdf5 · npz · parquet
                     embedding/
     finished runs, text, tags ──► tables and figures, neighbours in context, probes of each layer
                     analysis/

A folder is a stage of the data flow, a file is a kind of component, and imports only go down.

Dimension key: B sentences · T tokens · C characters per token · L layers (LSTM layers + 1) · P one direction ·
D = 2P · H cell · V vocabulary · S streams · U unrolled steps · in `lstm/` N packed tokens · I its input width.
"""

from importlib.util import find_spec

from elmo_plugin.postponed_imports import postponed_imports

if find_spec("allennlp") is None:
    raise ModuleNotFoundError(
        "No module named 'allennlp'; install it with: pip install --no-deps allennlp==2.10.1", name="allennlp"
    )

with postponed_imports():
    import elmo_plugin.compat  # noqa: F401  (repairs AllenNLP before another package imports more of it)
    from elmo_plugin import (
        analysis,
        bilm,
        checkpoints,
        elmo,
        embedding,
        integrations,
        models,
        pretraining,
        text,
    )
    from elmo_plugin.commands import register  # noqa: F401  (gives AllenNLP the commands)
    from elmo_plugin.elmo import Elmo, save
    from elmo_plugin.embedding import ElmoEmbedder, load
    from elmo_plugin.text import batch_to_ids

__all__ = [
    "Elmo",
    "ElmoEmbedder",
    "analysis",
    "batch_to_ids",
    "bilm",
    "checkpoints",
    "commands",
    "elmo",
    "embedding",
    "integrations",
    "load",
    "models",
    "pretraining",
    "save",
    "text",
]
__version__ = "1.0.0"
