"""Pages of documentation as programs: their files are written, their Python and their commands are run, in order."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Optional

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)(?P<rest>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S)
INCLUDE = re.compile(r"^--8<--\n(.+)\n--8<--\n", re.M)


class Block(NamedTuple):
    """A fenced block: its language, the name of the file that it is, if any, its text, line and offsets in the page."""

    language: str
    title: Optional[str]
    text: str
    line: int
    span: tuple[int, int]


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page in their order, with the files that they include."""
    content = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(content):
        title = re.search(r'title="([^"]+)"', match["rest"])
        text = re.sub(rf"^{match['indent']}", "", match["text"], flags=re.M)
        text = INCLUDE.sub(lambda include: (ROOT / include[1]).read_text(encoding="utf-8"), text)
        line = content.count("\n", 0, match.start()) + 1
        yield Block(match["language"], title and title[1], text, line, match.span())


class Page:
    """Runs a page's blocks in the current folder, as a reader would in one shell and one Python session.

    A training ends after its first epoch, which runs the code of all, unless it is to be run to the end.
    """

    def __init__(self, path: Path, to_the_end: bool = False) -> None:
        self.path = path
        self.to_the_end = to_the_end
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.n_run = 0

    def run(self) -> None:
        """Run all blocks; an exception carries a note with the page and the line of its block."""
        for block in blocks(self.path):
            try:
                self._run(block)
            except (Exception, SystemExit) as error:
                error.add_note(f"{self.path}, line {block.line}")
                raise

    def _run(self, block: Block) -> None:
        if block.title:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            exec(compile(block.text, f"{self.path.name}:{block.line}", "exec"), self.namespace)
        elif block.language == "sh":
            for command in block.text.replace("\\\n", " ").splitlines():
                run_command(command, self.to_the_end)
        else:
            return
        self.n_run += 1


def run_command(command: str, to_the_end: bool = False) -> None:
    """Run one line of a shell: `elmo-plugin` in this process, `export` for those that follow, anything else by bash.

    A loop runs its line for each value.
    """
    loop = re.fullmatch(r"for (\w+) in ([^;]+); do (.+); done", command)
    if loop:
        for value in loop[2].split():
            run_command(loop[3].replace(f"${loop[1]}", value), to_the_end)
        return
    words = shlex.split(command, comments=True)
    assigned = [word.split("=", 1) for word in _assignments(words)]
    if words[:1] == ["export"]:
        os.environ.update(word.split("=", 1) for word in words[1:])
    elif words[len(assigned) :][:1] == ["elmo-plugin"]:
        os.environ.update({name: value for name, value in assigned})
        from allennlp.commands import main  # `installed.py` uses this module without AllenNLP

        before, sys.argv = sys.argv, words[len(assigned) :]
        if sys.argv[1:2] == ["train"] and not to_the_end:
            overrides = json.loads(sys.argv[sys.argv.index("-o") + 1]) if "-o" in sys.argv else {}
            sys.argv += ["-o", json.dumps({"trainer.num_epochs": 1, **overrides})]  # the last one counts
        try:
            main(prog="elmo-plugin")
        except SystemExit as error:  # `--help` ends so
            if error.code:
                raise
        finally:
            sys.argv = before
    elif words:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        subprocess.run(["bash", "-ec", command], check=True, env={**os.environ, "PATH": path})


def _assignments(words: list[str]) -> Iterator[str]:
    for word in words:
        if not re.match(r"\w+=", word):
            return
        yield word
