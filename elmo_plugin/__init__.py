"""ELMo as AllenNLP components that jsonnet configs assemble.

     text ──► character ids ──► token vectors ──► biLM layers ──► one vector a token ──► tags, labels
              characters/            bilm/  (lstm/)      │             mixes/                 tasks/
                                                         │
     text shards ──► streams ──► biLM under one softmax ──► checkpoints/
                     pretraining/
     corpus ──► batches of like length ──► layers or a mix ──► hdf5 · npz · parquet
                     bulk_embedding/
     finished runs ──► tables and figures on one page
                       report/
     text, tags ──► neighbours in context, what each layer alone can tell
                       analyses/

Folder = stage of the data flow, file = kind of component, imports go one way, down.

Dimension key: B sentences · T tokens · C characters a token · L layers (LSTM layers + 1) · P one direction ·
D = 2P · H cell · V vocabulary · S streams · U words of a window · in `lstm/` N packed tokens · I its input width.
"""

from elmo_plugin.allennlp_compat import apply_repairs

apply_repairs()

from elmo_plugin import (  # noqa: E402
    analyses,
    bilm,
    bulk_embedding,
    checkpoints,
    commands,
    interop,
    mixes,
    pretraining,
    report,
    tasks,
)
from elmo_plugin.bulk_embedding import ElmoEmbedder, load  # noqa: E402
from elmo_plugin.characters import batch_to_ids  # noqa: E402
from elmo_plugin.mixes import Elmo  # noqa: E402

__all__ = [
    "Elmo",
    "ElmoEmbedder",
    "analyses",
    "batch_to_ids",
    "bilm",
    "bulk_embedding",
    "checkpoints",
    "commands",
    "interop",
    "load",
    "mixes",
    "pretraining",
    "report",
    "tasks",
]
__version__ = "0.1.0"
