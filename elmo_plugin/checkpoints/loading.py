"""From a name, a path, a URL or an archive to a biLM: every command and every class that takes one comes through here.

What a config or an option calls a biLM or weights is data: `load_checkpoint` reads it, and runs nothing in it. A
trained model is a program, because its config can name any Python class: AllenNLP builds it, and only if
`trained_model` says that the location is called one and holds one.
"""

import re
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from os import PathLike, fspath
from pathlib import Path, PurePosixPath
from typing import Any, Optional, Union
from urllib.parse import urlsplit

from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.models import archival

from elmo_plugin.bilm import BiLM, BiLMOptions
from elmo_plugin.checkpoints.allennlp import (
    ARCHIVED_WEIGHTS,
    CONFIG,
    TRAINING_WEIGHTS,
    AllenNlpArchive,
    archived_checkpoint,
    reject_override,
)
from elmo_plugin.checkpoints.bilm_tf import BilmTf
from elmo_plugin.checkpoints.confined import confined, unpacked
from elmo_plugin.checkpoints.files import (
    Checkpoint,
    CheckpointFormat,
    FileKind,
    Location,
    bundled_names,
    file_kind,
    is_missing,
    local_file,
    names_in,
    plain_location,
    unfinished_run,
)
from elmo_plugin.checkpoints.native import SUFFIX, Native
from elmo_plugin.checkpoints.vocabulary import with_task_vocabulary
from elmo_plugin.checkpoints.weight_map import OWN, empty_bilm, fitting_rows
from elmo_plugin.common import check_value, named_errors, printable, some_of
from elmo_plugin.compat import Function, replaces

_PUBLISHED = (
    "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway/elmo_2x4096_512_2048cnn_2xhighway"
)
PUBLISHED_OPTIONS = f"{_PUBLISHED}_options.json"
PUBLISHED_WEIGHTS = f"{_PUBLISHED}_weights.hdf5"
FORMS = ({"options_file", "weight_file"}, {"weight_file"}, {"pretrained"}, {"options", "seed"}, {"options"})
MOST_NAMES = 10
"""The largest number of file names that an error lists."""
STATE_DICTS = (".th", ".pth", ".pt", ".bin", ".ckpt", ".pkl")
"""The endings of the names that people give to files of `torch.save`."""
OF_WEIGHTS = (*STATE_DICTS, ".safetensors", ".hdf5", ".h5", ".zip", ".json", ".txt", ".npz")
"""The endings of names that no trained model has."""
OF_MODELS = (".tar.gz", ".tgz")
"""The endings of names that trained models have."""
OF_FOLDERS = {
    r"^model\.tar\.gz$": "a folder that holds it; name '{}/model.tar.gz'",
    r"\.ckpt|^checkpoint$": (
        "a checkpoint of TensorFlow, which cannot be read; bilm-tf's `bin/dump_weights.py` writes its weights.hdf5"
    ),
    r"^(saved_model|tfhub_module)\.pb$": (
        "a module of TensorFlow Hub, which cannot be read; use the same biLM in bilm-tf's format"
    ),
}
"""What the name of a file in a folder without a biLM shows."""

BilmBlock = Union[str, dict[str, Any]]
"""The value of `bilm` in a config: a location, or an object."""


def bilm_keys(
    bilm: Optional[BilmBlock], options_file: Optional[str] = None, weight_file: Optional[str] = None
) -> dict[str, Any]:
    """Bring the keys of a config that name a biLM into one of the forms that `resolve_bilm` takes, and check them.

    >>> bilm_keys("english-tiny")
    {'pretrained': 'english-tiny'}

    `bilm` is the block; a string is short for `pretrained`. `options_file` and `weight_file` are a pair of bilm-tf's
    files instead. Without `options_file`, the options beside the weights are used; without all three, the published
    pair. Raises `ConfigurationError` for keys that contradict each other or name no biLM.
    """
    files = {"options_file": options_file, "weight_file": weight_file}
    keys: dict[str, Any] = {key: value for key, value in files.items() if value is not None}
    if bilm is not None:
        if keys:
            raise ConfigurationError("'bilm': expected either 'bilm' or 'options_file' and 'weight_file', got both")
        keys = dict(bilm) if isinstance(bilm, Mapping) else {"pretrained": bilm}
    elif not keys:
        keys = {"options_file": PUBLISHED_OPTIONS, "weight_file": PUBLISHED_WEIGHTS}
    if set(keys) == {"options_file"}:
        raise ConfigurationError(
            f"'weight_file': expected the weights that belong to 'options_file' {options_file}, got none"
        )
    if set(keys) not in FORMS:
        raise ConfigurationError(f"'bilm': expected the key 'pretrained', or 'options' and 'seed', got {sorted(keys)}")
    for key in keys.keys() - {"options", "seed"}:
        if not (keys[key] and isinstance(keys[key], (str, PathLike))):
            raise ConfigurationError(
                f"'{key}': expected a path, a URL or the name of a bundled biLM, got {keys[key]!r}"
            )
        keys[key] = fspath(keys[key])
    return keys


def resolve_bilm(
    keys: dict[str, Any],
    kernel: str,
    serialization_dir: Optional[str],
    vocab: Optional[Vocabulary] = None,
) -> BiLM:
    """Build the biLM that a config describes.

    >>> resolve_bilm({"pretrained": "english-tiny"}, kernel="auto", serialization_dir=None).source
    'english-tiny'

    # Parameters

    keys : `dict[str, Any]`
        The keys, as `bilm_keys` returns them.
    kernel : `str`
        The name of the LSTM kernel, or `auto`.
    serialization_dir : `Optional[str]`
        The folder that AllenNLP trains in or has unpacked an archive into; an archive's own biLM takes precedence.
    vocab : `Optional[Vocabulary]`
        The vocabulary of the task. It must give the words of a word-input biLM the ids that the biLM expects.

    Raises `ConfigurationError` for files that cannot be read.
    """
    if "options" in keys:
        seed = keys.get("seed", 0)
        check_value("bilm.seed", seed, int)
        if "seed" in keys:
            reject_override(serialization_dir, "seed", seed)
        return BiLM.random(_options(keys), seed, kernel)
    return build_bilm(find_checkpoint(keys, serialization_dir, vocab), kernel, _source(keys))


def find_checkpoint(
    keys: dict[str, Any], serialization_dir: Optional[str], vocab: Optional[Vocabulary] = None
) -> Checkpoint:
    """Read the biLM that `keys` name, from the archive in `serialization_dir` if it holds one.

    See `resolve_bilm` for the arguments.
    """
    archived = _archived(keys, serialization_dir)
    if archived is not None:
        return archived  # in which `<S>` and `</S>` keep the ids that they had in training
    checkpoint = load_checkpoint(_source(keys), keys.get("options_file"))
    return checkpoint if vocab is None else with_task_vocabulary(checkpoint, vocab)


def bilm_sizes(bilm: BilmBlock, serialization_dir: Optional[str]) -> BiLMOptions:
    """Return the sizes of the biLM that a config's `bilm` block names, without reading its weights if possible.

    As in `resolve_bilm`, an archive's own biLM takes precedence. Raises `ConfigurationError` for other keys and for
    files that cannot be read.
    """
    keys = bilm_keys(bilm)
    if "options" in keys:
        return _options(keys)
    archived = _archived(keys, serialization_dir)
    return load_sizes(_source(keys)) if archived is None else archived.options


def load_checkpoint(location: Location, options_file: Optional[Location] = None) -> Checkpoint:
    """Read a biLM in any format: a file, a folder, a zip file or `.tar.gz` of either, or the name of a bundled biLM.

    `options_file` has the sizes for weights without them: those of AllenNLP's own ELMo in an archive, and bilm-tf's.
    Raises `ConfigurationError` if no format recognizes the location.
    """
    with _opened(location, options_file is not None) as (form, place):
        return form.read(place) if options_file is None else form.read_with(place, options_file)


def load_sizes(location: Location) -> BiLMOptions:
    """Read the sizes of a biLM in any format; see `load_checkpoint`.

    Raises `ConfigurationError` if no format recognizes the location.
    """
    with _opened(location) as (form, place):
        return form.read_sizes(place)


def build_bilm(checkpoint: Checkpoint, kernel: str = "auto", source: Location = "") -> BiLM:
    """Build a biLM with the sizes and a copy of the weights of a checkpoint.

    >>> from elmo_plugin.checkpoints import load_checkpoint
    >>> build_bilm(load_checkpoint("english-tiny")).options.num_layers
    3

    Raises `ConfigurationError`, which calls the file `source`, if the weights do not fit the sizes.
    """
    bilm, options, weights = fitting_bilm(checkpoint, kernel, source), checkpoint.options, checkpoint.state_dict
    own = bilm.state_dict()
    is_standard = options.contextualizer is None and options.token_encoder is None
    if not is_standard:  # it may hold more than its state dict, so it gets memory, which the shapes have bounded
        bilm = BiLM(options, kernel, fspath(source))
        if "warm_hidden" in weights:
            bilm.warm_state = bilm.zero_state(1, bilm.weight)
    copies = {name: value.to(own[name].dtype, copy=True) for name, value in weights.items()}
    bilm.load_state_dict(copies, strict=False, assign=is_standard)
    return bilm


def fitting_bilm(checkpoint: Checkpoint, kernel: str = "auto", source: Location = "") -> BiLM:
    """Return the biLM of a checkpoint without memory for its weights, after comparing their names and shapes with it.

    Raises `ConfigurationError`, which calls the file `source`, for the first that differs.
    """
    bilm = empty_bilm(checkpoint.options, checkpoint.state_dict, f"'{source}'", kernel, fspath(source))
    fitting_rows(OWN, bilm, checkpoint.state_dict, f"'{source}'")
    return bilm


def trained_model(location: Location, key: str) -> Optional[Path]:
    """Return the local path of a trained model that AllenNLP builds, which is a program; `None` for weights.

    It is the folder of a run that holds no biLM of another format, or a file that is called `NAME.tar.gz` and holds a
    config and weights. Raises `ConfigurationError` that names `key` if the location cannot be read.
    """
    name = plain_location(location)
    path = local_file(name, key)
    if path.is_dir():
        is_model = isinstance(_format_of(path, name), AllenNlpArchive) and CONFIG in names_in(path)
    else:
        is_model = urlsplit(name).path.endswith(OF_MODELS) and file_kind(path) is FileKind.GZIP and _holds_model(path)
    return path if is_model else None


def _holds_model(path: Path) -> bool:
    """Return whether a `.tar.gz` holds a config and weights, as AllenNLP packs them."""

    def look() -> bool:
        missing = {CONFIG, ARCHIVED_WEIGHTS}
        with tarfile.open(path, "r:gz") as archive:
            while missing and (member := archive.next()):
                missing.discard(PurePosixPath(member.name).as_posix())
        return not missing

    with named_errors(f"'{path}' cannot be unpacked", ValueError):
        return bool(confined(look, path))


@replaces("allennlp.models.archival.load_archive")
def _load_archive(original: Function, archive_file: Location, *args: Any, **options: Any) -> archival.Archive:
    """Let AllenNLP build no model from what is called weights, or from a folder that holds a biLM of another format.

    Symptom: `predict`, `evaluate` and `Predictor.from_path` run the config in a file called `bilm.safetensors` that is
    a `.tar.gz`. Cause: AllenNLP opens any `.tar.gz`, whatever its name. Guard: all other names and folders are opened.
    """
    name = plain_location(archive_file)
    if urlsplit(name).path.endswith(OF_WEIGHTS):
        raise ConfigurationError(f"'{archive_file}': expected a trained model, NAME.tar.gz, got what is called weights")
    if Path(name).is_dir() and not isinstance(_format_of(name, name), AllenNlpArchive | None):
        raise ConfigurationError(f"'{archive_file}': expected a trained model, got a folder with a biLM alone")
    return original(archive_file, *args, **options)


@contextmanager
def _opened(location: Location, has_options: bool = False) -> Iterator[tuple[CheckpointFormat, Location]]:
    """Give the format of a location and the path to read. An archive is unpacked until the context ends.

    A file of no format is taken for weights of bilm-tf if there are options for it.
    """
    name, key = plain_location(location), "'weight_file': " if has_options else ""
    try:
        if is_missing(name):
            bundled = f"; the bundled biLMs are: {', '.join(bundled_names())}" if Path(name).name == name else ""
            why = unfinished_run(name) or f"there is no such file or folder{bundled}"
            raise ConfigurationError(f"{key}'{name}' holds no biLM: {why}")
        form = Native() if name.endswith(SUFFIX) else _format_of(name, name)
        if form is not None:
            yield form, name
            return
        path = local_file(name, "pretrained")
        kind = file_kind(path)
        is_packed = kind is FileKind.GZIP or (kind is FileKind.ZIP and not name.endswith(STATE_DICTS))
        with unpacked(path, name) if is_packed else nullcontext(path) as place:
            yield (BilmTf(), name) if has_options and place.is_file() else _format_in(place, name)
    except ConfigurationError as error:
        error.message = printable(str(error.message))  # it may quote the file
        raise


def _format_of(location: Location, name: str) -> Optional[CheckpointFormat]:
    """Return the format that recognizes a location; `None` if none does.

    Raises `ConfigurationError`, which calls the location `name`, if several do.
    """
    available = CheckpointFormat.list_available()
    found = {key: form for key in available if (form := CheckpointFormat.by_name(key)()).recognises(location)}
    if len(found) > 1:
        wanted = ", ".join(f"{found[key].looks_for} ({key})" for key in sorted(found))
        raise ConfigurationError(
            f"'{name}': expected one biLM, got several: {wanted}; name one of the files, or move the others"
        )
    return next(iter(found.values()), None)


def _format_in(path: Path, name: str) -> tuple[CheckpointFormat, Path]:
    """Return the format of a folder, or of the only folder inside it that holds a biLM, and the folder itself.

    Errors call the path `name`. Raises `ConfigurationError` that lists what was expected and what is there.
    """
    content = [path / inner for inner in names_in(path)]
    folders = [place for place in content if place.is_dir() and not place.is_symlink()]
    called = {place: name + str(place).removeprefix(str(path)) for place in (path, *folders)}
    found = [(form, place) for place in called if (form := _format_of(place, called[place])) is not None]
    if len(found) == 1 or (found and found[0][1] == path):
        return found[0]
    if found:
        inside = some_of([place.name for _, place in found], MOST_NAMES)
        raise ConfigurationError(f"'{name}': expected one folder with a biLM, got {inside}; name one of them")
    available = sorted(CheckpointFormat.list_available())
    looked_for = ", ".join(f"{CheckpointFormat.resolve_class_name(form)[0].looks_for} ({form})" for form in available)
    names = [f"{file.name}/" if file.is_dir() else file.name for file in content]
    kind = FileKind.TORCH if name.endswith(STATE_DICTS) else file_kind(path)
    got = kind.value
    if kind is FileKind.FOLDER:
        got = f"a folder with {some_of(names, MOST_NAMES) or 'nothing in it'}"
    for pattern, advice in OF_FOLDERS.items():
        if any(re.search(pattern, inner) for inner in names):
            got = advice.format(name)
    why = unfinished_run(name) or f"expected {looked_for}; got {got}"
    raise ConfigurationError(f"'{name}' holds no biLM: {why}")


def _options(keys: dict[str, Any]) -> BiLMOptions:
    with named_errors("'bilm.options'", ConfigurationError):
        options = BiLMOptions.from_dict(keys["options"])
    for key, block in BiLMOptions.blocks().items():  # keys beside these blocks may be bilm-tf's training options
        block.reject_unknown(keys["options"].get(key) or {}, f"bilm.options.{key}")
    return options


def _source(keys: dict[str, Any]) -> str:
    """Return the location of the weights as the config has it: the name of the biLM in an archive."""
    return str(keys["pretrained"] if "pretrained" in keys else keys["weight_file"])


def _archived(keys: dict[str, Any], serialization_dir: Optional[str]) -> Optional[Checkpoint]:
    """Read the biLM from an archive, or from a run if its original files no longer exist; `None` otherwise."""
    source = _source(keys)
    reject_override(serialization_dir, "bilm", source)
    names = [ARCHIVED_WEIGHTS, *([TRAINING_WEIGHTS] if is_missing(source) else [])]
    return next(filter(None, (archived_checkpoint(serialization_dir, source, name) for name in names)), None)
