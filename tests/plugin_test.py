"""The package as a plugin: quiet to import, found by `allennlp`, complete when packed."""

import os
import pkgutil
import re
import subprocess
import sys
import zipfile
from importlib.metadata import Distribution
from pathlib import Path

import allennlp
import pytest
from allennlp.common import Params
from allennlp.common.util import import_module_and_submodules

import elmo_plugin

ROOT = Path(__file__).resolve().parents[1]

IMPORTED = """
import os, sys
from allennlp.common.plugins import import_plugins
from allennlp.common.registrable import Registrable
from allennlp.common import Params
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
def test_allennlp_run_in_the_checkout_finds_everything_that_we_register_and_nothing_is_printed() -> None:
    """`.allennlp_plugins` imports the package but not its submodules, so `__init__` must import every package."""
    assert (ROOT / ".allennlp_plugins").read_text(encoding="utf-8").split() == ["elmo_plugin"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, "-c", IMPORTED], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (result.returncode, result.stderr, result.stdout) == (0, "", "set()\n")


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder with a file or a folder for each name of a module of AllenNLP and ours, which ends the process.

    It also has a package whose modules have such names.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    packages = [*allennlp.__path__, *elmo_plugin.__path__]
    names = sorted({module.name for module in pkgutil.iter_modules(packages) if not module.name.startswith("_")})
    assert {"training", "data", "models", "text", "analysis"} <= {*names}
    (tmp_path / "hostile_test_package/data").mkdir(parents=True)
    for name in ("__init__.py", "training.py", "data/__init__.py", "data/text.py"):
        (tmp_path / "hostile_test_package" / name).touch()
    for number, name in enumerate(names):
        path = tmp_path / (f"{name}.py" if number % 2 else f"{name}/__init__.py")
        path.parent.mkdir(exist_ok=True)
        path.write_text("raise SystemExit(f'{__name__} was run')")
    return tmp_path


@pytest.mark.usefixtures("hostile")
def test_modules_of_packages_are_imported_by_their_full_names() -> None:
    for package in ("allennlp", "elmo_plugin", "elmo_plugin.models", "hostile_test_package"):
        import_module_and_submodules(package, exclude={"allennlp.sanity_checks", "allennlp.tools"})
    imported = {name for name in sys.modules if name.startswith("hostile_test_package.")}
    assert imported == {f"hostile_test_package.{name}" for name in ("training", "data", "data.text")}


@pytest.mark.slow
@pytest.mark.parametrize("program", ["elmo-plugin", "allennlp"])
def test_a_program_runs_no_file_of_the_working_folder(program: str, hostile: Path) -> None:
    """AllenNLP's own program runs them before it imports this package, unless the start-up file is installed."""
    packages = ["--include-package", "elmo_plugin", "--include-package", "hostile_test_package"]
    command = [str(Path(sys.executable).with_name(program)), "train", "nowhere.jsonnet", "-s", "run", *packages]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, cwd=hostile, env=environment, capture_output=True, text=True)
    assert result.returncode == 1 and "nowhere.jsonnet" in result.stderr


def test_without_allennlp_the_import_says_how_to_install_it(tmp_path: Path) -> None:
    missing = "import sys; sys.modules['allennlp'] = None; import elmo_plugin"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", missing], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    last = result.stderr.splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: ") and "pip install --no-deps allennlp==2.10.1" in last


BUILD = """
import sys
from hatchling.builders.wheel import WheelBuilder
for version in ("standard", "editable"):
    print(next(WheelBuilder(sys.argv[1]).build(directory=sys.argv[2] + "/" + version, versions=[version])))
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The wheel, and that of an editable install."""
    folder = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, "-c", BUILD, str(ROOT), str(folder)]
    built = subprocess.run(command, capture_output=True, text=True, check=True)
    return [Path(line) for line in built.stdout.splitlines()]


@pytest.mark.slow
def test_the_program_and_what_spacy_finds_are_installed(wheels: list[Path], tmp_path: Path) -> None:
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as file:
            file.extractall(tmp_path / wheel.parent.name)
        (metadata,) = (tmp_path / wheel.parent.name).glob("*.dist-info")
        installed = {(entry.group, entry.name) for entry in Distribution.at(metadata).entry_points}
        assert installed == {
            ("console_scripts", "elmo-plugin"),
            ("spacy_architectures", "elmo_plugin.Elmo.v1"),
            ("spacy_factories", "elmo"),
        }


@pytest.mark.slow
def test_the_start_up_file_is_in_the_wheel_and_in_an_editable_install(wheels: list[Path]) -> None:
    for wheel in wheels:
        names = zipfile.ZipFile(wheel).namelist()
        assert {"elmo_plugin.pth", "elmo_plugin_startup.py"} <= {*names}


@pytest.mark.slow
def test_the_pages_that_errors_name_and_the_configs_for_pretraining_are_in_the_wheel(wheels: list[Path]) -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "elmo_plugin").rglob("*.py")]
    pages = {page for source in sources for page in re.findall(r"installed\('(docs/[\w/.-]+)'\)", source)}
    configs = [path for path in (ROOT / "training_configs/pretrain").rglob("*.jsonnet")]
    assert {"docs/extend.md", "docs/guides/old-configs.md"} <= pages and len(configs) > 5
    wanted = {*pages, *(str(path.relative_to(ROOT)) for path in configs)}
    assert {f"elmo_plugin/{name}" for name in wanted} <= {*zipfile.ZipFile(wheels[0]).namelist()}


def test_a_config_of_the_package_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LM_TRAIN", "train-*")
    monkeypatch.setenv("LM_HELDOUT", "heldout")
    for name in ("bilm_tiny", "training_configs/pretrain/bilm_tiny.jsonnet"):
        assert Params.from_file(name)["train_data_path"] == "train-*"
    Path("bilm_tiny").write_text("{ mine: 1 }")
    assert Params.from_file("bilm_tiny")["mine"] == 1
    with pytest.raises(FileNotFoundError, match="bilm_tinny"):
        Params.from_file("bilm_tinny")
