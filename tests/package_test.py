"""The wheel and the sdist: the same bytes each time, complete, and with one version and one address everywhere."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
import yaml

import elmo_plugin

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / "elmo_plugin").exists(), reason="only the tests lie here, not the package"),
]
REPOSITORY = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"]
BUILD = """
import sys
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
for builder, versions in ((SdistBuilder, ["standard"]), (WheelBuilder, ["standard"])):
    print(next(builder(sys.argv[1]).build(directory=sys.argv[2], versions=versions)))
"""


def build(source: Path, folder: Path) -> tuple[Path, Path]:
    """Build the sdist and the wheel of a folder, in a process of its own, as a user does."""
    command = [sys.executable, "-c", BUILD, str(source), str(folder)]
    sdist, wheel = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return Path(sdist), Path(wheel)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist and the wheel of this checkout."""
    return build(ROOT, tmp_path_factory.mktemp("built"))


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as file:
        (name,) = (name for name in file.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(file.read(name).decode())


def test_what_the_sdist_builds_has_the_same_bytes(built: tuple[Path, Path], tmp_path: Path) -> None:
    """The files of the second build have other times, and lie in another folder."""
    with tarfile.open(built[0]) as file:
        file.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    for path in source.rglob("*"):
        path.touch()
    for first, second in zip(built, build(source, tmp_path / "again"), strict=True):
        assert first.name == second.name
        assert first.read_bytes() == second.read_bytes()


def test_the_sdist_has_the_files_of_the_repository_without_results(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as file:
        names = {name.partition("/")[2] for name in file.getnames()} - {"PKG-INFO"}
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode or not tracked.stdout:
        pytest.skip("this is no checkout")
    expected = {name for name in tracked.stdout.split("\0") if name and (ROOT / name).exists()}
    assert names == {name for name in expected if not name.startswith("experiments/why_elmo/results/")}


def test_every_file_of_the_package_is_packed(built: tuple[Path, Path]) -> None:
    packed = set(zipfile.ZipFile(built[1]).namelist())
    files = {path for path in (ROOT / "elmo_plugin").rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert files and {path.relative_to(ROOT).as_posix() for path in files} <= packed


def test_the_metadata_have_one_licence_of_all_that_is_packed_and_what_indexes_show(built: tuple[Path, Path]) -> None:
    found = metadata(built[1])
    licences = set(re.split(r" AND ", found["License-Expression"]))
    cards = [*(ROOT / "elmo_plugin/checkpoints/bundled").glob("*/README.md")]
    assert cards
    for card in cards:
        front = yaml.safe_load(card.read_text(encoding="utf-8").split("---")[1])
        assert front["license"].lower() in {licence.lower() for licence in licences}
        assert f"elmo_plugin/checkpoints/bundled/{card.parent.name}/LICENSE.md" in found.get_all("License-File", [])
    assert {"Typing :: Typed", "Programming Language :: Python :: 3 :: Only"} <= {*found.get_all("Classifier", [])}


def test_no_relative_link_is_left_in_the_description(built: tuple[Path, Path]) -> None:
    description = metadata(built[1]).get_payload()
    assert isinstance(description, str)
    links = re.findall(r"\]\(([^)]+)\)", description)
    ours = [link for link in links if link.startswith(f"{REPOSITORY}/")]
    assert len(ours) >= 15 and all(link.startswith("https://") for link in links)
    for link in ours:  # to this version, and to a file that exists
        kind, tag, path = link.removeprefix(f"{REPOSITORY}/").split("/", 2)
        assert kind == ("raw" if path.endswith(".svg") else "blob") and tag == f"v{elmo_plugin.__version__}"
        assert (ROOT / path.partition("#")[0]).exists()


def test_the_version_and_the_address_are_those_of_the_citation_and_the_changelog(built: tuple[Path, Path]) -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    newest = re.search(r"^## (\S+) – (\S+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert metadata(built[1])["Version"] == elmo_plugin.__version__ == citation["version"] == newest[1]
    assert str(citation["date-released"]) == newest[2]
    assert citation["repository-code"] == REPOSITORY


def test_every_file_that_repeats_the_address_has_the_one_of_pyproject(built: tuple[Path, Path]) -> None:
    urls = dict(url.split(", ") for url in metadata(built[1]).get_all("Project-URL", []))
    assert {"Changelog", "Documentation", "Issues", "Security", "Source"} == {*urls}
    texts = [*urls.values()]
    for name in ("SECURITY.md", "SUPPORT.md", "CITATION.cff", ".github/ISSUE_TEMPLATE/config.yml"):
        texts.append((ROOT / name).read_text(encoding="utf-8"))
    for text in texts:
        addresses = re.findall(r"https://github\.com/[\w.-]+/[\w.-]+", text)
        assert addresses and {*addresses} == {REPOSITORY}
