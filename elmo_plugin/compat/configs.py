"""Repairs of how AllenNLP reads configs and archives."""

import glob
import gzip
import inspect
import json
import re
import tarfile
import zlib
from pathlib import Path
from traceback import walk_tb
from typing import Any

from allennlp.common import Lazy, Params, from_params
from allennlp.common.checks import ConfigurationError
from allennlp.models import archival

from elmo_plugin.common import check_keys, did_you_mean, installed, is_ours, kind_of
from elmo_plugin.compat.patching import Function, replaces


@replaces("allennlp.common.params.Params.from_file")
def read_config(original: Function, cls: type[Params], path: Any, *args: Any, **kwargs: Any) -> Params:
    """Read a config, also one that comes with this package, by a name such as `bilm_tiny` or by its path.

    For a file that is none, the error says what it is.

    Symptom: jsonnet aborts the process for a folder, and says `STATIC ERROR` of an archive and of YAML; AllenNLP asks a
    list for its keys.
    Guard: a file that is a config is read as before.
    """
    name = str(path)
    if not Path(name).exists() and not Path(name).is_absolute():
        folder = installed("training_configs")
        found = [*folder.glob(f"*/{glob.escape(name)}.jsonnet"), folder.parent / name]
        path = next((config for config in found if config.is_file()), path)
    kinds = {
        "a folder": Path.is_dir,
        "YAML": lambda file: file.suffix in (".yaml", ".yml"),
        "an archive": lambda file: file.is_file() and tarfile.is_tarfile(file),
    }
    if got := next((kind for kind, is_that in kinds.items() if Path(name).exists() and is_that(Path(name))), None):
        raise ConfigurationError(f"'{name}': expected a config, got {got}; a config is a file of JSON or jsonnet")
    params: Params = original(cls, path, *args, **kwargs)
    if not isinstance(params.params, dict):
        raise ConfigurationError(
            f"'{name}': the config: expected an object {{ … }}, got {json.dumps(params.params):.80}"
        )
    return params


@replaces("allennlp.common.params.Params.pop_choice")
def pop_choice(original: Function, self: Params, key: str, choices: list[str], *args: Any, **kwargs: Any) -> Any:
    """Suggest the name that a misspelled one means. Without one, AllenNLP lists all names, which are often fifty.

    Guard: other names are looked up as before.
    """
    name = self.get(key)
    if isinstance(name, str) and "." not in name and name not in choices and (meant := did_you_mean(name, choices)):
        raise ConfigurationError(f"'{self.history}{key}': expected the name of a component, got {name!r}{meant}")
    return original(self, key, choices, *args, **kwargs)


@replaces("allennlp.common.params.with_overrides")
def override(original: Function, config: Any, overrides: dict[str, Any], prefix: str = "") -> Any:
    """Say which block of a config an override means that has none of this name.

    Symptom: `overrides dict contains unused keys: ['training.num_epochs']`. Guard: other overrides apply as before.
    """
    for key in overrides:
        block, has_more, _ = key.partition(".")
        if has_more and isinstance(config, dict) and block not in config:
            raise ConfigurationError(
                f"--overrides '{prefix}{key}': expected one of the config's blocks ({', '.join(config)}), got "
                f"'{prefix}{block}'{did_you_mean(block, config)}"
            )
    return original(config, overrides, prefix)


@replaces("allennlp.common.from_params.FromParams.from_params")
def name_the_place(original: Function, cls: Any, params: Any, *args: Any, **extras: Any) -> Any:
    """Name the block of a config whose constructor refuses a value.

    Symptom: `'dropout': expected a number from 0 to 1, got 1.5`, or `Invalid learning rate: -1`, do not say where in
    the config the value is. Cause: constructors do not know.
    Guard: the type of the error stays, and so do errors that a constructor did not raise itself.
    """
    place = getattr(params, "history", "")
    try:
        return original(cls, params, *args, **extras)
    except (ConfigurationError, RuntimeError, ValueError) as error:
        key = re.match(r"'((\w+)[\w.]*)': ", str(error))
        is_refused = all(
            frame.f_code.co_name in ("from_params", "__init__") or "compat" in Path(frame.f_code.co_filename).parts
            for frame, _ in walk_tb(error.__traceback__)
        )
        constructor = extras.get("constructor_to_inspect") or cls.__init__
        if place and key and key[2] in from_params.infer_params(cls, constructor):
            _say(error, f"'{place}{str(error)[1:]}")
        elif place and is_refused and not key and not isinstance(error, ConfigurationError):
            _say(error, f"'{place.rstrip('.')}': {error}")
        raise


def _say(error: Any, message: str) -> None:
    """Change the message of an error."""
    error.message, error.args = message, (message,)


@replaces("allennlp.common.from_params.create_kwargs")
def check_keys_of_components(
    original: Function, constructor: Function, cls: type, params: Params, **extras: Any
) -> Any:
    """Check the keys and the values of each component of this package.

    Symptom: `dropout: null` raises `TypeError: '<' not supported`, `shuffle: null` means false, `crf: 2` means true,
    and `elmo: ''` means the published weights. Cause: `FromParams` checks few types and no nulls, and passes unknown
    keys to a constructor with `**kwargs`.
    Guard: components of other packages are built as before, also those that inherit from ours.
    """
    if is_ours(cls):
        check_keys(cls, constructor, params, extras)
    return original(constructor, cls, params, **extras)


@replaces("allennlp.common.from_params.pop_and_construct_arg")
def take_pretrained_parts(
    original: Function, owner: str, name: str, annotation: Any, default: Any, params: Params, **extras: Any
) -> Any:
    """Let `_pretrained` replace a part that a model builds itself, such as `elmo` in `elmo_tagger`.

    Symptom: `TypeError: Subscripted generics cannot be used …`. Cause: AllenNLP checks whether the module is a
    `Lazy[Elmo]`; now it checks for an `Elmo`. Symptom: `key "encoder" is required` does not say what is.
    Guard: only `_pretrained` for a parameter of type `Lazy`, and a key that AllenNLP misses, are affected.
    """
    if name not in params and name not in extras and default is inspect.Parameter.empty:
        raise ConfigurationError(
            f"'{params.history}{name}': expected {kind_of(annotation)[0]}, got no such key{did_you_mean(name, params)}"
        )
    block = params.get(name) if getattr(annotation, "__origin__", None) is Lazy else None
    if not (isinstance(block, Params) and "_pretrained" in block):
        return original(owner, name, annotation, default, params, **extras)
    module = original(owner, name, annotation.__args__[0], default, params, **extras)
    return Lazy(lambda **_: module)


class ArchiveFile(tarfile.TarFile):
    """Stands for the module `tarfile` in `archival`, which calls its `open`.

    Symptom: a `model.tar.gz` with a member `../name` or a link can write anywhere on the disk when it is loaded. Cause:
    AllenNLP unpacks without a filter, and Python has a default filter only since 3.14. Such an archive now raises
    `tarfile.FilterError`.
    Symptom: a training with `english-tiny` or `latin-tiny` packs its archive for 6 s. Cause: `tarfile` compresses at
    level 9, which is slow for numbers that were stored in half precision. Level 1 takes a tenth of the time, and the
    archive grows by 8 %.
    Symptom: `predict` with its two files in the wrong order says `not a gzip file`. Now it says which.
    Symptom: an archive that is cut short is an `EOFError`, and a damaged one lacks files. Cause: `tarfile` does not
    read it to its end, where gzip has the check sum.
    Guard: an archive whose members and links stay inside is unpacked as before, whatever its level.
    """

    extraction_filter = staticmethod(tarfile.data_filter)

    @classmethod
    def gzopen(cls, name: Any, mode: Any = "r", fileobj: Any = None, compresslevel: int = 1, **options: Any) -> Any:
        """Open an archive."""
        try:
            return super().gzopen(name, mode, fileobj, compresslevel, **options)
        except tarfile.ReadError as error:
            raise tarfile.ReadError(f"{name}: {error}") from None

    def extractall(self, path: Any = ".", *args: Any, **options: Any) -> None:
        """Unpack an archive, and read it to its end."""
        try:
            super().extractall(path, *args, **options)
            while self.fileobj is not None and self.fileobj.read(2**20):
                pass
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise tarfile.ReadError(
                f"{self.name!s}: the archive is cut short or damaged, copy it again: {error}"
            ) from None


archival.tarfile = ArchiveFile  # type: ignore[assignment]
