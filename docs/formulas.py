"""A MkDocs hook that writes formulas as MathML, which browsers show without JavaScript and without a network."""

import html
import re
from typing import Any

from math_core import LatexToMathML

FORMULA = re.compile(r'<(?P<tag>div|span) class="arithmatex">\\[\[(](?P<latex>.*?)\\[\])]</(?P=tag)>', re.S)
MATHML = LatexToMathML()


def on_page_content(content: str, **_: Any) -> str:
    """Replace the formulas of a page, which `pymdownx.arithmatex` has marked. A wrong one ends the build."""

    def mathml(formula: re.Match[str]) -> str:
        in_text = formula["tag"] == "span"
        written = MATHML.convert_with_local_state(html.unescape(formula["latex"]), displaystyle=not in_text)
        return written if in_text else f'<div class="formula">{written}</div>'

    return FORMULA.sub(mathml, content)
