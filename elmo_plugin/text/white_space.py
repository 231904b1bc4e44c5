r"""The rule for tokenized text: tokens are separated by ASCII white space, and by nothing else.

ASCII white space is the space, the tab, and `\n \r \f \v`. All other characters belong to tokens, no-break spaces
included, so `" ".join(tokens)` has as many tokens as before if none of them contains ASCII white space. Column files
follow the same rule. `str.split`, and thus bilm-tf and AllenNLP's `just_spaces`, also split at Unicode's other spaces.
"""

import logging
import re

WHITE_SPACE = " \t\n\r\f\v"
OTHER_SPACES = re.compile("[\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
"""The characters at which `str.split` splits and this package does not."""
TOKEN = re.compile(f"[^{WHITE_SPACE}]+")

logger = logging.getLogger(__name__)


def split_tokens(line: str) -> list[str]:
    """Return the tokens of a line. Warn about the first line of which `str.split` makes another number of tokens.

    >>> split_tokens("It cost 2\u00a0000 crowns .\\n")
    ['It', 'cost', '2\\xa0000', 'crowns', '.']
    """
    if not OTHER_SPACES.search(line):  # nearly all lines; `str.split` is several times as fast
        return line.split()
    tokens = TOKEN.findall(line)
    if len(tokens) != len(line.split()):
        logger.warning_once(  # type: ignore[attr-defined]
            "%r is one token: only ASCII white space separates tokens here. Python's str.split, bilm-tf and AllenNLP's "
            "just_spaces would split it. This is said only once; other tokens may contain such spaces too",
            next(token for token in tokens if OTHER_SPACES.search(token))[:100],
        )
    return tokens
