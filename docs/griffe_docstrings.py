"""A griffe extension that turns docstrings in AllenNLP's style into NumPy's, which mkdocstrings reads."""

import re
import textwrap
from typing import Any

import griffe

PARAMETER = re.compile(r"([\w*]+(?:, [\w*]+)*)(?: : (.+))?")
"""The line that begins a parameter: names, then perhaps their type in backticks, or what they are."""
TYPE = re.compile(r"`(?:[A-Z]|(?:bool|dict|float|int|list|str|tuple)\b)")
"""The beginning of a type. Other words in backticks, such as `last`, begin a description."""


class AllenNlpDocstrings(griffe.Extension):
    """Rewrite `# Parameters` as a NumPy section, and show examples as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite one docstring. griffe calls it for each object."""
        if obj.docstring is not None:
            obj.docstring.value = numpy_style(obj.docstring.value)


def numpy_style(docstring: str) -> str:
    """Return a docstring with its parameters last, as a NumPy section: what follows a section would be part of it."""
    before, _, section = docstring.partition("# Parameters\n")
    parameters, others = [], []
    for paragraph in section.strip("\n").split("\n\n"):
        first, *rest = paragraph.splitlines() or [""]
        names = PARAMETER.fullmatch(first)
        if names and (names[2] or any(line.startswith("    ") for line in rest[:1])):
            parameters += [_parameter(line) for line in paragraph.splitlines()]
        else:
            others.append(paragraph)
    text = fence_examples("\n\n".join([before.strip(), *others]).strip())
    return text + ("\n\nParameters\n----------\n" + "\n".join(parameters) if parameters else "")


def _parameter(line: str) -> str:
    names = PARAMETER.fullmatch(line)
    if names and names[2] and not TYPE.match(names[2]):
        return f"{names[1]}\n    {names[2]}"
    return line.replace("`", "") if names else line


def fence_examples(docstring: str) -> str:
    """Put each paragraph that begins with `>>>` into a fenced block."""
    paragraphs = docstring.split("\n\n")
    return "\n\n".join(
        f"```pycon\n{textwrap.dedent(paragraph)}\n```" if paragraph.lstrip().startswith(">>>") else paragraph
        for paragraph in paragraphs
    )
