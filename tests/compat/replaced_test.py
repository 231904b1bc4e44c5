"""What the import of this package replaces in AllenNLP and elsewhere, compared with the one list of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from elmo_plugin.compat.replaced import REPLACED

SCRIPT = """
import contextlib, importlib, inspect, json, pkgutil, sys, types

import allennlp

for module in pkgutil.walk_packages(allennlp.__path__, "allennlp."):
    if not module.name.startswith(("allennlp.common.testing", "allennlp.__main__")):
        with contextlib.suppress(ImportError):
            importlib.import_module(module.name)
MODULES = {name: module for name, module in sys.modules.items() if isinstance(module, types.ModuleType)}

def is_kept(name, value):
    return name.startswith("allennlp") or callable(value) or isinstance(value, classmethod | staticmethod | property)

def attributes():
    found, classes = {}, set()
    for name, module in MODULES.items():
        for key, value in list(vars(module).items()):
            if is_kept(name, value):
                found[name, key] = value
            if isinstance(value, type) and value not in classes:
                classes.add(value)
                owner = f"{value.__module__}.{value.__qualname__}"
                found.update(((owner, key), each) for key, each in vars(value).items() if is_kept(owner, each))
    return found

def full_name(place):
    "A function has the name under which it was defined, wherever it was imported."
    function = before.get(place)
    function = getattr(function, "__func__", function)
    if isinstance(function, types.FunctionType) and "<" not in function.__qualname__:
        return f"{function.__module__}.{function.__qualname__}"
    return ".".join(place)

def changed():
    after = attributes()
    places = [
        place
        for place in before.keys() | after.keys()
        if before.get(place, MODULES) is not after.get(place, MODULES)  # MODULES stands for nothing
        # What other libraries import when it is first used, and AllenNLP's modules in their packages, are no changes.
        and (place in before or (place[0].startswith("allennlp") and not isinstance(after[place], types.ModuleType)))
    ]
    return sorted(map(full_name, places))

before = attributes()
import elmo_plugin
imported = changed()
from elmo_plugin.commands.console import adapt_console
adapt_console()
print(json.dumps([imported, changed()]))
"""


@pytest.mark.slow
def test_the_list_has_everything_that_is_replaced(tmp_path: Path) -> None:
    home = Path(__file__).resolve().parents[2]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(home), "HOME": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT]
    output = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True).stdout
    imported, in_the_program = map(set, json.loads(output.splitlines()[-1]))

    always, programs, libraries, *_ = map(set, REPLACED.values())
    assert imported - libraries == always
    assert in_the_program - libraries == always | programs
