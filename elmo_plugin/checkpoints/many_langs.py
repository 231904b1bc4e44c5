"""ELMoForManyLangs' folders (Che et al. 2018), published for 44 languages: two pickles, two lexicons, two configs.

Source: `Embedder.get_model` in `elmoformanylangs/elmo.py`, `Model.save_model` in `elmoformanylangs/biLM.py`.
"""

import json
import zipfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from os import fspath
from pathlib import Path, PureWindowsPath
from typing import Any, Optional, Union

from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.checkpoints.checkpoint_format import Checkpoint, CheckpointFormat, Location, local_file
from elmo_plugin.checkpoints.pickled_weights import check_sums, read_weights
from elmo_plugin.checkpoints.weight_map import Shape, many_langs_links
from elmo_plugin.options import BiLMOptions, OptionsError

Folder = Union[Path, zipfile.Path]

ENCODER, EMBEDDER = "encoder", "token_embedder"
"""Names of the two pickles, and of the config's blocks that describe them."""
KINDS = {ENCODER: "elmo", EMBEDDER: "cnn"}
"""What is an ELMo; upstream also trains LSTMs without layers or projections in either place."""
PUBLISHED = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
"""Sizes that come with upstream's package and not with the folders of weights; both files are the same."""
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
"""What a line with an id and no entry stands for: upstream strips its lines, and this character is stripped too."""


@CheckpointFormat.register("many-langs")
class ManyLangs(CheckpointFormat):
    """A folder with `encoder.pkl`, `token_embedder.pkl`, `config.json`, `char.dic` and `word.dic`, or a zip file of it.

    `config_path` of `config.json` names the file of the sizes, looked for in the folder whatever path it has.
    The softmax, `classifier.pkl`, is not read.

    Registered as a `CheckpointFormat` with name `many-langs`.
    """

    def recognises(self, location: Location) -> bool:
        """By the ending of the name, or by what a folder holds."""
        return fspath(location).endswith(".zip") or any(Path(location).glob(f"{ENCODER}.pkl"))

    def read(self, location: Location) -> Checkpoint:
        """Read it; nothing is unpacked, and nothing but tensors is made from the pickles."""
        folder = _folder(location)
        options = _options(folder)
        found = dict(_tensors(folder))
        state_dict: dict[str, Tensor] = {}
        assert options.lexicon is not None
        for link in many_langs_links(options.lexicon, options.lstm):
            values = (_fitting(found.pop(name, None), name, shape, folder) for name, shape in link.datasets.items())
            state_dict.update(zip(link.tensors, link.read(*values), strict=True))
        if found:
            raise ConfigurationError(f"'{folder}' holds tensors that its sizes know nothing of: {', '.join(found)}")
        return Checkpoint(options, state_dict)


def _folder(location: Location) -> Folder:
    """Where the files are: a folder, the top of a zip file, or a folder in it."""
    path = local_file(location, "pretrained")
    if path.is_dir():
        return path
    try:
        top = zipfile.Path(path)
        inside = [top, *(folder for folder in top.iterdir() if folder.is_dir())]
    except Exception as error:  # a zip file that was spoiled may raise anything
        raise ConfigurationError(f"'{path}' is no complete zip file: {error}") from error
    for folder in inside:
        if (folder / f"{ENCODER}.pkl").exists():
            return folder
    raise ConfigurationError(f"'{path}': wanted a zip file with {ENCODER}.pkl in it, found none")


def _content(folder: Folder, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except Exception as error:  # see above
        raise ConfigurationError(f"'{folder / name}' cannot be read: {error}") from error


def _options(folder: Folder) -> BiLMOptions:
    """The sizes, the lexicons among them."""
    name = _sizes_file(folder)
    config = PUBLISHED_CONFIG if name in PUBLISHED and not (folder / name).exists() else _json(folder, name)
    for block, kind in KINDS.items():
        found = config.get(block)
        if not isinstance(found, dict) or str(found.get("name")).lower() != kind:
            raise ConfigurationError(
                f"'{folder / name}': '{block}' is {found!r}; wanted an object with the name '{kind}'"
            )
    try:
        options = BiLMOptions.from_dict({"lstm": _lstm(config[ENCODER]), "lexicon": _lexicon(folder, config[EMBEDDER])})
    except OptionsError as error:
        raise ConfigurationError(f"'{folder / name}': {error}") from error
    if not options.lstm.has_projection:
        wanted = (
            f"wanted less than 'dim', {options.lstm.cell_dim}: here cells of equal size have no matrix between them"
        )
        raise ConfigurationError(f"'{folder / name}': 'projection_dim' is {options.lstm.projection_dim}; {wanted}")
    return options


def _sizes_file(folder: Folder) -> str:
    """The name that stands last in `config_path`, which was written on another machine."""
    path = _json(folder, "config.json").get("config_path")
    name = PureWindowsPath(path).name if isinstance(path, str) else ""
    if not name:
        raise ConfigurationError(f"'{folder / 'config.json'}': 'config_path' is {path!r}; wanted the file of the sizes")
    return name


def _lstm(encoder: Mapping[str, Any]) -> dict[str, Any]:
    """bilm-tf's block: the keys are its own, and upstream adds a layer's input from the second layer on."""
    return {**encoder, "use_skip_connections": True}


def _lexicon(folder: Folder, embedder: Mapping[str, Any]) -> dict[str, Any]:
    """The block `lexicon` of our options."""
    lexicon = {"max_characters_per_token": embedder.get("max_characters_per_token")}
    if embedder.get("word_dim"):
        lexicon |= {"word_dim": embedder["word_dim"], "words": _entries(folder, "word.dic")}
    if embedder.get("char_dim"):
        sizes = {key: embedder[key] for key in ("activation", "filters", "n_highway") if key in embedder}
        char_cnn = {**sizes, "embedding": {"dim": embedder["char_dim"]}}
        lexicon |= {"char_cnn": char_cnn, "characters": _entries(folder, "char.dic")}
    return lexicon


def _entries(folder: Folder, name: str) -> list[str]:
    """The entries of a lexicon by their ids. A line is an entry, a tab and its id."""
    entries: dict[str, str] = {}
    for number, line in enumerate(_text(folder, name).removesuffix("\n").split("\n"), start=1):
        *entry, id = line.strip().split("\t")
        if len(entry) > 1 or not id.isdecimal():
            raise ConfigurationError(
                f"'{folder / name}', line {number}: found {line!r}; wanted an entry, a tab and an id"
            )
        entries[id] = entry[0] if entry else NAMELESS
    wanted = [str(id) for id in range(number)]
    if entries.keys() != set(wanted):
        raise ConfigurationError(f"'{folder / name}' has {number} lines; wanted the ids 0 to {number - 1}, each once")
    return [entries[id] for id in wanted]


def _text(folder: Folder, name: str) -> str:
    try:
        return _content(folder, name).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"'{folder / name}': {error}; wanted UTF-8") from error


def _json(folder: Folder, name: str) -> dict[str, Any]:
    try:
        found = json.loads(_text(folder, name))
    except ValueError as error:
        raise ConfigurationError(f"'{folder / name}': {error}") from error
    if not isinstance(found, dict):
        raise ConfigurationError(f"'{folder / name}' holds a {type(found).__name__}; wanted an object")
    return found


def _tensors(folder: Folder) -> Iterator[tuple[str, Any]]:
    """What the two pickles hold, by file and name."""
    for file in (EMBEDDER, ENCODER):
        name = f"{folder / f'{file}.pkl'}"
        content = BytesIO(_content(folder, f"{file}.pkl"))
        check_sums(content, name)
        content.seek(0)
        for key, value in read_weights(content, name).items():
            yield f"{file}.{key}", value


def _fitting(value: Optional[Any], name: str, wanted: Shape, folder: Folder) -> Tensor:
    found = tuple(value.shape) if isinstance(value, Tensor) else None
    if not isinstance(value, Tensor) or found != wanted:
        raise ConfigurationError(f"'{folder}', tensor '{name}': found shape {found}, the sizes want {wanted}")
    values = value.float().contiguous()
    if not bool(values.isfinite().all()):
        raise ConfigurationError(f"'{folder}', tensor '{name}': found numbers that are not finite")
    return values
