"""What the documentation shows is typed here: the pages' files, commands and Python, and what the README names."""

import importlib.util
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import pytest
from allennlp.common import Params, Registrable

from elmo_plugin.lstm import KERNELS
from tests.pages import Page, blocks

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
RUN = {"python", "sh"}
ELSEWHERE = ("extend", "first-tagger")
"""The first has a test below, which looks at its answers; `make installed` types the second, as it is."""
LEARNED = ("another-language", "own-text")
"""Their Python compares the scores of what was trained."""
PAGES = sorted(
    page
    for page in DOCS.rglob("*.md")
    if page.stem not in ELSEWHERE and any(block.title or block.language in RUN for block in blocks(page))
)


@pytest.mark.slow
@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_a_page_runs_from_top_to_bottom(page: Path) -> None:
    if page.stem == "integrations":
        pytest.importorskip("flair")  # which needs transformers before 5
    running = Page(page, to_the_end=page.stem in LEARNED)
    running.run()
    assert running.n_run


@pytest.fixture
def parts(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget the parts that a page registers, and find its package in the working directory."""
    monkeypatch.syspath_prepend(str(checkout))
    registries = {kind: dict(names) for kind, names in Registrable._registry.items()}
    monkeypatch.setattr(Registrable, "_registry", defaultdict(dict, registries))
    with patch.dict(KERNELS):
        yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_parts"]:
        del sys.modules[name]


@pytest.mark.slow
@pytest.mark.usefixtures("parts")
def test_the_examples_of_parts_of_ones_own_run() -> None:
    from elmo_plugin.serving.model import load_served  # needs the extra serve, which flair's environment lacks

    Page(DOCS / "extend.md").run()
    lines = Path("vectors.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["The ferry left the harbour .", "It sank ."]
    (answer,) = load_served("runs/tagger/model.tar.gz").label(["Greta left."])
    assert answer["tokens"] == ["Greta", "left", "."] and len(answer["tags"]) == 3


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_complete_configs_are_jsonnet(page: Path, tmp_path: Path) -> None:
    for block in blocks(page):
        if block.language == "jsonnet" and block.title is None and block.text.startswith("{"):
            (tmp_path / "config.jsonnet").write_text(block.text, encoding="utf-8")
            assert Params.from_file(tmp_path / "config.jsonnet").as_dict()


def hook(name: str) -> ModuleType:
    """A hook of MkDocs in `docs/`, which is no package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", sorted((DOCS / "tutorials").glob("*.md")), ids=lambda page: page.stem)
def test_a_notebook_has_the_files_the_commands_and_the_python_of_its_page(page: Path) -> None:
    notebooks = hook("notebooks")
    notebook = notebooks.notebook(page)
    notebooks.nbformat.validate(notebook)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    run = [block for block in blocks(page) if block.title or block.language in RUN]
    assert len(code) == len(run) >= 5
    for cell, block in zip(code, run, strict=True):
        assert cell.endswith(block.text.rstrip("\n")) and (block.title or "") in cell
    text = "".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert page.read_text(encoding="utf-8").splitlines()[0] in text
    assert ".md)" not in text and "--8<--" not in text  # neither links into the site nor files left to include


def test_the_package_ships_the_files_of_the_first_page() -> None:
    shown = {block.title: block.text for block in blocks(DOCS / "start/first-tagger.md") if block.title}
    shipped = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "elmo_plugin/examples").iterdir()}
    assert shipped == shown


NOT_IN_CONFIGS = {"Elmo"}
"""Registries that only tell AllenNLP how to build a key; `TokenEmbedder` has the keys of `Elmo`."""


@pytest.mark.slow
def test_the_reference_lists_every_component_and_describes_every_key() -> None:
    reference = hook("reference_pages")
    page = reference.on_page_markdown((DOCS / "reference/components.md").read_text(encoding="utf-8"))
    commands = reference.on_page_markdown((DOCS / "reference/commands.md").read_text(encoding="utf-8"))
    components = list(reference.components())
    assert len(components) > 40
    for component in components:
        if component.registry == "Subcommand":
            assert f"`elmo-plugin {component.name}`" in commands
        elif component.registry not in NOT_IN_CONFIGS:
            assert f"`{component.name}` ({component.registry})" in page
    described = {(one.name, key.name): key.description for one in components for key in one.keys}
    assert not [key for key, text in described.items() if not text or text.count("(") != text.count(")")]
    assert "the two ids of &lt;S> and &lt;/S>" in page
    assert "| `embedding.dim` | The width of a character's vector. | a whole number from 1 to " in page
