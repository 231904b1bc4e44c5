"""ELMoForManyLangs' folders (Che et al. 2018), published for 44 languages: two pickles, two lexicons, two configs.

Source: `Embedder.get_model` in `elmoformanylangs/elmo.py`, `Model.save_model` in `elmoformanylangs/biLM.py`.
"""

import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from io import BytesIO
from os import PathLike, fspath
from pathlib import Path, PureWindowsPath
from typing import Any, Optional, Union

import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.atomic_write import atomic_folder
from elmo_plugin.checkpoints.checkpoint_format import Checkpoint, CheckpointFormat, Location, local_file
from elmo_plugin.checkpoints.file_kind import ZIP, what_is_wrong
from elmo_plugin.checkpoints.limits import check_numbers, check_unpacked
from elmo_plugin.checkpoints.many_langs_vocabulary import parse_vocabulary, vocabulary_text
from elmo_plugin.checkpoints.pickled_weights import check_sums, read_weights
from elmo_plugin.checkpoints.weight_map import Shape, many_langs_links
from elmo_plugin.options import BiLMOptions, LstmOptions, ManyLangsOptions, OptionsError

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
SIZES = "sizes.json"
"""What `config_path` names in a folder of ours."""
PADDING = "<pad>"
"""A word that upstream puts after a sentence's end."""
TRAINING = {"dropout": 0.1}
"""What upstream wants to know of a model that it only runs."""


@CheckpointFormat.register("many-langs")
class ManyLangs(CheckpointFormat):
    """A folder with `encoder.pkl`, `token_embedder.pkl`, `config.json`, `char.dic` and `word.dic`, or a zip file of it.

    `config_path` of `config.json` names the file of the sizes, seen from the folder, or whatever path it has in the
    folder itself. The softmax, `classifier.pkl`, is not read.

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
        check_numbers(options, sum(_size(folder / f"{file}.pkl") for file in KINDS), f"{folder}")
        state_dict: dict[str, Tensor] = {}
        assert options.lexicon is not None
        for link in many_langs_links(options.lexicon, options.lstm):
            values = (_fitting(found.pop(name, None), name, shape, folder) for name, shape in link.datasets.items())
            state_dict.update(zip(link.tensors, link.read(*values), strict=True))
        if found:
            raise ConfigurationError(f"'{folder}' holds tensors that its sizes know nothing of: {', '.join(found)}")
        return Checkpoint(options, state_dict)

    def write(self, checkpoint: Checkpoint, folder: "PathLike[str]") -> list[str]:
        """Write pickles, lexicons, `config.json` and `sizes.json`, which upstream reads too; return the files' names.

        Softmax, vocabulary and warm state have no place in it. Files of these names that were there before are whole
        if it fails. Raises `ConfigurationError` for a biLM of another kind, and if the folder cannot be written.
        """
        lexicon, lstm = _writable(checkpoint.options), checkpoint.options.lstm
        texts = {
            "config.json": _json_text({"config_path": SIZES}),
            SIZES: _json_text({ENCODER: _encoder(lstm), EMBEDDER: _embedder(lexicon), **TRAINING}),
        }
        for name, entries in (("char.dic", lexicon.characters), ("word.dic", lexicon.words)):
            if entries:
                texts[name] = vocabulary_text(entries, f"{Path(folder) / name}")
        with atomic_folder(Path(folder)) as partial:
            for name, text in texts.items():
                (partial / name).write_bytes(text.encode())
            for file, weights in _pickled(checkpoint, lexicon):
                (partial / f"{file}.pkl").write_bytes(weights)
            return sorted(path.name for path in partial.iterdir())


def _folder(location: Location) -> Folder:
    """Where the files are: a folder, the top of a zip file, or a folder in it."""
    path = local_file(location, "pretrained")
    if path.is_dir():
        return path
    try:
        top = zipfile.Path(path)
        inside = [top, *(folder for folder in top.iterdir() if folder.is_dir())]
    except Exception as error:  # a zip file that was spoiled may raise anything
        reason = what_is_wrong(path, ZIP, error)
        raise ConfigurationError(f"'{path}' is no complete zip file: {reason}") from error
    for folder in inside:
        if (folder / f"{ENCODER}.pkl").exists():
            return folder
    raise ConfigurationError(f"'{path}': wanted a zip file with {ENCODER}.pkl in it, found none")


def _content(file: Folder) -> bytes:
    if isinstance(file, zipfile.Path):
        check_unpacked(_size(file), Path(str(file.root.filename)), str(file))
    try:
        return file.read_bytes()
    except Exception as error:  # see above
        raise ConfigurationError(f"'{file}' cannot be read: {error}") from error


def _size(file: Folder) -> int:
    """Its bytes, unpacked; 0 if it is not there."""
    if not file.is_file():
        return 0
    return file.root.getinfo(file.at).file_size if isinstance(file, zipfile.Path) else file.stat().st_size


def _options(folder: Folder) -> BiLMOptions:
    """The sizes, the lexicons among them."""
    file, config = _sizes(folder)
    for block, kind in KINDS.items():
        found = config.get(block)
        if not isinstance(found, dict) or str(found.get("name")).lower() != kind:
            raise ConfigurationError(f"'{file}': '{block}' is {found!r}; wanted an object with the name '{kind}'")
    try:
        options = BiLMOptions.from_dict({"lstm": _lstm(config[ENCODER]), "lexicon": _lexicon(folder, config[EMBEDDER])})
    except OptionsError as error:
        raise ConfigurationError(f"'{file}': {error}") from error
    if not options.lstm.has_projection:
        wanted = (
            f"wanted less than 'dim', {options.lstm.cell_dim}: here cells of equal size have no matrix between them"
        )
        raise ConfigurationError(f"'{file}': 'projection_dim' is {options.lstm.projection_dim}; {wanted}")
    return options


def _sizes(folder: Folder) -> tuple[Folder, dict[str, Any]]:
    """The file of the sizes and what it says, looked for where upstream does.

    That is where `config_path` leads from the folder, and, as it was often written on another machine, under the name
    that stands last in it: in the folder, then among the files of upstream's package.
    """
    found = _json(folder / "config.json").get("config_path")
    path = found if isinstance(found, str) else ""
    name = PureWindowsPath(path).name
    if not name:
        raise ConfigurationError(
            f"'{folder / 'config.json'}': 'config_path' is {found!r}; wanted the file of the sizes"
        )
    file = folder / name
    with suppress(OSError):  # a name may be too long for any file
        file = folder / path if (folder / path).is_file() else file
    if name in PUBLISHED and not file.exists():
        return file, PUBLISHED_CONFIG
    return file, _json(file)


def _lstm(encoder: Mapping[str, Any]) -> dict[str, Any]:
    """bilm-tf's block: the keys are its own, and upstream adds a layer's input from the second layer on."""
    return {**encoder, "use_skip_connections": True}


def _lexicon(folder: Folder, embedder: Mapping[str, Any]) -> dict[str, Any]:
    """The block `lexicon` of our options."""
    lexicon = {"max_characters_per_token": embedder.get("max_characters_per_token")}
    if embedder.get("word_dim"):
        lexicon |= {"word_dim": embedder["word_dim"], "words": _entries(folder / "word.dic")}
    if embedder.get("char_dim"):
        sizes = {key: embedder[key] for key in ("activation", "filters", "n_highway") if key in embedder}
        char_cnn = {**sizes, "embedding": {"dim": embedder["char_dim"]}}
        lexicon |= {"char_cnn": char_cnn, "characters": _entries(folder / "char.dic")}
    return lexicon


def _entries(file: Folder) -> list[str]:
    return parse_vocabulary(_text(file), f"{file}")


def _text(file: Folder) -> str:
    try:
        return _content(file).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"'{file}': {error}; wanted UTF-8") from error


def _json(file: Folder) -> dict[str, Any]:
    try:
        found = json.loads(_text(file))
    except ValueError as error:
        raise ConfigurationError(f"'{file}': {error}") from error
    if not isinstance(found, dict):
        raise ConfigurationError(f"'{file}' holds a {type(found).__name__}; wanted an object")
    return found


def _tensors(folder: Folder) -> Iterator[tuple[str, Any]]:
    """What the two pickles hold, by file and name."""
    for file in (EMBEDDER, ENCODER):
        name = f"{folder / f'{file}.pkl'}"
        content = BytesIO(_content(folder / f"{file}.pkl"))
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


def _writable(options: BiLMOptions) -> ManyLangsOptions:
    """The lexicons of a biLM that upstream could run. Raises `ConfigurationError` for any other."""
    if options.lexicon is None:
        reads = "the bytes of words" if options.char_cnn is not None else "words by a vocabulary file"
        wrong = f"this biLM reads {reads}, and those of ELMoForManyLangs read by lexicons; wanted bilm-tf or native"
    elif not options.lstm.has_projection:
        wrong = "'lstm.projection_dim' is 'lstm.dim', and cells of ELMoForManyLangs always project; wanted native"
    elif not options.lstm.use_skip_connections:
        wrong = "'lstm.use_skip_connections' is false, and ELMoForManyLangs always has them; wanted native"
    elif options.lexicon.words and PADDING not in options.lexicon.words:
        wrong = f"'lexicon.words' lacks {PADDING}, without which ELMoForManyLangs runs no lexicon; wanted native"
    else:
        return options.lexicon
    raise ConfigurationError(f"the format many-langs has no place for it: {wrong}")


def _encoder(lstm: LstmOptions) -> dict[str, Any]:
    """Their block of the LSTM; the inverse of `_lstm`."""
    sizes = {key: value for key, value in lstm.to_dict().items() if key != "use_skip_connections"}
    return {"name": KINDS[ENCODER], **sizes}


def _embedder(lexicon: ManyLangsOptions) -> dict[str, Any]:
    """Their block of the token encoder; the inverse of `_lexicon`."""
    cnn = lexicon.char_cnn
    sizes = {"word_dim": lexicon.word_dim, "char_dim": 0, "max_characters_per_token": lexicon.max_characters_per_token}
    if cnn is None:
        return {"name": KINDS[EMBEDDER], **sizes}
    convolutions = {"activation": cnn.activation, "filters": cnn.filters, "n_highway": cnn.n_highway}
    return {"name": KINDS[EMBEDDER], **convolutions, **sizes, "char_dim": cnn.embedding_dim}


def _json_text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"


def _pickled(checkpoint: Checkpoint, lexicon: ManyLangsOptions) -> Iterator[tuple[str, bytes]]:
    """The content of each pickle by the name of its file."""
    weights: dict[str, dict[str, Tensor]] = {file: {} for file in KINDS}
    for link in many_langs_links(lexicon, checkpoint.options.lstm):
        values = link.write(*(checkpoint.state_dict[name].detach().float().cpu() for name in link.tensors))
        for name, value in zip(link.datasets, values, strict=True):
            file, _, key = name.partition(".")
            weights[file][key] = value.clone(memory_format=torch.contiguous_format)  # of a view all would be saved
    for file, tensors in weights.items():
        content = BytesIO()
        torch.save(tensors, content)
        yield file, content.getvalue()
