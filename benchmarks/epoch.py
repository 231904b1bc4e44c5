"""One training epoch of `training_configs/tag/ud_pos`: AllenNLP's embedder, ours, and ours with a sentence cache."""

import argparse
import json
import os
import platform
import random
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Optional

import torch
from allennlp.common import Params
from allennlp.data import DataLoader, DatasetReader, Vocabulary
from allennlp.models import Model
from allennlp.modules.token_embedders import ElmoTokenEmbedder as AllenNlpEmbedder
from allennlp.training.optimizers import Optimizer

from benchmarks.agreement import Disagreement, check_scalar
from benchmarks.contestants import forget_words, pair
from benchmarks.sizes import SIZES, options_of
from benchmarks.table import ROOT, Table, commit, instructions, processor, time_cells
from benchmarks.timing import Call, interleave
from benchmarks.weights import write_random_weights
from elmo_plugin.elmo import Elmo, SentenceCache
from elmo_plugin.options import BiLMOptions

DESCRIPTION = """
Time one training epoch of training_configs/tag/ud_pos.jsonnet, ELMo at the input of its tagger, all else being equal:

  AllenNLP      its own elmo_token_embedder
  ours, cold    elmo with a sentence_cache that is empty, and no word met before: the first epoch of a run
  ours, cached  the same with the cache that this left: every later epoch, and every later run

The biLM has random weights of a published size, which all read from the same files. Losses are compared before
anything is timed. The contestants then take turns, epoch by epoch, on the same batches in the same order; indexing is
done before. The environment variable UD_EWT says where the corpus lies (training_configs/README.md).

  python -m benchmarks.epoch --size original --sentences 1000
"""
SEED = 13370
TOLERANCE = 1e-5
ALLENNLP, COLD, CACHED = "AllenNLP", "ours, cold", "ours, cached"


class Epoch(NamedTuple):
    """A tagger, its optimiser, and the batches of an epoch."""

    model: Model
    optimizer: torch.optim.Optimizer
    loader: DataLoader
    grad_norm: float

    def run(self) -> None:
        """Forward, backward, update, over all batches, the same each time."""
        random.seed(SEED)
        self.model.train()
        for batch in self.loader:
            self.optimizer.zero_grad()
            self.model(**batch)["loss"].backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.grad_norm)
            self.optimizer.step()

    @torch.no_grad()
    def loss(self) -> float:
        """Of the first batch, without dropout."""
        random.seed(SEED)
        for module in self.model.modules():
            if isinstance(module, AllenNlpEmbedder):
                module._elmo._elmo_lstm._elmo_lstm.reset_states()
        return float(self.model.eval()(**next(iter(self.loader)))["loss"])

    def begin_cold(self) -> None:
        """Empty the cache, and forget the words that our biLM has met."""
        (elmo,) = (module for module in self.model.modules() if isinstance(module, Elmo))
        assert elmo.sentence_cache is not None
        path, precision = elmo.sentence_cache.path, elmo.sentence_cache.precision
        shutil.rmtree(path, ignore_errors=True)
        elmo.sentence_cache = SentenceCache(str(path), precision)
        elmo.sentence_cache.open_for(elmo.bilm, elmo.initial_state)
        forget_words(elmo.bilm)


def main(arguments: Optional[list[str]] = None) -> int:
    """Measure and print; 1 if answers differ."""
    args = parse(arguments)
    try:
        with TemporaryDirectory(dir=args.folder) as folder:
            options = options_of(args.size)
            write_random_weights(options, Path(folder))
            print(*head(args), *measure(args, options, Path(folder)).lines(), sep="\n")
    except Disagreement as error:
        print(f"The answers differ, so nothing is timed. {error}", file=sys.stderr)
        return 1
    return 0


def parse(arguments: Optional[list[str]]) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.epoch",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--size", choices=SIZES, default="small", help="of the biLM; default: small, 1024/128")
    add("--sentences", type=int, default=1000, metavar="N", help="of the corpus, from its start; default: 1000")
    add("--rounds", type=int, default=3, metavar="N", help="epochs of each contestant; default: 3")
    add("--device", default="cpu", choices=["cpu", "cuda"], help="default: cpu")
    add("--precision", default="float32", choices=["float32", "float16"], help="of the cache; default: float32")
    add("--folder", type=Path, metavar="FOLDER", help="where weights and cache lie meanwhile; default: the system's")
    return parser.parse_args(arguments)


def head(args: argparse.Namespace) -> Iterator[str]:
    """The machine, the versions, the command."""
    yield f"- {processor(torch.device(args.device))}; {torch.get_num_threads()} threads of torch; {instructions()}"
    yield f"- Python {platform.python_version()}, torch {torch.__version__}, AllenNLP {version('allennlp')}"
    yield f"- commit {commit()}"
    yield f"- `python -m benchmarks.epoch --size {args.size} --sentences {args.sentences} --rounds {args.rounds} " + (
        f"--device {args.device} --precision {args.precision}`\n"
    )


def measure(args: argparse.Namespace, options: BiLMOptions, folder: Path) -> Table:
    """Build, compare, time."""
    options_file, weight_file = pair(folder)
    files = {"options_file": options_file, "weight_file": weight_file}
    cache = {"path": str(folder / "cache"), "precision": args.precision}
    theirs = epoch(config({"type": "elmo_token_embedder", **files}, args, options, folder), args.device)
    ours = epoch(config({"type": "elmo", **files, "sentence_cache": cache}, args, options, folder), args.device)
    differences = compare(theirs, ours, 1e-3 if args.precision == "float16" else TOLERANCE)
    timed = interleave(
        [Call(ALLENNLP, theirs.run), Call(COLD, ours.run, ours.begin_cold), Call(CACHED, ours.run)],
        args.rounds,
        torch.device(args.device),
        warm_up=False,
    )
    instances = list(ours.loader.iter_instances())
    tokens = sum(len(instance["tokens"]) for instance in instances)  # type: ignore[arg-type]
    megabytes = (folder / "cache" / "data.mdb").stat().st_size / 1e6
    return Table(
        "A training epoch of `tag/ud_pos`, ELMo at the input",
        f"The first {len(instances)} sentences of its training data, {tokens:,} tokens; biLM of size {args.size} "
        f"({options.lstm.cell_dim}/{options.lstm.projection_dim}), cache of {megabytes:,.0f} MB in {args.precision}; "
        f"{args.rounds} epochs of each contestant.",
        ["", "median", "min–max", "× AllenNLP", "relative difference of the loss"],
        [
            [name, *time_cells(times, timed[ALLENNLP]), f"{differences[name]:.1e}" if name in differences else ""]
            for name, times in timed.items()
        ],
    )


def compare(theirs: Epoch, ours: Epoch, tolerance: float) -> dict[str, float]:
    """Give ours their task's weights, and check that the losses are the same; raises `Disagreement`."""
    shared = {name: value for name, value in theirs.model.state_dict().items() if "elmo" not in name}
    ours.model.load_state_dict(shared, strict=False)
    wanted = theirs.loss()
    return {name: check_scalar(name, ours.loss(), wanted, tolerance) for name in (COLD, CACHED)}


def epoch(params: Params, device: str) -> Epoch:
    """The training run that a config describes, ready to begin, everything indexed."""
    reader = DatasetReader.from_params(params["dataset_reader"])
    loader = DataLoader.from_params(params["data_loader"], reader=reader, data_path=params["train_data_path"])
    vocab = Vocabulary.from_instances(loader.iter_instances())
    loader.index_with(vocab)
    loader.set_target_device(torch.device(device))
    model = Model.from_params(params["model"], vocab=vocab).to(device)
    learning = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    optimizer = Optimizer.from_params(params["trainer"]["optimizer"], model_parameters=learning)
    for _ in loader:
        pass
    return Epoch(model, optimizer, loader, params["trainer"]["grad_norm"])


def config(embedder: dict[str, Any], args: argparse.Namespace, options: BiLMOptions, folder: Path) -> Params:
    """The config of `tag/ud_pos` with this token embedder beside its own, so that both contestants have one model."""
    path = folder / f"{embedder['type']}.jsonnet"
    path.write_text(f"""\
(import {json.dumps(str(ROOT / "training_configs/tag/ud_pos.jsonnet"))}) {{
  bilm:: {{ keys: {{}}, layer_dim: {options.layer_dim} }},
  elmo_at:: ['input'],
  dataset_reader+: {{ max_instances: {args.sentences} }},
  model+: {{
    elmo: null,
    elmo_indexer: 'none',  // the tagger's own ELMo has none, and the embedder's reads what is called elmo
    text_field_embedder+: {{ token_embedders+: {{ elmo: {json.dumps(embedder)} }} }},
  }},
}}
""")
    return Params.from_file(path)


if __name__ == "__main__":
    os.environ.setdefault("ALLENNLP_LOG_LEVEL", "WARNING")
    sys.exit(main())
