"""A training epoch of `training_configs/tag/ud_pos`: AllenNLP's embedder, ours, and ours with a sentence cache."""

import argparse
import json
import os
import random
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Optional

import torch
from allennlp.common import Params
from allennlp.data import DataLoader, DatasetReader, Vocabulary
from allennlp.models import Model
from allennlp.training.optimizers import Optimizer

from benchmarks.agreement import Disagreement, check_loss
from benchmarks.bilms import SIZES, TOY, options_of, write_random_weights
from benchmarks.systems import ALLENNLP, clear, weight_files
from benchmarks.table import ROOT, TIMES, Table, head, time_cells
from benchmarks.timing import Call, interleave
from elmo_plugin.bilm import BiLMOptions
from elmo_plugin.commands.arguments import count
from elmo_plugin.elmo import Elmo, SentenceCache

DESCRIPTION = """
Time a training epoch of training_configs/tag/ud_pos.jsonnet with ELMo at the input of its tagger:

  AllenNLP      AllenNLP's elmo_token_embedder
  ours, cold    our elmo, with an empty word cache and an empty sentence_cache: the first epoch of a first run
  ours, cached  our elmo, with the sentence_cache of the cold epoch: later epochs, and later runs

The biLM has random weights of a published size; all systems read them from the same files. Losses are compared before
anything is timed. The systems take turns, epoch by epoch, on the same batches in the same order; indexing is not timed.
The environment variable UD_EWT names the folder of the corpus (training_configs/README.md).

  python -m benchmarks.epoch --size original --sentences 1000
"""
SEED = 13370
TOLERANCES = {"float32": 1e-5, "float16": 1e-3}
COLD, CACHED = "ours, cold", "ours, cached"


class Epoch(NamedTuple):
    """A tagger, its optimizer and the batches of an epoch."""

    model: Model
    optimizer: torch.optim.Optimizer
    loader: DataLoader
    grad_norm: float

    def run(self) -> None:
        """Train on all batches, in the same order each time."""
        random.seed(SEED)
        self.model.train()
        for batch in self.loader:
            self.optimizer.zero_grad()
            self.model(**batch)["loss"].backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.grad_norm)
            self.optimizer.step()

    @torch.no_grad()
    def loss(self) -> float:
        """Return the loss of the first batch, without dropout."""
        random.seed(SEED)
        clear(self.model)
        return float(self.model.eval()(**next(iter(self.loader)))["loss"])

    def empty_caches(self) -> None:
        """Delete the sentence cache and clear the word cache of our biLM."""
        (elmo,) = (module for module in self.model.modules() if isinstance(module, Elmo))
        assert elmo.sentence_cache is not None
        path, precision = elmo.sentence_cache.path, elmo.sentence_cache.precision
        shutil.rmtree(path, ignore_errors=True)
        elmo.sentence_cache = SentenceCache(str(path), precision)
        clear(elmo)


def main(arguments: Optional[list[str]] = None) -> int:
    """Measure and print. Return 1 if the losses differ."""
    args = parse(arguments)
    try:
        with TemporaryDirectory(dir=args.folder) as folder:
            options = options_of(args.size)
            write_random_weights(options, Path(folder))
            table = measure(args, options, Path(folder))
    except Disagreement as error:
        print(f"The losses differ, so nothing is timed. {error}", file=sys.stderr)
        return 1
    print(*head(args.size, options.lstm, torch.device(args.device), "UD English-EWT", "benchmarks.epoch"), sep="\n")
    print(*table.lines(), sep="\n")
    return 0


def parse(arguments: Optional[list[str]]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.epoch",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--size", choices=[*SIZES, TOY], default="small", help="the size of the biLM; default: small, 1024/128")
    add("--sentences", type=count, default=1000, metavar="N", help="use the first N sentences; default: 1000")
    add("--rounds", type=count, default=3, metavar="N", help="epochs per system; default: 3")
    add("--device", default="cpu", choices=["cpu", "cuda"], help="default: cpu")
    add("--precision", default="float32", choices=TOLERANCES, help="of the sentence cache; default: float32")
    add("--folder", type=Path, metavar="FOLDER", help="for temporary files; default: the system's")
    return parser.parse_args(arguments)


def measure(args: argparse.Namespace, options: BiLMOptions, folder: Path) -> Table:
    """Build the taggers, compare their losses, and time them."""
    files, cache = weight_files(folder), {"path": str(folder / "cache"), "precision": args.precision}
    theirs = build({"type": "elmo_token_embedder", **files}, args, options, folder)
    ours = build({"type": "elmo", **files, "sentence_cache": cache}, args, options, folder)
    shared = {name: value for name, value in theirs.model.state_dict().items() if "elmo" not in name}
    ours.model.load_state_dict(shared, strict=False)
    expected = theirs.loss()
    # The first loss fills the sentence cache, the second one reads it.
    differences = {name: check_loss(name, ours.loss(), expected, TOLERANCES[args.precision]) for name in (COLD, CACHED)}
    calls = [Call(ALLENNLP.name, theirs.run), Call(COLD, ours.run, ours.empty_caches), Call(CACHED, ours.run)]
    times = interleave(calls, args.rounds, torch.device(args.device), warm_up=False)
    instances = list(ours.loader.iter_instances())
    tokens = sum(len(instance["tokens"]) for instance in instances)
    megabytes = (folder / "cache" / "layers.sqlite").stat().st_size / 1e6
    return Table(
        "A training epoch of `tag/ud_pos`, ELMo at the input",
        f"The first {len(instances)} sentences of its training data, {tokens:,} tokens; sentence cache of "
        f"{megabytes:,.0f} MB in {args.precision}; {args.rounds} epochs per system.",
        ["", *TIMES, "relative difference of the loss"],
        [
            [name, *time_cells(each, times[ALLENNLP.name]), f"{differences[name]:.1e}" if name in differences else ""]
            for name, each in times.items()
        ],
    )


def build(embedder: dict[str, Any], args: argparse.Namespace, options: BiLMOptions, folder: Path) -> Epoch:
    """Build the training run of `tag/ud_pos` with this token embedder, and index its data."""
    params = config(embedder, args.sentences, options, folder)
    reader = DatasetReader.from_params(params["dataset_reader"])
    loader = DataLoader.from_params(params["data_loader"], reader=reader, data_path=params["train_data_path"])
    vocab = Vocabulary.from_instances(loader.iter_instances())
    loader.index_with(vocab)
    loader.set_target_device(torch.device(args.device))
    model = Model.from_params(params["model"], vocab=vocab).to(args.device)
    trainable = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    optimizer = Optimizer.from_params(params["trainer"]["optimizer"], model_parameters=trainable)
    for _ in loader:  # index all instances
        pass
    return Epoch(model, optimizer, loader, params["trainer"]["grad_norm"])


def config(embedder: dict[str, Any], sentences: int, options: BiLMOptions, folder: Path) -> Params:
    """Return the config of `tag/ud_pos` with this token embedder instead of its own ELMo, so that models are equal."""
    path = folder / f"{embedder['type']}.jsonnet"
    path.write_text(f"""\
(import {json.dumps(str(ROOT / "training_configs/tag/ud_pos.jsonnet"))}) {{
  bilm:: {{ keys: {{}}, layer_dim: {options.layer_dim} }},
  elmo_at:: ['input'],
  dataset_reader+: {{ max_instances: {sentences} }},
  model+: {{
    elmo: null,
    elmo_indexer: 'none',  // the tagger would reserve the indexer `elmo` for an ELMo of its own
    text_field_embedder+: {{ token_embedders+: {{ elmo: {json.dumps(embedder)} }} }},
  }},
}}
""")
    return Params.from_file(path)


if __name__ == "__main__":
    os.environ.setdefault("ALLENNLP_LOG_LEVEL", "WARNING")
    sys.exit(main())
