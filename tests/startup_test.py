"""What runs before AllenNLP: the start-up file, the program's quick answers, and imports that wait until they are used.

The start-up file is installed with the package, so these tests need `make setup` or another install.
"""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional
from unittest.mock import Mock

import pytest
from allennlp.commands import ArgumentParserWithDefaults

import elmo_plugin_startup
from elmo_plugin.commands import COMMANDS, command_line
from elmo_plugin.postponed_imports import Postponed, postponed_imports
from tests.pages import blocks

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def run(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def imports_of(page: Path) -> set[str]:
    """Return the imports of AllenNLP and of this package that a page shows."""
    found: set[str] = set()
    for block in blocks(page):
        if block.language == "python":
            statements = [
                node for node in ast.walk(ast.parse(block.text)) if isinstance(node, ast.Import | ast.ImportFrom)
            ]
            found |= {line for line in map(ast.unparse, statements) if "allennlp" in line or "elmo_plugin" in line}
    return {line for line in found if "flair" not in line}  # an extra


def test_ctrl_c_while_allennlp_is_imported_ends_the_program_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    imported = importlib.util.find_spec("elmo_plugin")
    assert imported is not None
    monkeypatch.setattr(imported, "loader", Mock(create_module=lambda spec: None))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: imported)
    monkeypatch.setattr(sys, "argv", ["elmo-plugin", "train", "config.jsonnet", "-s", "run"])
    monkeypatch.setitem(sys.modules, "elmo_plugin", sys.modules["elmo_plugin"])  # which is replaced
    monkeypatch.setitem(sys.modules, "elmo_plugin.__main__", Mock(run=Mock(side_effect=KeyboardInterrupt)))
    with pytest.raises(SystemExit) as caught:
        elmo_plugin_startup.run()
    assert caught.value.code == 130


@pytest.mark.slow
def test_what_the_documentation_imports_works_with_allennlp_first(tmp_path: Path) -> None:
    """In this process, as in all tests, the package was first."""
    found = {line for page in PAGES for line in imports_of(page)}
    assert len(found) > 20
    lines = sorted(found, key=lambda line: (" allennlp" not in line, line))
    assert " allennlp" in lines[0]
    exec("\n".join(lines), {})
    result = run("\n".join(lines), tmp_path)
    assert result.returncode == 0, result.stderr


def test_the_start_of_python_imports_nothing_large_and_asking_for_allennlp_imports_nothing(tmp_path: Path) -> None:
    code = "import importlib.util, sys; print(importlib.util.find_spec('allennlp').name, 'transformers' in sys.modules)"
    assert run(code, tmp_path).stdout == "allennlp False\n"


@pytest.mark.slow
def test_embedding_a_sentence_imports_neither_the_compiler_nor_sympy(tmp_path: Path) -> None:
    code = (
        "import sys, elmo_plugin; before = {*sys.modules}; elmo_plugin.load('english-tiny').embed([['It', 'sank']])\n"
        "print({'torch._dynamo', 'sympy'} & {*sys.modules} - before)"  # old releases of torch import SymPy themselves
    )
    result = run(code, tmp_path)
    assert result.stdout == "set()\n", result.stderr


def test_the_start_up_file_can_be_switched_off(tmp_path: Path) -> None:
    code = "import sys; print([type(finder).__name__ for finder in sys.meta_path].count('BeforeAllenNlp'))"
    assert run(code, tmp_path).stdout == "1\n"
    assert run(code, tmp_path, ELMO_PLUGIN_STARTUP="off").stdout == "0\n"


def write_allennlp(folder: Path) -> None:
    """Write an AllenNLP whose module `common/util.py` is empty, which takes no seconds to import."""
    (folder / "allennlp/common").mkdir(parents=True)
    for name in ("__init__.py", "common/__init__.py", "common/util.py"):
        (folder / "allennlp" / name).touch()


WRAPPED = """
import sys
class Wrapper:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
sys.meta_path = [Wrapper(finder) for finder in sys.meta_path]
"""
FOUND_BEFORE = """
import importlib.util
early = importlib.util.find_spec("allennlp.common.util")
import allennlp.common.util
early.loader.exec_module(importlib.util.module_from_spec(early))
"""


@pytest.mark.parametrize("before", [WRAPPED, FOUND_BEFORE, WRAPPED + FOUND_BEFORE, ""])
def test_the_start_up_file_repairs_whatever_else_finds_modules(before: str, tmp_path: Path) -> None:
    write_allennlp(tmp_path)
    result = run(before + "import allennlp.common.util as util; print([*vars(util.pkgutil)])", tmp_path)
    assert (result.stdout, result.stderr) == ("['walk_packages']\n", "")


@pytest.mark.parametrize("missing", ["elmo_plugin", "allennlp"])
def test_what_is_missing_is_one_warning_at_most(missing: str, tmp_path: Path) -> None:
    if missing == "elmo_plugin":
        write_allennlp(tmp_path)
    code = (
        f"import sys; sys.modules[{missing!r}] = None\ntry: import allennlp.common.util\n"
        "except ImportError as e: print(e.name)"
    )
    result = run(code, tmp_path)
    assert result.returncode == 0
    if missing == "allennlp":
        assert (result.stdout, result.stderr) == ("allennlp.common\n", "")
    else:
        assert result.stderr.count("Warning: elmo_plugin_startup: ") == 1 and "Traceback" not in result.stderr


def test_only_modules_of_allennlp_get_what_is_imported_when_it_is_used() -> None:
    of_allennlp, of_others = {"__name__": "allennlp.some"}, {"__name__": "some"}
    line = "import torchvision, numpy; from spacy.tokens import Token; import scipy.stats as stats"
    with postponed_imports():
        for names in (of_allennlp, of_others):
            exec(line, names)
    postponed = {name for name, value in of_allennlp.items() if isinstance(value, Postponed)}
    assert postponed == {"torchvision", "Token", "stats"}
    assert not any(isinstance(value, Postponed) for value in of_others.values())


def test_what_is_postponed_has_the_names_that_the_module_has() -> None:
    names = {"__name__": "allennlp.some", "__builtins__": __builtins__}
    with postponed_imports():
        exec("import nltk; from nltk import tree", names)
    for module in (names["nltk"], names["tree"]):
        assert isinstance(module, Postponed)
        assert hasattr(module, "Tree") and not hasattr(module, "Treee")
    import nltk

    assert names["nltk"].Tree is nltk.Tree and names["nltk"].__version__ == nltk.__version__


def test_what_is_postponed_does_what_allennlp_does_with_it() -> None:
    names = {"__name__": "allennlp.some", "__builtins__": __builtins__}
    with postponed_imports():
        exec("import nltk; from nltk import Tree; from scipy.stats import wasserstein_distance as distance", names)
        exec("from transformers.activations import ACT2FN; import spacy", names)
    import nltk
    import spacy
    from scipy.stats import wasserstein_distance
    from transformers.activations import ACT2FN

    tree, postponed = nltk.Tree("a", []), names["Tree"]
    assert (
        isinstance(tree, postponed)
        and isinstance(tree, (int, names["nltk"].tree.Tree))
        and issubclass(nltk.Tree, postponed)
    )
    assert isinstance(postponed("a", []), nltk.Tree) and not isinstance("a", postponed)
    assert list[postponed] and Optional[postponed] and dict[str, postponed]
    assert issubclass(type("Sub", (nltk.Tree,), {}), postponed)
    namespace: dict[str, type] = {**names}
    exec("class Sub(Tree): pass", namespace)
    assert issubclass(namespace["Sub"], nltk.Tree)
    assert type(names["ACT2FN"]["gelu"]) is type(ACT2FN["gelu"])
    assert (
        names["distance"] == wasserstein_distance
        and wasserstein_distance == names["distance"]
        and names["distance"] != print
    )
    assert names["spacy"].__version__ == spacy.__version__


QUICK = """
import sys
import elmo_plugin_startup
sys.argv = ["elmo-plugin", *sys.argv[1:]]
try:
    elmo_plugin_startup.run()
finally:
    print({"torch", "allennlp", "numpy"} & {*sys.modules})
"""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("--version", 0, "elmo-plugin "),
        ("--help", 0, "prepare-text"),
        ("", 0, "prepare-text"),
        *((f"{name} --help", 0, f"usage: elmo-plugin {name} ") for name in COMMANDS),
        ("embed-corpus text out --mistake 2", 2, "usage: elmo-plugin embed-corpus INPUT"),
        ("embed-corpus text out --batch-size none", 2, "expected a whole number of 1 or more, got 'none'"),
        ("prepre-text", 2, "did you mean 'prepare-text'?"),
        ("elmo text out", 2, "embed-corpus INPUT OUTPUT"),
    ],
)
def test_help_and_mistakes_need_neither_torch_nor_allennlp(
    arguments: str, code: int, said: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", QUICK, *arguments.split()]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (result.returncode, result.stdout.splitlines()[-1]) == (code, "set()")
    assert said in result.stdout + result.stderr


def test_the_commands_of_another_plugin_are_left_to_allennlp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    Path(".allennlp_plugins").write_text("elmo_plugin\n")
    with pytest.raises(SystemExit):
        command_line.answer("elmo-plugin", ["their-command"])
    Path(".allennlp_plugins").write_text("elmo_plugin\ntheirs\n")
    command_line.answer("elmo-plugin", ["their-command"])
    command_line.answer("elmo-plugin", ["--help"])
    assert "expected a command, got 'their-command'" in capsys.readouterr().err


def test_the_quick_help_is_that_of_allennlps_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    from allennlp.commands.subcommand import Subcommand

    monkeypatch.setenv("COLUMNS", "80")
    _, ours = command_line.parsers("elmo-plugin")
    theirs: Any = ArgumentParserWithDefaults(prog="elmo-plugin").add_subparsers()
    for name in Subcommand.list_available():
        parser = Subcommand.by_name(name)().add_subparser(theirs)  # type: ignore[call-arg]
        if name in ours:
            parser.add_argument(
                "--include-package", type=str, action="append", default=[], help="additional packages to include"
            )
            assert parser.format_help() == ours[name].format_help()
    lines = {action.dest: action.help for action in theirs._choices_actions}
    del lines["checklist"]  # a stub where its package is missing
    for name, line in command_line.OF_ALLENNLP.items():
        assert lines.get(name, line).startswith(line.rstrip("."))


@pytest.mark.parametrize(
    ("name", "way"), [("push-to-hf", "hf upload USER/NAME"), ("elmo", "embed-corpus INPUT OUTPUT")]
)
def test_a_command_that_is_gone_names_the_way_that_works(
    name: str, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command_line.answer("elmo-plugin", [name, "-n", "x"])
    assert way in capsys.readouterr().err
