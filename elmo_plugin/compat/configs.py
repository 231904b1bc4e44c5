"""Repairs of how AllenNLP reads configs and archives."""

import tarfile
from typing import Any

from allennlp.common import Lazy, Params, from_params
from allennlp.common.checks import ConfigurationError
from allennlp.models import archival

from elmo_plugin.common import check_keys, is_ours, unknown_keys
from elmo_plugin.compat.patching import Function, replace_name, replaces


@replaces(from_params, "create_kwargs")
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
        for message in unknown_keys(cls, constructor, params, extras):
            raise ConfigurationError(message)
        check_keys(cls, constructor, params)
    return original(constructor, cls, params, **extras)


@replaces(from_params, "pop_and_construct_arg")
def take_pretrained_parts(
    original: Function, owner: str, name: str, annotation: Any, default: Any, params: Params, **extras: Any
) -> Any:
    """Let `_pretrained` replace a part that a model builds itself, such as `elmo` in `elmo_tagger`.

    Symptom: `TypeError: Subscripted generics cannot be used …`. Cause: AllenNLP checks whether the module is a
    `Lazy[Elmo]`; now it checks for an `Elmo`.
    Guard: only `_pretrained` for a parameter of type `Lazy` is affected.
    """
    is_lazy = getattr(annotation, "__origin__", None) is Lazy
    block = params.get(name) if is_lazy else None
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


replace_name(archival, "tarfile", ArchiveFile)
