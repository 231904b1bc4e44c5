"""What must be repaired while AllenNLP is imported, so this module imports nothing of AllenNLP.

`elmo_plugin_startup.py` runs it by its path, before this package is imported.
"""

import pkgutil
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import huggingface_hub
import torch
import transformers


class AdamW(torch.optim.AdamW):
    """`transformers.AdamW` as it was before transformers 4.50, for the optimizer `huggingface_adamw`.

    It decays weights before the update, not after it, which changes a weight by a factor of 1 − lr · weight decay.
    """

    def __init__(self, *args: Any, correct_bias: bool = True, **kwargs: Any) -> None:
        if not correct_bias:
            raise ValueError("'correct_bias': expected true, because transformers has no AdamW since 4.50, got false")
        super().__init__(*args, **kwargs)


def encode_plus(tokenizer: Any, text: Any, text_pair: Any = None, **options: Any) -> Any:
    """Tokenize a text or a pair of texts."""
    return tokenizer(text, text_pair, **options)


def build_inputs_with_special_tokens(tokenizer: Any, ids: Sequence[int]) -> list[int]:
    """Put around the ids of a sequence the special tokens that the tokenizer puts around the text "a"."""
    bare, marked = (tokenizer("a", add_special_tokens=add)["input_ids"] for add in (False, True))
    start = next(i for i in range(len(marked)) if marked[i : i + len(bare)] == bare)
    return [*marked[:start], *ids, *marked[start + len(bare) :]]


def restore_removed_names() -> None:
    """Let AllenNLP be imported, tokenize for transformers, and optimize by `huggingface_adamw`.

    Symptom: `ImportError: cannot import name 'HfFolder'`, `AttributeError: module transformers has no attribute AdamW`,
    `BertTokenizer has no attribute encode_plus` and `… build_inputs_with_special_tokens`.
    Cause: huggingface-hub 1 has neither `HfFolder` nor `Repository`, transformers 4.50 has no `AdamW`, and the
    tokenizers of transformers 5 are called instead.
    Guard: a name that exists is left alone. `push-to-hf` needs the first two and does not work without them.
    """
    base, fast = transformers.PreTrainedTokenizerBase, transformers.PreTrainedTokenizerFast
    restored: list[tuple[Any, Any, str, Any]] = [
        (huggingface_hub, huggingface_hub, "HfFolder", None),
        (huggingface_hub, huggingface_hub, "Repository", None),
        (transformers, type(transformers), "AdamW", AdamW),  # a lazy module loses what is set on itself
        (fast, base, "encode_plus", encode_plus),
        (fast, base, "build_inputs_with_special_tokens", build_inputs_with_special_tokens),
    ]
    for place, owner, name, value in restored:
        if not hasattr(place, name):
            setattr(owner, name, value)


def import_by_full_names(util: Any) -> None:
    """Let `--include-package`, and the import of all of AllenNLP, import the modules of a package by their full names.

    Symptom: a file `training.py` or `data.py`, or a folder `models`, in the working folder is run whenever a command
    starts. Cause: `import_module_and_submodules` looks for the modules of a package with `walk_packages`, without a
    prefix, which imports each package that it finds as if it were at the top level. Now they are listed without that.
    Symptom: `ModuleNotFoundError` for an extra of this package, such as flair, that the run does not need. Cause: each
    module of an included package is imported; `import elmo_plugin` alone registers all that this package has.
    Guard: the same modules as before are imported, in the same order.

    # Parameters

    util : `Any`
        The module `allennlp.common.util`.
    """
    ours = str(Path(__file__).parents[1])

    def modules_of(path: Sequence[str]) -> Any:
        return () if any(folder.startswith(ours) for folder in path) else pkgutil.iter_modules(path)

    util.pkgutil = types.SimpleNamespace(walk_packages=modules_of)
