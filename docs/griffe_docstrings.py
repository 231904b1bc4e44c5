"""A griffe extension that turns docstrings in AllenNLP's style into NumPy's, which mkdocstrings reads."""

import re
from typing import Any

import griffe

PARAMETER = re.compile(r"[\w*, ]+( : .*)?\n    ")
"""The beginning of a paragraph that describes parameters: names, perhaps their type, then an indented line."""


class AllenNlpDocstrings(griffe.Extension):
    """Rewrite `# Parameters` as a NumPy section, and show examples as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite one docstring. griffe calls it for each object."""
        if obj.docstring is not None:
            obj.docstring.value = numpy_style(obj.docstring.value)


def numpy_style(docstring: str) -> str:
    """Return a docstring with its parameters last, as a NumPy section: what follows a section would be part of it."""
    before, _, section = docstring.partition("# Parameters\n")
    paragraphs = section.strip("\n").split("\n\n") if section else []
    parameters = [paragraph for paragraph in paragraphs if PARAMETER.match(paragraph)]
    others = [paragraph for paragraph in paragraphs if paragraph and not PARAMETER.match(paragraph)]
    text = fence_examples("\n\n".join([before.strip(), *others]))
    return text + ("\n\nParameters\n----------\n" + "\n".join(parameters) if parameters else "")


def fence_examples(docstring: str) -> str:
    """Put each paragraph that begins with `>>>` into a fenced block."""
    paragraphs = docstring.split("\n\n")
    return "\n\n".join(
        f"```pycon\n{paragraph}\n```" if paragraph.lstrip().startswith(">>>") else paragraph for paragraph in paragraphs
    )
