"""ELMoForManyLangs' folders (Che et al. 2018), published for 44 languages: two pickles, two vocabularies, two configs.

Source: `Embedder.get_model` in `elmoformanylangs/elmo.py`, which reads the vocabularies and the weights, and
`Model.save_model` and `train` in `elmoformanylangs/biLM.py`, which write them.
"""

from os.path import isfile
from pathlib import Path, PureWindowsPath
from typing import Any

from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.bilm import BiLMOptions
from elmo_plugin.checkpoints.confined import read_weights
from elmo_plugin.checkpoints.files import (
    Checkpoint,
    CheckpointFormat,
    Location,
    file_in,
    local_file,
    names_in,
    read_object,
)
from elmo_plugin.checkpoints.vocabulary import read_words
from elmo_plugin.checkpoints.weight_map import MANY_LANGS, read_tensors
from elmo_plugin.common import named_errors

ENCODER, EMBEDDER = "encoder", "token_embedder"
"""The names of the two pickles, and of the blocks of the config that describe them."""
KINDS = {ENCODER: "elmo", EMBEDDER: "cnn"}
"""The `name` of each block in an ELMo. ELMoForManyLangs also trains other models in either place."""
PUBLISHED = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
"""Files of sizes that come with ELMoForManyLangs and not with the published weights. Both have the same content."""
PUBLISHED_CONFIG: dict[str, Any] = {
    ENCODER: {"name": "elmo", "projection_dim": 512, "cell_clip": 3, "proj_clip": 3, "dim": 4096, "n_layers": 2},
    EMBEDDER: {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
}
NAMELESS = "\u3000"
"""The entry of a line that has only an id: ELMoForManyLangs strips white space from lines, and with it this space."""


@CheckpointFormat.register("many-langs")
class ManyLangs(CheckpointFormat):
    """A folder with `encoder.pkl`, `token_embedder.pkl`, `config.json`, `char.dic` and `word.dic`.

    `config_path` of `config.json` names the file of the sizes: a path inside the folder, or else a file of that name in
    the folder. The softmax, `classifier.pkl`, is not read.

    Registered as a `CheckpointFormat` with name `many-langs`.
    """

    looks_for = f"{ENCODER}.pkl"

    def recognises(self, location: Location) -> bool:
        """Return whether the folder holds `encoder.pkl`."""
        return f"{ENCODER}.pkl" in names_in(location)

    def read(self, location: Location) -> Checkpoint:
        """Read a folder. Pickles with anything but tensors are rejected."""
        folder = local_file(location, "pretrained")
        options = _read_options(folder)
        tensors: dict[str, Tensor] = {}
        for part in (EMBEDDER, ENCODER):
            path = file_in(folder, f"{part}.pkl")
            tensors |= {f"{part}.{key}": value for key, value in read_weights(path, f"{path}").items()}
        return Checkpoint(options, read_tensors(MANY_LANGS, options, tensors, f"'{folder}'"))


def _read_options(folder: Path) -> BiLMOptions:
    """Return the sizes and the vocabularies as options of a biLM.

    `config_path` is a path relative to the folder. It was often written on another machine, so a file of the same name
    in the folder is tried next, and then the sizes that come with ELMoForManyLangs, which also reads files outside.
    """
    config_path = read_object(file_in(folder, "config.json")).get("config_path")
    path = config_path if isinstance(config_path, str) else ""
    name = PureWindowsPath(path).name
    if not name:
        raise ConfigurationError(
            f"'{folder / 'config.json'}': 'config_path': expected the file of the sizes, got {config_path!r}"
        )
    is_inside = not Path(path).is_absolute() and ".." not in Path(path).parts
    file = file_in(folder, path if is_inside and isfile(folder / path) else name)
    config = PUBLISHED_CONFIG if name in PUBLISHED and not file.exists() else read_object(file)
    for block, kind in KINDS.items():
        content = config.get(block)
        if not isinstance(content, dict) or str(content.get("name")).lower() != kind:
            raise ConfigurationError(f"'{file}': '{block}': expected an object with the name '{kind}', got {content!r}")
    encoder, embedder = config[ENCODER], config[EMBEDDER]
    lexicon = {"max_characters_per_token": embedder.get("max_characters_per_token")}
    if embedder.get("word_dim"):
        lexicon |= {"word_dim": embedder["word_dim"], "words": _read_entries(file_in(folder, "word.dic"))}
    if embedder.get("char_dim"):
        sizes = {key: embedder[key] for key in ("activation", "filters", "n_highway") if key in embedder}
        char_cnn = {**sizes, "embedding": {"dim": embedder["char_dim"]}}
        lexicon |= {"char_cnn": char_cnn, "characters": _read_entries(file_in(folder, "char.dic"))}
    # The keys of the LSTM are bilm-tf's. ELMoForManyLangs always adds a layer's input from the second layer on.
    lstm = {**encoder, "use_skip_connections": True}
    with named_errors(f"'{file}'", ConfigurationError):
        return BiLMOptions.from_dict({"lstm": lstm, "lexicon": lexicon})


def _read_entries(path: Path) -> list[str]:
    """Return the entries of a vocabulary file in the order of their ids. Raises `ConfigurationError` for any other."""
    entries: dict[str, str] = {}
    lines = read_words(path, f"{path}") or [""]  # which is no entry
    for number, line in enumerate(lines, start=1):
        *entry, id = line.strip().split("\t")
        if len(entry) > 1 or not id.isdecimal():
            raise ConfigurationError(f"'{path}', line {number}: expected an entry, a tab and an id, got {line!r}")
        entries[id] = entry[0] if entry else NAMELESS
    found = [entries[id] for id in map(str, range(len(lines))) if id in entries]
    if not len(found) == len(entries) == len(lines):
        raise ConfigurationError(
            f"'{path}': expected the ids 0 to {len(lines) - 1}, each once, in its {len(lines)} lines"
        )
    return found
