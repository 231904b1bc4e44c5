"""Store a biLM inside a file of another library, so that a model saved there needs no other file."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Optional

from elmo_plugin.checkpoints import Checkpoint, Native, WordIds
from elmo_plugin.embedding import Embedder, load

FILE = "bilm.safetensors"


def bilm_to_bytes(embedder: Embedder) -> bytes:
    """Return an embedder's biLM, with the vocabulary if it reads words, as the content of a `native` file."""
    bilm, word_id = embedder.elmo.bilm, embedder.word_id
    vocabulary = word_id.words if isinstance(word_id, WordIds) else None
    with TemporaryDirectory() as folder:
        Native().write(Checkpoint(bilm.options, bilm.state_dict(), vocabulary=vocabulary), Path(folder, FILE))
        return Path(folder, FILE).read_bytes()


def load_bytes(content: bytes, source: str, mix: str, precision: str, initial_state: Optional[str]) -> Embedder:
    """Load what `bilm_to_bytes` returned, as `load` does. `source` names the biLM in error messages."""
    with TemporaryDirectory() as folder:
        Path(folder, FILE).write_bytes(content)
        embedder = load(Path(folder, FILE), mix, precision, initial_state=initial_state)
    embedder.elmo.bilm.source = source
    return embedder
