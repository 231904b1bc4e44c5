"""ELMoForManyLangs' folders (Che et al. 2018), published for 44 languages: two pickles, two vocabularies, two configs.

Source: `Embedder.get_model` in `elmoformanylangs/elmo.py`, which reads the vocabularies and the weights, and
`Model.save_model` and `train` in `elmoformanylangs/biLM.py`, which write them.
"""

import json
from collections.abc import Sequence
from io import BytesIO
from os import PathLike
from os.path import isfile
from pathlib import Path, PureWindowsPath
from typing import Any, Optional

import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.bilm import BiLMOptions, LstmOptions, ManyLangsOptions
from elmo_plugin.checkpoints.checkpoint_format import Checkpoint, CheckpointFormat
from elmo_plugin.checkpoints.files import Location, local_file, names_in
from elmo_plugin.checkpoints.untrusted import check_numbers, check_sums, read_text, read_weights
from elmo_plugin.checkpoints.weight_map import many_langs_map, read_tensors, write_tensors
from elmo_plugin.common import atomic_folder, read_json

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
SIZES = "sizes.json"
"""The file that `config_path` names in the folders that we write."""
PADDING = "<pad>"
"""The word that ELMoForManyLangs puts after the end of a sentence."""
NAMELESS = "\u3000"
"""The entry of a line that has only an id: ELMoForManyLangs strips white space from lines, and with it this space."""
TRAINING = {"dropout": 0.1}
"""A training option without which ELMoForManyLangs cannot even run the model."""


@CheckpointFormat.register("many-langs")
class ManyLangs(CheckpointFormat):
    """A folder with `encoder.pkl`, `token_embedder.pkl`, `config.json`, `char.dic` and `word.dic`.

    `config_path` of `config.json` names the file of the sizes: a path relative to the folder, or else a file of that
    name in the folder. The softmax, `classifier.pkl`, is not read.

    Registered as a `CheckpointFormat` with name `many-langs`.
    """

    looks_for = f"{ENCODER}.pkl"

    def recognises(self, location: Location) -> bool:
        """Return whether the folder holds `encoder.pkl`."""
        return f"{ENCODER}.pkl" in names_in(location)

    def is_complete(self, folder: Path) -> bool:
        """Return whether the folder has both pickles and the config."""
        return {f"{EMBEDDER}.pkl", "config.json"} <= set(names_in(folder))

    def read(self, location: Location) -> Checkpoint:
        """Read a folder. Pickles with anything but tensors are rejected."""
        folder = local_file(location, "pretrained")
        options = _read_options(folder)
        tensors: dict[str, Any] = {}
        pickles = {file: folder / f"{file}.pkl" for file in (EMBEDDER, ENCODER)}
        for file, path in pickles.items():
            check_sums(path, f"{path}")
            tensors |= {f"{file}.{key}": value for key, value in read_weights(path, f"{path}").items()}
        check_numbers(options, sum(path.stat().st_size for path in pickles.values()), f"{folder}")
        assert options.many_langs is not None
        rows = many_langs_map(options.many_langs, options.lstm)
        return Checkpoint(options, read_tensors(rows, tensors, f"'{folder}'", lambda _, value: value))

    def write(self, checkpoint: Checkpoint, folder: "PathLike[str]") -> list[str]:
        """Write a folder that ELMoForManyLangs can read too, and return the names of its files.

        The format has no place for a softmax, a vocabulary or a warm state. Existing files stay as they are if writing
        fails. Raises `ConfigurationError` for a biLM that ELMoForManyLangs cannot run, and if the folder cannot be
        written.
        """
        sizes, lstm = _check_writable(checkpoint.options), checkpoint.options.lstm
        texts = {
            "config.json": json.dumps({"config_path": SIZES}, indent=2) + "\n",
            SIZES: json.dumps({**_sizes_to_theirs(sizes, lstm), **TRAINING}, indent=2) + "\n",
        }
        for name, entries in (("char.dic", sizes.characters), ("word.dic", sizes.words)):
            if entries:
                texts[name] = vocabulary_text(entries, f"{Path(folder) / name}")
        weights: dict[str, dict[str, Tensor]] = {file: {} for file in KINDS}
        for name, value in write_tensors(many_langs_map(sizes, lstm), checkpoint.state_dict):
            file, _, key = name.partition(".")
            # A copy, because torch would save all of the memory that a view looks into.
            weights[file][key] = value.clone(memory_format=torch.contiguous_format)
        with atomic_folder(Path(folder), last=f"{ENCODER}.pkl") as partial:
            for name, text in texts.items():
                (partial / name).write_bytes(text.encode())
            for file, tensors in weights.items():
                content = BytesIO()
                torch.save(tensors, content)
                (partial / f"{file}.pkl").write_bytes(content.getvalue())
            return sorted(path.name for path in partial.iterdir())


def _json(file: Path) -> dict[str, Any]:
    try:
        content = read_json(file)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"'{file}' cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise ConfigurationError(f"'{file}': expected an object, got a {type(content).__name__}")
    return content


def _read_options(folder: Path) -> BiLMOptions:
    """Convert the sizes and the vocabularies to our options; `_sizes_to_theirs` is the inverse."""
    file, config = _read_sizes(folder)
    for block, kind in KINDS.items():
        content = config.get(block)
        if not isinstance(content, dict) or str(content.get("name")).lower() != kind:
            raise ConfigurationError(f"'{file}': '{block}': expected an object with the name '{kind}', got {content!r}")
    encoder, embedder = config[ENCODER], config[EMBEDDER]
    lexicon = {"max_characters_per_token": embedder.get("max_characters_per_token")}
    if embedder.get("word_dim"):
        lexicon |= {"word_dim": embedder["word_dim"], "words": _read_entries(folder / "word.dic")}
    if embedder.get("char_dim"):
        sizes = {key: embedder[key] for key in ("activation", "filters", "n_highway") if key in embedder}
        char_cnn = {**sizes, "embedding": {"dim": embedder["char_dim"]}}
        lexicon |= {"char_cnn": char_cnn, "characters": _read_entries(folder / "char.dic")}
    # The keys of the LSTM are bilm-tf's. ELMoForManyLangs always adds a layer's input from the second layer on.
    lstm = {**encoder, "use_skip_connections": True}
    try:
        options = BiLMOptions.from_dict({"lstm": lstm, "lexicon": lexicon})
    except ConfigurationError as error:
        raise ConfigurationError(f"'{file}': {error}") from error
    if not options.lstm.has_projection:
        raise ConfigurationError(
            f"'{file}': 'projection_dim': expected less than 'dim', got {options.lstm.projection_dim}: with equal "
            "sizes our biLM has no projection, but ELMoForManyLangs always has one"
        )
    return options


def _read_sizes(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Find the file of the sizes as ELMoForManyLangs does, and return it with its content.

    `config_path` is a path relative to the folder. It was often written on another machine, so a file of the same name
    in the folder is tried next, and then the sizes that come with ELMoForManyLangs.
    """
    config_path = _json(folder / "config.json").get("config_path")
    path = config_path if isinstance(config_path, str) else ""
    name = PureWindowsPath(path).name
    if not name:
        raise ConfigurationError(
            f"'{folder / 'config.json'}': 'config_path': expected the file of the sizes, got {config_path!r}"
        )
    file = folder / path if isfile(folder / path) else folder / name
    if name in PUBLISHED and not file.exists():
        return file, PUBLISHED_CONFIG
    return file, _json(file)


def _check_writable(options: BiLMOptions) -> ManyLangsOptions:
    """Return the sizes of a biLM that ELMoForManyLangs can run. Raises `ConfigurationError` for any other."""
    sizes = options.many_langs
    if sizes is None:
        reads = "the bytes of words" if options.char_cnn is not None else "words by a vocabulary file"
        wrong = f"expected one with ELMoForManyLangs' vocabularies, got one that reads {reads}; use bilm-tf or native"
    elif not options.lstm.has_projection:
        wrong = "expected 'lstm.projection_dim' below 'lstm.dim', because ELMoForManyLangs always projects; use native"
    elif not options.lstm.use_skip_connections:
        wrong = "expected 'lstm.use_skip_connections' to be true, as always in ELMoForManyLangs; use native"
    elif sizes.words and PADDING not in sizes.words:
        wrong = f"expected {PADDING} in 'lexicon.words', which ELMoForManyLangs needs; use native"
    else:
        return sizes
    raise ConfigurationError(f"the format many-langs has no place for this biLM: {wrong}")


def _sizes_to_theirs(sizes: ManyLangsOptions, lstm: LstmOptions) -> dict[str, Any]:
    """Return the two blocks of ELMoForManyLangs' config; the inverse of `_read_options`."""
    encoder = {key: value for key, value in lstm.to_dict().items() if key != "use_skip_connections"}
    embedder: dict[str, Any] = {
        "word_dim": sizes.word_dim,
        "char_dim": 0,
        "max_characters_per_token": sizes.max_characters_per_token,
    }
    cnn = sizes.char_cnn
    if cnn is not None:
        convolutions = {"activation": cnn.activation, "filters": cnn.filters, "n_highway": cnn.n_highway}
        embedder = {**convolutions, **embedder, "char_dim": cnn.embedding_dim}
    return {ENCODER: {"name": KINDS[ENCODER], **encoder}, EMBEDDER: {"name": KINDS[EMBEDDER], **embedder}}


def _read_entries(path: Path) -> list[str]:
    """Return the entries of a vocabulary file in the order of their ids."""
    return parse_vocabulary(read_text(path, f"{path}"), f"{path}")


def parse_vocabulary(text: str, name: str) -> list[str]:
    """Return the entries in the order of their ids.

    Errors call the file `name`. Raises `ConfigurationError` if the text is not such a vocabulary.
    """
    entries: dict[str, str] = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        parsed = _parse_line(line)
        if parsed is None:
            raise ConfigurationError(f"'{name}', line {number}: expected an entry, a tab and an id, got {line!r}")
        entry, id = parsed
        entries[id] = entry
    ids = [str(id) for id in range(number)]
    if entries.keys() != set(ids):
        raise ConfigurationError(f"'{name}': expected the ids 0 to {number - 1}, each once, in its {number} lines")
    return [entries[id] for id in ids]


def vocabulary_text(entries: Sequence[str], name: str) -> str:
    """Return the content of a vocabulary file with these entries.

    Errors call the file `name`. Raises `ConfigurationError` for an entry that would be read as a different one.
    """
    lines = [f"{entry}\t{id}" for id, entry in enumerate(entries)]
    for id, (entry, line) in enumerate(zip(entries, lines, strict=True)):
        is_utf8 = line == line.encode(errors="ignore").decode()  # a lone surrogate is not
        # ELMoForManyLangs splits lines at every line end of Unicode.
        if line.splitlines() != [line] or _parse_line(line) != (entry, str(id)) or not is_utf8:
            raise ConfigurationError(
                f"'{name}' cannot hold the entry {entry!r}: ELMoForManyLangs strips white space and splits lines and "
                "entries there"
            )
    return "".join(f"{line}\n" for line in lines)


def _parse_line(line: str) -> Optional[tuple[str, str]]:
    """Return the entry and the id of a line, or `None` if it has another form."""
    *entry, id = line.strip().split("\t")
    if len(entry) > 1 or not id.isdecimal():
        return None
    return entry[0] if entry else NAMELESS, id
