"""Long runs: is memory constant, is the last tenth as fast as the first, and does every input token come out?"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, NamedTuple, Optional

import torch
from allennlp.commands.train import train_model
from allennlp.common.checks import ConfigurationError
from allennlp.data.tokenizers import WhitespaceTokenizer
from allennlp.training.callbacks import TrainerCallback

from benchmarks.bilms import CHANGES, SIZES, TOY, options_of, pretraining_config, write_random_weights
from benchmarks.memory import MIB, ResidentMemory, in_new_process
from benchmarks.table import Table, head
from elmo_plugin.commands.arguments import count
from elmo_plugin.embedding import Corpus, CorpusEmbedder, ParquetFile, load
from elmo_plugin.pretraining.vocabulary import shard_lines
from elmo_plugin.text import find_shards

DESCRIPTION = """
Run each job over many tokens, repeating the text as often as needed, in a process of its own:

  embed     embed-corpus: pooled vectors in 16 bits, as Parquet
  pretrain  elmo-plugin train, with checkpoints and ten evaluations
  words     batches in which no word occurs twice, through the word cache; a token is a word type

and print the memory after the first tenth and at the end, the speed of the first and the last tenth, and the numbers
of tokens that went in and came out. The exit code is 1 if these numbers differ. The biLM has random weights.

  python -m benchmarks.load embed pretrain --tokens 50000000 --text 'shards/*.txt'
"""
SAMPLES = 200
"""The number of samples in a run."""
WORDS_IN_BATCH = 512
EPOCHS = 10
HELDOUT_SENTENCES = 200


def lines_of(pattern: str) -> Iterator[str]:
    """Yield the lines of the files that a pattern matches."""
    return chain.from_iterable(map(shard_lines, find_shards(pattern)))


class Sample(NamedTuple):
    """The state of a run after some tokens: seconds since its start, CPU seconds, and resident bytes."""

    tokens: int
    seconds: float
    processor_seconds: float
    resident: int


class Result(NamedTuple):
    """What a run measured. In pretraining, tokens are counted in finished passes over the text only."""

    tokens_in: int
    tokens_out: int
    samples: list[Sample]
    peak: int

    def cells(self) -> list[str]:
        """Return the cells of a row: the counts, the speed of the first and the last tenth, and memory."""
        total = self.samples[-1].tokens
        _, first, last = (min(self.samples, key=lambda sample: abs(sample.tokens - total * at)) for at in (0, 0.1, 0.9))
        tenths = [(self.samples[0], first), (last, self.samples[-1])]
        return [
            f"{total:,}",
            f"{self.tokens_in:,}",
            f"{self.tokens_out:,}",
            *(f"{_rate(*tenth, 'seconds'):,.0f}" for tenth in tenths),
            *(f"{_rate(*tenth, 'processor_seconds'):,.0f}" for tenth in tenths),
            *(f"{value / MIB:,.0f}" for value in (first.resident, self.samples[-1].resident, self.peak)),
        ]


def _rate(start: Sample, end: Sample, clock: str) -> float:
    return (end.tokens - start.tokens) / (getattr(end, clock) - getattr(start, clock))


class Meter:
    """Takes samples while tokens pass."""

    def __init__(self, total: int) -> None:
        self._every = max(1, total // SAMPLES)
        self._memory = ResidentMemory()
        self._start = perf_counter(), process_time()
        self.tokens = 0
        self.samples: list[Sample] = []
        self._sample()

    def add(self, tokens: int) -> None:
        """Count tokens, and take a sample if one is due."""
        before, self.tokens = self.tokens, self.tokens + tokens
        if before // self._every != self.tokens // self._every:
            self._sample()

    def result(self, tokens_in: int, tokens_out: int) -> Result:
        """Take the last sample, and return the result."""
        self._sample()
        return Result(tokens_in, tokens_out, self.samples, self._memory.peak())

    def _sample(self) -> None:
        seconds, processor_seconds = perf_counter() - self._start[0], process_time() - self._start[1]
        self.samples.append(Sample(self.tokens, seconds, processor_seconds, self._memory.resident()))
        print(*self.samples[-1], sep="\t", file=sys.stderr, flush=True)


def embed(size: str, text: str, tokens: int, folder: Path) -> Result:
    """Embed a text of `tokens` tokens, and count the rows written and their tokens."""
    from pyarrow import compute, parquet

    write_random_weights(options_of(size), folder)
    embedder = CorpusEmbedder(load(folder, "last"), pool=True, half=True)
    meter = Meter(tokens)
    sentences = 0

    def lines() -> Iterator[str]:
        nonlocal sentences
        while True:
            for line in lines_of(text):
                if meter.tokens >= tokens:
                    return
                yield line
                sentences += 1
                meter.add(len(line.split()))

    embedder.embed(Corpus(lines(), WhitespaceTokenizer()), folder / "vectors.parquet", ParquetFile())
    rows = written = 0
    for part in sorted((folder / "vectors.parquet").iterdir()):
        column = parquet.read_table(part, columns=["tokens"])["tokens"]
        rows += len(column)
        written += compute.sum(compute.list_value_length(column)).as_py()
    if rows != sentences:
        raise ValueError(f"expected {sentences:,} rows, got {rows:,}")
    return meter.result(meter.tokens, written)


@TrainerCallback.register("count_tokens")
class CountTokens(TrainerCallback):
    """Counts the tokens of each pass over the text."""

    meter: Meter
    passes: Counter[int]

    def on_batch(self, trainer: Any, batch_inputs: list[Any], *args: Any, is_training: bool = True, **kw: Any) -> None:
        """Count the words of a training batch."""
        for batch in batch_inputs if is_training else []:
            words = int((batch["tokens"]["words"]["tokens"] > 0).sum())
            CountTokens.passes[trainer.data_loader.state_dict()["place"][0]] += words
            CountTokens.meter.add(words)


def pretrain(size: str, text: str, tokens: int, folder: Path) -> Result:
    """Pretrain on about `tokens` tokens, and count the tokens of finished passes, in the files and in batches."""
    heldout = folder / "heldout.txt"
    heldout.write_text("".join(islice(lines_of(text), HELDOUT_SENTENCES)), encoding="utf-8")
    config = pretraining_config(size, text)
    config["validation_data_path"] = str(heldout)
    config["data_loader"]["batches_per_epoch"] = -(-tokens // (EPOCHS * config["data_loader"]["max_tokens"]))
    config["trainer"]["num_epochs"] = EPOCHS
    config["trainer"]["cuda_device"] = -1
    config["trainer"]["learning_rate_scheduler"]["warmup_steps"] = 0
    config["trainer"]["callbacks"] = [{"type": "exact_resume"}, {"type": "count_tokens"}]
    CountTokens.meter, CountTokens.passes = Meter(tokens), Counter()
    train_model(config, str(folder / "run"), return_model=False, file_friendly_logging=True)
    per_pass = sum(len(line.split()) for line in lines_of(text))
    finished = max(CountTokens.passes)
    done = sum(CountTokens.passes[number] for number in range(finished))
    return CountTokens.meter.result(finished * per_pass, done)


def words(size: str, text: str, tokens: int, folder: Path) -> Result:
    """Embed `tokens` words, no two of them the same."""
    write_random_weights(options_of(size), folder)
    embedder = load(folder, "last")
    meter = Meter(tokens)
    vectors = 0
    for start in range(0, tokens, WORDS_IN_BATCH):
        batch = [f"word{number}" for number in range(start, min(start + WORDS_IN_BATCH, tokens))]
        vectors += len(embedder.embed([batch])[0])
        meter.add(len(batch))
    return meter.result(tokens, vectors)


JOBS: dict[str, Callable[[str, str, int, Path], Result]] = {"embed": embed, "pretrain": pretrain, "words": words}
SPEEDS = ["tokens/s", "tokens per CPU second"]
HEADER = [
    *("", "tokens", "in", "out"),
    *(f"{speed}, {tenth} tenth" for speed in SPEEDS for tenth in ("first", "last")),
    *("MiB after the first tenth", "at the end", "peak"),
]
REMARK = "For `pretrain`, *in* and *out* are the tokens of the finished passes: in the files, and in batches."


def main(arguments: Optional[list[str]] = None) -> int:
    """Run the jobs and print a table. Return 1 if a job lost tokens, and 2 if the text does not exist."""
    args = parse(arguments)
    try:
        shards = find_shards(args.text)
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 2
    rows, is_complete = [], True
    for job in args.jobs:
        with TemporaryDirectory(dir=args.folder) as folder:
            result = in_new_process(JOBS[job], args.size, args.text, args.tokens, Path(folder))
        rows.append([job, *result.cells()])
        is_complete &= result.tokens_in == result.tokens_out
    text = f"{len(shards)} files, `{shards[0].name}` first"
    print(*head(args.size, options_of(args.size).lstm, torch.device("cpu"), text, "benchmarks.load"), sep="\n")
    print(*Table("Load", REMARK, HEADER, rows).lines(), sep="\n")
    return int(not is_complete)


def parse(arguments: Optional[list[str]]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.load", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("jobs", nargs="+", choices=JOBS, metavar="JOB", help=f"any of {', '.join(JOBS)}")
    add("--text", required=True, metavar="FILE", help="a path or pattern; one tokenized sentence per line")
    add("--tokens", type=count, default=1_000_000, metavar="N", help="default: 1000000")
    add("--size", default=TOY, choices=[*CHANGES, *SIZES], help="the size of the biLM; default: toy, 64/32")
    add("--folder", type=Path, metavar="FOLDER", help="for temporary files; default: the system's")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    os.environ.setdefault("ALLENNLP_LOG_LEVEL", "WARNING")
    sys.exit(main())
