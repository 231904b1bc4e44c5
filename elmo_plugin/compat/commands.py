"""Repairs of AllenNLP's commands."""

import inspect
import json
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

from allennlp.commands import build_vocab, count_instances, evaluate, push_to_hf
from allennlp.common import Params, util
from allennlp.common.checks import ConfigurationError
from huggingface_hub import HfApi

from elmo_plugin.compat.patching import Function, replace_once


def print_metrics_of_evaluate() -> None:
    """Let `allennlp evaluate` print its metrics, and reject files whose metrics would have the same names.

    Symptom: only the progress bar shows some metrics; for `a/dev.txt,b/dev.txt` the metrics of the first file are lost.
    Cause: AllenNLP 2.9 stopped printing them, and prefixes each metric with the name of its file without the folder.
    Guard: with `--output-file`, nothing is printed, and each input file has its own file of metrics.
    """

    def evaluate_from_archive(
        original: Function,
        archive_file: Any,
        input_file: str,
        metrics_output_file: Optional[str] = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        # Multitask readers take the files as JSON, which gives each one a name.
        paths = [] if input_file.lstrip().startswith(("{", '"')) else input_file.split(",")
        ((name, count),) = Counter(Path(path).stem for path in paths).most_common(1) or [("", 0)]
        if count > 1 and metrics_output_file is None:
            raise ConfigurationError(
                f"'{input_file}': expected files with different names, got '{name}' {count} times; name a file for the "
                "metrics of each one: --output-file ONE,OTHER"
            )
        metrics = original(archive_file, input_file, metrics_output_file, *args, **kwargs)
        if metrics_output_file is None:
            print(json.dumps(metrics, indent=2, default=str))
        return metrics

    replace_once(evaluate, "evaluate_from_archive", evaluate_from_archive)


def use_overrides() -> None:
    """Let `allennlp count-instances` and `allennlp build-vocab` use their `--overrides`.

    Symptom: both ignore the option, and read the data that the config names. Cause: they read the config without it.
    AllenNLP registers these functions before it imports plugins, so they cannot be replaced. Instead, the `Params` that
    they call now reads the option from the variables of its caller.
    Guard: without the option nothing changes.
    """

    def from_file(path: str) -> Params:
        options = sys._getframe(1).f_locals["args"]
        return Params.from_file(path, options.overrides)

    for module in (count_instances, build_vocab):
        module.Params = SimpleNamespace(from_file=from_file)  # type: ignore[attr-defined]


def explain_push_to_hf() -> None:
    """Let `allennlp push-to-hf` name the command that replaces it.

    Symptom: `TypeError: HfApi.create_repo() got an unexpected keyword argument 'name'`. Cause: huggingface_hub renamed
    the argument.
    Guard: with an older huggingface_hub the command runs as before.
    """
    if "name" in inspect.signature(HfApi.create_repo).parameters:
        return

    def push(original: Function, repo_name: str, *args: Any, **kwargs: Any) -> None:
        source = kwargs.get("archive_path") or kwargs.get("serialization_dir") or "FOLDER"
        raise ConfigurationError(
            "'push-to-hf': expected an older huggingface_hub, for which this command was written; upload the run with "
            f"its own command: hf upload USER/{repo_name} {source}"
        )

    replace_once(push_to_hf, "push_to_hf", push)


def include_without_extras() -> None:
    """Let `--include-package elmo_plugin` work if an extra, such as flair or matplotlib, is not installed.

    Symptom: `ModuleNotFoundError` for a package that the run does not need. Cause: AllenNLP imports every module of an
    included package, but `import elmo_plugin` alone registers everything.
    Guard: other packages are imported as before.
    """

    def include(original: Function, package_name: str, *args: Any, **kwargs: Any) -> None:
        if package_name == "elmo_plugin":
            return
        try:
            original(package_name, *args, **kwargs)
        except ModuleNotFoundError as error:
            if not package_name.startswith("elmo_plugin.") or str(error.name).startswith("elmo_plugin"):
                raise

    replace_once(util, "import_module_and_submodules", include)
