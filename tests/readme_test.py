"""What the README tells people to type is typed here, in its order."""

import gzip
import json
import re
from pathlib import Path

import pytest

from tests.pages import blocks, run_command

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CORPUS = "in\tO\nPort\tB-location\nCalder\tI-location\n\nHi\tO\n\n"


def write_files(folder: Path) -> None:
    """Write files under the names that the README uses."""
    for part in ("train", "dev"):
        (folder / f"{part}.conll").write_text(CORPUS, encoding="utf-8")
    for name in ("sentences.txt", "other_text.txt", "heldout.txt"):
        (folder / name).write_text("One sentence .\nAnd another .\n", encoding="utf-8")
    with gzip.open(folder / "train-0.txt.gz", "wt", encoding="utf-8") as shard:
        shard.writelines(f"w{number} is the name of w{number + 1} .\n" for number in range(300))


def little_work(command: str) -> str:
    """Make a training run short."""
    if "elmo-plugin train" not in command:
        return command
    return f"{command} -o '{json.dumps({'trainer.num_epochs': 1})}'"


@pytest.mark.slow
def test_its_config_its_commands_and_its_python_run(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, python = (
        next(block.text for block in blocks(ROOT / "README.md") if block.language == language)
        for language in ("jsonnet", "python")
    )
    write_files(checkout)
    (checkout / "tagger.jsonnet").write_text(config, encoding="utf-8")
    indented = [line.strip() for line in README.splitlines() if line.startswith("    ")]
    inline = re.findall(r"`(elmo-plugin train [^`]+)`", README)
    commands = [re.sub(r"\s+#.*", "", line) for line in inline + indented if re.match("elmo-plugin |export ", line)]
    assert len(commands) == 6
    for command in commands:
        run_command(little_work(command))
    exported = {path.name for path in (checkout / "exported").iterdir()}
    assert exported == {"options.json", "weights.hdf5", "vocabulary.txt"}
    assert (checkout / "runs/tagger/model.tar.gz").exists() and (checkout / "vectors.hdf5").exists()

    capsys.readouterr()
    exec(compile(python, "README.md", "exec"), {})
    assert capsys.readouterr().out == "(3, 2, 512) (3, 1, 512)\n"


@pytest.mark.parametrize("path", re.findall(r"\]\(([\w./-]+)\)", README))
def test_the_files_that_it_links_to_exist(path: str) -> None:
    assert (ROOT / path).exists()
