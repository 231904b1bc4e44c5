"""Repairs of how AllenNLP reads configs."""

from typing import Any

from allennlp.common import Lazy, Params, from_params, util
from allennlp.common.checks import ConfigurationError

from elmo_plugin.common import check_keys, is_ours, unknown_keys
from elmo_plugin.compat.patching import Function, replace_once

PACKAGE = __name__.partition(".")[0]


def check_keys_of_components() -> None:
    """Check the keys and the values of each component of this package.

    Symptom: `dropout: null` raises `TypeError: '<' not supported`, `shuffle: null` means false, `crf: 2` means true,
    and `elmo: ''` means the published weights. Cause: `FromParams` checks few types and no nulls, and passes unknown
    keys to a constructor with `**kwargs`.
    Guard: components of other packages are built as before, also those that inherit from ours.
    """

    def create_kwargs(
        original: Function, constructor: Function, cls: type, params: Params, **extras: Any
    ) -> dict[str, Any]:
        if is_ours(cls):
            for message in unknown_keys(cls, constructor, params, extras):
                raise ConfigurationError(message)
            check_keys(cls, constructor, params)
        kwargs: dict[str, Any] = original(constructor, cls, params, **extras)
        return kwargs

    replace_once(from_params, "create_kwargs", create_kwargs)


def repair_pretrained_modules() -> None:
    """Let `_pretrained` replace a part that a model builds itself, such as `elmo` in `elmo_tagger`.

    Symptom: `TypeError: Subscripted generics cannot be used …`. Cause: AllenNLP checks whether the module is a
    `Lazy[Elmo]`; now it checks for an `Elmo`.
    Guard: only `_pretrained` for a parameter of type `Lazy` is affected.
    """

    def construct(
        original: Function,
        class_name: str,
        argument_name: str,
        annotation: Any,
        default: Any,
        params: Params,
        **extras: Any,
    ) -> Any:
        is_lazy = getattr(annotation, "__origin__", None) is Lazy
        block = params.get(argument_name) if is_lazy else None
        if not (isinstance(block, Params) and "_pretrained" in block):
            return original(class_name, argument_name, annotation, default, params, **extras)
        module = original(class_name, argument_name, annotation.__args__[0], default, params, **extras)
        return Lazy(lambda **_: module)

    replace_once(from_params, "pop_and_construct_arg", construct)


def include_without_extras() -> None:
    """Let `--include-package elmo_plugin` work if an extra, such as flair or matplotlib, is not installed.

    Symptom: `ModuleNotFoundError` for a package that the run does not need. Cause: AllenNLP imports every module of an
    included package. `import elmo_plugin` alone registers everything, so its modules are not imported one by one. If
    AllenNLP imports this package for the first time, its own function has begun already; for the packages inside, it
    calls this one. Guard: other packages are imported as before.
    """

    def include(original: Function, package_name: str, *args: Any, **kwargs: Any) -> None:
        if package_name.partition(".")[0] != PACKAGE:
            original(package_name, *args, **kwargs)

    replace_once(util, "import_module_and_submodules", include)
