"""What `docs/understand/stability.md` calls public is listed in `public_names.txt`, so that no change is an accident.

python -m tests.public_names_test > tests/public_names.txt    # after a deliberate change
"""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from allennlp.commands import ArgumentParserWithDefaults, Subcommand

import elmo_plugin
from elmo_plugin.models import ElmoEmbedderPredictor
from tests.docs_test import hook

LISTED = Path(__file__).with_name("public_names.txt")
INTERNAL = {"commands"}
"""What `import elmo_plugin` names that is no Python interface: its interface is the command line."""


def public_names() -> Iterator[str]:
    """Yield a line for each name of Python, for each key of a config with its default, and for each option."""
    for name in elmo_plugin.__all__:
        if name not in INTERNAL:
            yield f"elmo_plugin.{name}"
            value = getattr(elmo_plugin, name)
            if value.__class__.__name__ == "module":
                package = importlib.import_module(f"elmo_plugin.{name}")
                yield from (f"elmo_plugin.{name}.{inner}" for inner in package.__all__)
    subparsers = ArgumentParserWithDefaults(prog="elmo-plugin").add_subparsers()
    for component in hook("reference_pages").components():
        yield f"{component.registry} {component.name}"
        if component.registry == "Subcommand":
            parser = Subcommand.by_name(component.name)().add_subparser(subparsers)  # type: ignore[call-arg]
            for action in parser._actions:
                yield from (f"Subcommand {component.name} {name}" for name in action.option_strings or [action.dest])
        for key in component.keys:
            yield f"{component.registry} {component.name} {key.name} = {key.default.strip('`')}"


def names_in_json() -> Iterator[str]:
    """Yield a line for each path of the web server, for each key of its requests with its default, and of its answers.

    The answers to `/tag`, `/classify` and `/log-probabilities` are those of `predict`, whose others follow.
    """
    from tests.serving_oracles import served_classifier, served_tagger, serving  # needs the extra `serve`

    tagger = served_tagger()
    for model in (tagger, served_classifier()):
        with serving(model) as client:
            schema = client.get("/openapi.json").json
            for path, methods in schema["paths"].items():
                if path == "/metrics":  # Prometheus' own format
                    continue
                ((method, described),) = methods.items()
                name = f"Server {method.upper()} {path}"
                yield name
                if method == "get":
                    yield from (f"{name} -> {key}" for key in keys_of(client.get(path).json))
                    continue
                (reference,) = described["requestBody"]["content"]["application/json"]["schema"].values()
                request = schema["components"]["schemas"][reference.rpartition("/")[2]]
                for key, value in request["properties"].items():
                    yield f"{name} {key} = {json.dumps(value['default']) if 'default' in value else 'required'}"
                answers = client.post(path, {"sentences": ["Greta sailed to Port Calder ."]}).json
                yield from (f"{name} -> {key}" for key in keys_of(answers))
            yield from (f"Server error -> {key}" for key in keys_of(client.get("/nowhere").json))
    assert tagger.predictor is not None
    embedder = ElmoEmbedderPredictor(tagger.predictor._model, tagger.predictor._dataset_reader)
    yield from (f"Predictor elmo_embedder -> {key}" for key in keys_of(embedder.predict("Two words")))


def keys_of(value: Any, before: str = "") -> Iterator[str]:
    """Yield the paths of all keys in JSON; `[]` stands for the items of a list."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{before}{key}"
            if key != "probabilities":  # those of a classifier have its labels as keys
                yield from keys_of(inner, f"{before}{key}.")
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner, f"{before.removesuffix('.')}[].")


def test_the_public_names_are_those_that_are_listed() -> None:
    listed = LISTED.read_text(encoding="utf-8").splitlines()
    names = all_names()
    assert len(names) > 500
    assert {*names} - {*listed} == set(), "new"
    assert {*listed} - {*names} == set(), "gone"
    assert names == listed  # each once, sorted


def all_names() -> list[str]:
    """Return all lines, sorted. The two models of the server share some."""
    return sorted([*public_names(), *{*names_in_json()}])


if __name__ == "__main__":
    print(*all_names(), sep="\n")
