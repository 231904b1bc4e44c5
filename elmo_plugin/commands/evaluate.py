"""The command `evaluate` for models of this package: it takes any biLM with a softmax, and prints the metrics."""

import inspect
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

from allennlp.common.checks import ConfigurationError
from allennlp.common.params import parse_overrides, with_overrides

from elmo_plugin import checkpoints, embedding, pretraining, text
from elmo_plugin.common import names_our_components
from elmo_plugin.compat import replaces

OF_ARCHIVES = ("cmd_overrides", "weights_file", "predictions_output_file", "extend_vocab", "batch_size")
"""Arguments of `evaluate_from_archive` that need a model archive."""


@replaces("allennlp.commands.evaluate.evaluate_from_archive")
def evaluate_from_archive(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Evaluate, and print the metrics. Archives of models without components of this package are not changed."""
    given = inspect.signature(original).bind(*args, **kwargs).arguments
    source, data, output = str(given["archive_file"]), given["input_file"], given.get("metrics_output_file")
    if unfinished := checkpoints.unfinished_run(source):
        raise ConfigurationError(unfinished)
    if (source in checkpoints.bundled_names() and not Path(source).exists()) or Path(source).suffix == ".safetensors":
        if others := [key for key in OF_ARCHIVES if given.get(key)]:
            raise ConfigurationError(f"'{source}': expected a model archive for {', '.join(others)}, got a biLM")
        metrics = pretraining.evaluate_language_model(source, data, embedding.find_device(given.get("cuda_device", -1)))
        if output:
            Path(output).write_text(json.dumps(metrics, indent=2), encoding="utf-8")
    else:
        config = _config_at(Path(source))
        if not names_our_components(config):
            return original(*args, **kwargs)
        overrides = given.get("cmd_overrides") or {}
        config = with_overrides(config, parse_overrides(overrides) if isinstance(overrides, str) else overrides)
        if config["model"].get("type") == "bilm" and not given.get("batch_weight_key"):
            given["batch_weight_key"] = "n_tokens"  # AllenNLP's mean is of batches; this is that of the perplexity
        metrics = original(**given)
        key = "validation_dataset_reader" if config.get("validation_dataset_reader") else "dataset_reader"
        if most := config[key].get("max_instances"):
            print(
                f"note: only the first {most:,} instances of {data} are evaluated ('{key}.max_instances' of the run); "
                f"""-o '{{"{key}.max_instances": null}}' evaluates all""",
                file=sys.stderr,
            )
    if (unknown := metrics.get("oov_rate", 0)) > 1 / 3:
        print(
            f"warning: {unknown:.0%} of the tokens are not in the vocabulary: is {data} tokenized, and in the language "
            "of the biLM? `elmo-plugin prepare-text` tokenizes raw text",
            file=sys.stderr,
        )
    elif "oov_rate" in metrics:
        first = text.find_shards(data)[0]
        text.look_at(text.TextFile(first).lines(), str(first), text.TOKENIZED)
    if output is None:  # AllenNLP only logs them
        print(json.dumps(metrics, indent=2, default=str))
    return metrics


def _config_at(path: Path) -> Any:
    """Return the config of a run or a model archive; `None` if there is none that can be read."""
    try:
        if path.name.endswith(".tar.gz"):
            with tarfile.open(path) as archive:
                first = archive.next()  # AllenNLP puts the config first
                content = archive.extractfile(first) if first is not None and first.name == "config.json" else None
                return None if content is None else json.load(content)
        return json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, tarfile.TarError):  # the command itself reports what is wrong
        return None
