"""A MkDocs hook that fills the reference pages from the code: components with their keys, and `--help` of the commands.

A page asks for a list by a comment such as `<!-- components TokenEmbedder Seq2SeqEncoder -->`, `<!-- options -->` or
`<!-- commands -->`, and for the source of a function by `<!-- source elmo_plugin.lstm.reference reference -->`.
"""

import dataclasses
import importlib
import inspect
import json
import operator
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from allennlp.commands import ArgumentParserWithDefaults, Subcommand
from allennlp.common import Lazy, Registrable
from allennlp.common.from_params import infer_params
from mkdocs.config.defaults import MkDocsConfig

import elmo_plugin
from elmo_plugin.bilm import BiLMOptions
from elmo_plugin.bilm.option import Block, declared
from elmo_plugin.common import is_ours, kind_of
from elmo_plugin.elmo import Elmo

sys.path.insert(0, str(Path(__file__).parent))
from griffe_docstrings import TYPE, fence_examples

SUPPLIED = {"self", "kwargs", "vocab", "serialization_dir"}
"""Parameters that AllenNLP passes and no config names."""


OF_ALLENNLP = {
    "ddp_accelerator": "As in AllenNLP's `Model`.",
    "regularizer": "AllenNLP's `RegularizerApplicator`, such as the paper's λ on `scalar_parameters`.",
    "language": "The language of raw text, as in `SpacyBlankTokenizer`.",
    "model": "Given by AllenNLP.",
    "dataset_reader": "Given by AllenNLP.",
    "bilm": "The biLM: a path, a URL or a bundled name, or an object with `pretrained`, or with `options` and `seed`.",
}
"""Parameters that our docstrings leave to AllenNLP, or that mean the same everywhere."""


class Key(NamedTuple):
    """A key of a component: what it takes, its default as a config writes it, and what its docstring says."""

    name: str
    kind: str
    default: str
    description: str


class Component(NamedTuple):
    """A registered class, with the keys that a config may give it."""

    registry: str
    name: str
    cls: type
    keys: list[Key]


def components() -> Iterator[Component]:
    """Yield every component of this package, by registry and name."""
    for base in sorted(Registrable._registry, key=lambda base: base.__name__):
        for name, (cls, constructor_name) in sorted(Registrable._registry[base].items()):
            if cls.__module__.startswith("elmo_plugin"):
                yield Component(base.__name__, name, cls, list(_keys(base.__name__, name, cls, constructor_name)))


def _keys(registry: str, name: str, cls: type, constructor_name: str | None) -> Iterator[Key]:
    if registry == "Subcommand":
        return
    constructor: Callable[..., Any] = getattr(cls, constructor_name) if constructor_name else cls.__init__
    documented: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        documented |= parameters_of(base) | ({} if is_ours(base) else OF_ALLENNLP)
    documented |= parameters_of(constructor)
    for key, description in documented.items():
        if elsewhere := re.fullmatch(r"As in `(\w+)`\.", description):
            documented[key] = _described_elsewhere(key, elsewhere[1]) or description
    parameters = {} if constructor is object.__init__ else dict(infer_params(cls, constructor))
    if (registry, name) == ("TokenEmbedder", "elmo"):  # its keys are those of `Elmo`
        documented, parameters = parameters_of(Elmo), dict(infer_params(Elmo, Elmo.__init__))
        del parameters["num_output_representations"]
    for key, parameter in parameters.items():
        if key in SUPPLIED or parameter.kind is parameter.VAR_KEYWORD:
            continue
        kind = kind_of(parameter.annotation)[0]
        default = "required" if parameter.default is inspect.Parameter.empty else _as_config(parameter.default)
        yield Key(key, kind, default, documented.get(key, ""))


def _described_elsewhere(key: str, cls: str) -> str:
    """Return the description of a parameter in the docstring of another class of this package."""
    modules = [module for name, module in sys.modules.items() if name.startswith("elmo_plugin.")]
    found = (getattr(module, cls) for module in modules if hasattr(module, cls))
    return parameters_of(next(found, None)).get(key, "")


def _as_config(value: Any) -> str:
    if isinstance(value, Lazy):  # a class, which a config writes by its name
        registered = (names.items() for names in Registrable._registry.values())
        names = {cls: name for pairs in registered for name, (cls, constructor) in pairs if constructor is None}
        value = names[value._constructor]
    # An object is shown by its class: its own text may have an address in memory.
    text = json.dumps(value, default=lambda other: type(other).__name__, ensure_ascii=False)
    return f"`{text}`"


def parameters_of(documented: Any) -> dict[str, str]:
    """Return the descriptions in the `# Parameters` section of a docstring, by parameter."""
    docstring = inspect.getdoc(documented) or ""
    section = re.search(r"# Parameters\n+(.*?)(?:\n# |\Z)", docstring, re.S)
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section[1].splitlines() if section else []:
        heading = re.fullmatch(r"([a-z_]\w*(?:, [a-z_]\w*)*)(?: : (.*))?", line)
        if heading:
            names = heading[1].split(", ")
            if heading[2] and not TYPE.match(heading[2]):
                found |= dict.fromkeys(names, heading[2])
        elif line.startswith("    ") and names:
            for name in names:
                found[name] = f"{found.get(name, '')} {line.strip()}".strip()
        elif line.strip():
            names = []
    return found


def summary_of(cls: type) -> str:
    """Return a class's docstring without its parameters. Long lines of a config wrap, by the style of `.config`."""
    summary = (inspect.getdoc(cls) or "").split("# Parameters")[0].strip()
    return fence_examples(summary).replace("```jsonnet", "``` { .jsonnet .config }")


def _component_page(registries: list[str]) -> Iterator[str]:
    listed = [component for component in components() if component.registry in registries]
    for component in sorted(listed, key=lambda one: registries.index(one.registry)):
        yield f"### `{component.name}` ({component.registry}) {{ #{component.registry}-{component.name} }}\n"
        yield summary_of(component.cls) + "\n"
        yield from _table(component.keys)


def _table(keys: list[Key]) -> Iterator[str]:
    if keys:
        yield '<div class="keys" markdown>\n\n| key | | takes | default |\n|---|---|---|---|'
        for key in keys:
            description = re.sub(r"([|\[])", r"\\\1", key.description)
            kind = key.kind.replace("<", "&lt;")  # or `<S>` is a tag of HTML
            yield f"| `{key.name}` | {description} | {kind} | {key.default} |"
        yield "\n</div>\n"


def options_of(block: type[Block]) -> list[Key]:
    """Return the options that the fields of a block declare."""
    keys = []
    for each in declared(block):
        is_required = each.default is dataclasses.MISSING
        default = "required" if is_required else "none" if each.default == () else _as_config(each.default)
        keys.append(Key(each.key, kind_of(each.kind)[0], default, each.about))
    return keys


def _options_page() -> Iterator[str]:
    for key, block in {"options": BiLMOptions, **BiLMOptions.blocks()}.items():
        yield f"### `{key}` {{ #options-{key} }}\n"
        yield from _table(options_of(block))


def _command_page() -> Iterator[str]:
    subparsers = ArgumentParserWithDefaults(prog="elmo-plugin").add_subparsers()
    for component in components():
        if component.registry == "Subcommand":
            parser = Subcommand.by_name(component.name)().add_subparser(subparsers)  # type: ignore[call-arg]
            yield f"## `elmo-plugin {component.name}` {{ #{component.name} }}\n\n```text\n{parser.format_help()}```\n"


def _source(module: str, name: str) -> str:
    function = operator.attrgetter(name)(importlib.import_module(module))
    return f"```python\n{textwrap.dedent(inspect.getsource(function))}```"


def on_config(config: MkDocsConfig) -> None:
    """Let the site name the version that it describes. MkDocs calls it once."""
    config.site_name = f"elmo_plugin {elmo_plugin.__version__}"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the comments of a page by what they ask for. MkDocs calls it for each page."""
    filled = re.sub(
        r"<!-- components ([\w ]+) -->", lambda found: "\n".join(_component_page(found[1].split())), markdown
    )
    filled = re.sub("<!-- options -->", lambda _: "\n".join(_options_page()), filled)
    filled = re.sub("<!-- commands -->", lambda _: "\n".join(_command_page()), filled)
    return re.sub(r"<!-- source (\S+) (\S+) -->", lambda found: _source(found[1], found[2]), filled)
