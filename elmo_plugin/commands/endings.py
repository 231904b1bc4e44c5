"""How a command ends: results go to standard output; what was written and what to do next go to standard error."""

import functools
import json
import shlex
import sys
from pathlib import Path
from typing import Any

from allennlp.commands import train
from tqdm import tqdm

from elmo_plugin.commands.arguments import refuse_folder


def say_written(path: Path, what: str, then: str) -> None:
    """Say what the file or folder `path` holds and how large it is, and name the next command."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    size = tqdm.format_sizeof(sum(file.stat().st_size for file in files), "B")
    print(f"{path}: {what}; {size}\nnext: {then}", file=sys.stderr)


def print_page(page: str, name: str) -> None:
    """Print a page. On a terminal, also say how to save it as the file `name`."""
    print(page, end="", flush=True)
    if sys.stdout.isatty():
        print(f"next: allennlp {shlex.join(sys.argv[1:])} > {name}    # saves this page", file=sys.stderr)


def say_trained(folder: Path) -> None:
    """Print the best metrics of a finished run, what it wrote, and how to use it."""
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    kinds = ("best_", "test_") if "best_validation_loss" in metrics else ("training_", "test_")
    shown = {name: value for name, value in metrics.items() if name.startswith(kinds)}
    print(json.dumps(shown, indent=2), flush=True)
    archive = folder / "model.tar.gz"
    name = shlex.quote(str(archive))
    then = f"allennlp evaluate {name} FILE"
    model = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model"].get("type")
    if model in ("elmo_tagger", "elmo_classifier"):
        then = f"""echo '{{"sentence": "One sentence."}}' | allennlp predict {name} -"""
    say_written(archive, "the trained model", then)


def end_training() -> None:
    """Let `allennlp train` print its best metrics and what it wrote at the end; AllenNLP only logs them."""
    original = train.train_model_from_file

    @functools.wraps(original)
    def train_model_from_file(*args: Any, **kwargs: Any) -> Any:
        refuse_folder(kwargs["parameter_filename"])
        model = original(*args, **kwargs)
        if not kwargs["dry_run"]:
            say_trained(Path(kwargs["serialization_dir"]))
        return model

    train.train_model_from_file = train_model_from_file
