"""The package as a plugin: quiet to import, found by `allennlp`, complete when packed."""

import configparser
import os
import shutil
import subprocess
import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from tests.oracles import needs_allennlp_alone

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "elmo_plugin"

IMPORTED = """
import os, sys
from allennlp.common.plugins import import_plugins
from allennlp.common.registrable import Registrable
from allennlp.common.util import import_module_and_submodules

def registered():
    return {(base, name) for base, registry in Registrable._registry.items() for name in registry}

import_plugins()  # what `.allennlp_plugins` in the working directory names
found = registered()
os.chdir("/")
for extra in ("fastapi", "flair", "matplotlib", "pandas", "pyarrow", "starlette", "uvicorn"):
    sys.modules[extra] = None  # not installed
import_module_and_submodules("elmo_plugin")  # as `--include-package elmo_plugin`
assert "wandb" not in sys.modules
print(registered() - found)
"""


@pytest.mark.slow
@needs_allennlp_alone
def test_allennlp_run_in_the_checkout_finds_everything_that_we_register_and_nothing_is_printed() -> None:
    """`.allennlp_plugins` imports the package but not its submodules, so `__init__` must import every package."""
    assert (ROOT / ".allennlp_plugins").read_text(encoding="utf-8").split() == ["elmo_plugin"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, "-c", IMPORTED], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (result.returncode, result.stderr, result.stdout) == (0, "", "set()\n")


def test_without_allennlp_the_import_says_how_to_install_it(tmp_path: Path) -> None:
    missing = "import sys; sys.modules['allennlp'] = None; import elmo_plugin"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", missing], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    last = result.stderr.splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: ") and "pip install --no-deps allennlp==2.10.1" in last


METADATA = "from setuptools.build_meta import prepare_metadata_for_build_wheel as prepare; prepare('.')"


def test_the_program_and_the_architecture_of_spacy_are_installed(tmp_path: Path) -> None:
    """If `dynamic` in pyproject.toml lacks a kind of entry point, setuptools ignores all of them."""
    for name in ("pyproject.toml", "setup.cfg", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    subprocess.run([sys.executable, "-c", METADATA], cwd=tmp_path, capture_output=True, check=True)
    (metadata,) = tmp_path.glob("*.dist-info")
    installed = {entry.name for entry in Distribution.at(metadata).entry_points}
    assert installed == {"elmo-plugin", "elmo_plugin.Elmo.v1"}


def test_every_data_file_is_packed() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    patterns = config["options.package_data"]["elmo_plugin"].split()
    packed = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    files = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert not sorted(str(path.relative_to(ROOT)) for path in files - packed)
