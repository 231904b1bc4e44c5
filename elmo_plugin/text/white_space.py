r"""The rule for tokenized text: tokens are separated by ASCII white space, and by nothing else.

ASCII white space is the space, the tab, and `\n \r \f \v`. All other characters belong to tokens, no-break spaces
included, so `" ".join(tokens)` has as many tokens as before if none of them contains ASCII white space. Column files
follow the same rule. `str.split`, and thus bilm-tf and AllenNLP's `just_spaces`, also split at Unicode's other spaces.
"""

import re

WHITE_SPACE = " \t\n\r\f\v"
OTHER_SPACES = re.compile("[\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
"""The characters at which `str.split` splits and this package does not."""
TOKEN = re.compile(f"[^{WHITE_SPACE}]+")


def split_tokens(line: str) -> list[str]:
    """Return the tokens of a line.

    >>> split_tokens("It cost 2\u00a0000 crowns .\\n")
    ['It', 'cost', '2\\xa0000', 'crowns', '.']
    """
    # Nearly all lines have no such character, and `str.split` is several times as fast.
    return TOKEN.findall(line) if OTHER_SPACES.search(line) else line.split()
