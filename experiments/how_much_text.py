"""Measure how much text a language needs: a biLM, fastText and a 5-gram of N words of it, and taggers with each."""

import argparse
import json
import os
import random
import re
import shlex
import subprocess
import sys
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, product
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import mean, stdev
from typing import Any, NamedTuple, Optional
from unittest.mock import patch

import elmo_plugin
from benchmarks.table import Table
from elmo_plugin.checkpoints import load_sizes
from elmo_plugin.common import atomic_folder
from elmo_plugin.text import HELDOUT, TextFile, find_shards
from experiments.grid import train
from experiments.run import CONFIGS, Run
from experiments.word_vectors import write_vectors

ROOT = CONFIGS.parent
RESULTS = ROOT / "experiments/results/how_much_text"
FASTTEXT = {"fasttext": (5, 300), "fasttext_50": (50, 100), "fasttext_long": (None, 300)}
"""The passes over the text, and the numbers of a vector. `None`: as many passes as take as long as the biLM.

5 passes and 100 numbers are gensim's defaults; published vectors have 300.
"""
SYSTEMS = {
    "none": "without_elmo",
    "random": "your_bilm",
    **dict.fromkeys(FASTTEXT, "word_vectors"),
    "elmo": "your_bilm",
    "both": "your_bilm_and_vectors",
}
"""What a tagger reads beside its words and characters, and the variant of training_configs for it."""
NAMES = {
    "no ELMo": ["none"],
    "random ELMo": ["random"],
    "fastText": [*FASTTEXT],
    "ELMo": ["elmo"],
    "ELMo + fastText": ["both"],
}
"""What the plot shows, each the best of these systems."""
MEASURED = ["forward_perplexity", "backward_perplexity", "oov_rate"]
"""What pretraining measures on the held-out text."""
TRAIN = ["--file-friendly-logging", "-o", '{"trainer.cuda_device": -1}']
"""Further arguments of `elmo-plugin train` for a biLM."""
Row = dict[str, Any]
DESCRIPTION = """
Measure how much text a language needs. N words of it train

- a biLM, by a config of training_configs/pretrain, and with --kenlm a 5-gram of the same vocabulary;
- with --packages, a folder with gensim, fastText: vectors of 300 numbers by 5 passes over the text (fasttext), of 100
  numbers by 50 passes (fasttext_50), and of 300 by as many passes as take as long as the biLM (fasttext_long);
- taggers of parts of speech and of all features as one tag, on shares of a treebank: without ELMo (none), with a random
  biLM, with each fastText, with ELMo, and with ELMo and fasttext_50 (both).

Nothing is written for a language; LANGUAGE is its code. TREEBANK has train.conllu and dev.conllu, and perhaps
test.conllu, on which the best epoch of each tagger is then scored, too:

  uv pip install --no-deps --target packages gensim==4.4.0
  python -m experiments.how_much_text runs eu --text eu.txt --treebank treebanks/eu --words 100000 all \\
      --packages packages --kenlm kenlm/build/bin

Each result becomes a line of JSON in LANGUAGE.jsonl at once, and what stands there is left out, even if RUNS is gone:
the same command goes on another day, and on another machine. The training of a biLM that was killed goes on, too.

`prepare-text` writes RUNS/LANGUAGE/text and holds every twentieth block of sentences out. If that folder is there, it
is taken as it is, for example with other authors held out. N words are drawn from it by sentences; punctuation is no
word. A smaller draw is part of a larger one. A pretraining config that starts from another biLM has it in ELMO_BILM.

Print the tables of all languages, and draw them:
  python -m experiments.how_much_text --table --plot docs/images/how_much_text.svg
"""


class Results(NamedTuple):
    """The results of a language: a file with a JSON object per line."""

    file: Path

    def rows(self) -> list[Row]:
        """Return the results so far."""
        return [json.loads(line) for line in self.file.open(encoding="utf-8")] if self.file.exists() else []

    def find(self, key: Row) -> Optional[Row]:
        """Return the result that `key` names, or `None` without one."""
        return next((row for row in self.rows() if key.items() <= row.items()), None)

    def add(self, row: Row) -> None:
        """Print a result and append it to the file."""
        line = json.dumps(row, ensure_ascii=False)
        print(line, flush=True)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as file:
            print(line, file=file)


class Words(NamedTuple):
    """So many words of a language, a number or `all`, and what is trained on them in the folder RUNS/LANGUAGE/N."""

    args: argparse.Namespace
    number: str

    @property
    def results(self) -> Results:
        """Return the results of the language."""
        return Results(self.args.results / f"{self.args.language}.jsonl")

    @property
    def language(self) -> Path:
        """Return the folder of the language."""
        return Path(self.args.runs, self.args.language)

    @property
    def folder(self) -> Path:
        """Return the folder of these words."""
        return self.language / self.number

    @property
    def bilm(self) -> Path:
        """Return the folder of the pretraining run, which is named after its config."""
        return self.folder / self.args.config.stem

    def key(self, **more: Any) -> Row:
        """Return what names a result of these words."""
        return {"language": self.args.language, "words": self.number, **more}

    def text(self) -> Path:
        """Return the folder with train-0.txt and heldout.txt, which are drawn from the prepared text at first."""
        folder, source = self.folder / "text", self.language / "text"
        if not (source / HELDOUT).exists():
            options = ["--shards", "1", "--heldout", "5", "--language", self.args.language]
            run_elmo_plugin("prepare-text", *map(str, self.args.text), str(source), *options)
        if not (folder / "heldout.txt").exists():
            with atomic_folder(folder, last="heldout.txt") as partial:
                shards = [line for shard in find_shards(str(source / "train-*")) for line in TextFile(shard).lines()]
                (partial / "train-0.txt").write_text("".join(draw(shards, self.number)), encoding="utf-8")
                heldout = TextFile(source / HELDOUT).lines()
                (partial / "heldout.txt").write_text("".join(heldout), encoding="utf-8")
        return folder

    def pretrain(self) -> float:
        """Train the biLM, or go on with it, if it is not there. Return its seconds of processor time."""
        key = self.key(trained="bilm", bilm=self.bilm.name)
        clock = self.folder / f"{self.bilm.name}.seconds"  # with those of processes that ended before the training did
        seconds = float(clock.read_text()) if clock.exists() else 0.0
        if not (self.bilm / "model.tar.gz").exists():
            text = {"LM_TRAIN": str(self.text() / "train-0.txt"), "LM_HELDOUT": str(self.text() / "heldout.txt")}
            recover = ["--recover"] if self.bilm.exists() else []
            start = children_seconds()
            try:
                run_elmo_plugin("train", self.args.config, "-s", self.bilm, *TRAIN, *recover, **text)
            finally:
                seconds += children_seconds() - start
                clock.write_text(str(seconds))
        if self.results.find(key) is None:
            metrics = json.loads((self.bilm / "metrics.json").read_text())
            size = {"n_words": sum(map(count_words, TextFile(self.text() / "train-0.txt").lines()))}
            measured = {name: round(metrics[f"best_validation_{name}"], 4) for name in MEASURED}
            epochs = {"epochs": metrics["epoch"] + 1, "best_epoch": metrics["best_epoch"] + 1}
            self.results.add({**key, **size, **measured, **epochs, "cpu_seconds": round(seconds)})
        return seconds

    def five_gram(self) -> None:
        """Measure the perplexity of a 5-gram with the vocabulary of the biLM if it is not known."""
        key = self.key(trained="5-gram", bilm=self.bilm.name)
        if self.results.find(key) is None:
            self.pretrain()
            command = [self.text(), self.bilm / "vocabulary/tokens.txt", self.args.kenlm, self.folder / "5-gram"]
            printed = subprocess.check_output([ROOT / "benchmarks/kenlm.sh", *command], text=True)
            forward, backward = map(float, re.findall(r"including OOVs:\s+(\S+)", printed))
            self.results.add({**key, "forward_perplexity": forward, "backward_perplexity": backward})

    def vectors(self, system: str) -> Path:
        """Return the file of the treebank's words with their fastText vectors, which are trained if it is not there."""
        file = self.folder / f"{system}.txt"
        if not file.exists():
            from experiments.why_elmo.gensim_fasttext import of_file  # gensim is not in the environment

            passes, dim = FASTTEXT[system]
            if passes is None:
                self.vectors("fasttext")
                short = self.results.find(self.key(trained="fasttext")) or {}
                passes = round(short["passes"] * self.pretrain() / short["cpu_seconds"])
            start = time.process_time()
            vectors = of_file(self.text() / "train-0.txt", passes, dim)
            seconds = round(time.process_time() - start, 1)
            write_vectors(vectors, sorted(self.args.treebank.glob("*.conllu")), file)
            if self.results.find(self.key(trained=system)) is None:
                self.results.add({**self.key(trained=system), "passes": passes, "cpu_seconds": seconds})
        return file

    def weights(self, system: str, seed: int) -> Path:
        """Return the file of the biLM for a system; the random one has the sizes of the trained one."""
        self.pretrain()
        trained = self.bilm / "model.tar.gz"
        if system != "random":
            return trained
        file = self.language / f"random-{self.bilm.name}-{seed}.safetensors"
        if not file.exists():
            options = load_sizes(trained).to_dict()
            elmo_plugin.save(elmo_plugin.Elmo(bilm={"options": options, "seed": seed}), file)
        return file

    def variables(self, system: str, seed: int) -> dict[str, str]:
        """Return the variables that the variant of a system reads, after what is missing was trained."""
        variables = {"TREEBANK": str(self.args.treebank)}
        if "vectors" in SYSTEMS[system]:
            vectors = self.vectors("fasttext_50" if system == "both" else system)
            with vectors.open(encoding="utf-8") as file:
                dim = len(file.readline().split(" ")) - 1
            variables |= {"WORD_VECTORS": str(vectors), "WORD_VECTORS_DIM": str(dim)}
        if "your_bilm" in SYSTEMS[system]:
            weights = self.weights(system, seed)
            sizes = load_sizes(weights)
            variables["ELMO_BILM"] = str(weights)
            variables["ELMO_BILM_LAYERS"] = str(sizes.num_layers - 1)
            variables["ELMO_BILM_PROJECTION"] = str(sizes.layer_dim // 2)
        return variables

    def tag(self, system: str, task: str, fraction: float, seed: int) -> bool:
        """Train a tagger if its result is not known. Return whether it is known now."""
        words = None if system in ("none", "random") else self.number
        bilm = self.bilm.name if "your_bilm" in SYSTEMS[system] else None
        key = {**self.key(), "words": words, "system": system, "bilm": bilm}
        key |= {"task": task, "fraction": fraction, "seed": seed}
        if self.results.find(key) is None:
            # Systems with the same variant need two folders. ELMo with and without vectors shares its sentence cache.
            name = "-".join(filter(None, ["elmo" if system == "both" else system, bilm]))
            folder = Path(self.language, words or "", "taggers", name)
            run = Run(folder, task, SYSTEMS[system], seed, fraction)
            folder.mkdir(parents=True, exist_ok=True)
            if (test := self.args.treebank / "test.conllu").exists() and not run.second_dev().exists():
                run.second_dev().symlink_to(test)
            with patch.dict(os.environ, self.variables(system, seed)):
                _, seconds = train(run)
            score = run.score()
            if score is None:
                print(f"failed, see {run.path('.log')}", flush=True)
                return False
            self.results.add({**key, "score": score, "test": run.score("test"), "cpu_seconds": round(seconds)})
        return True


def run_elmo_plugin(*arguments: Any, **variables: str) -> None:
    """Run a command of `elmo-plugin`, and print it."""
    line = ["elmo-plugin", *map(str, arguments)]
    print(*(f"{name}={shlex.quote(value)}" for name, value in variables.items()), shlex.join(line), flush=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    subprocess.run([sys.executable, "-m", "elmo_plugin", *line[1:]], env=environment, check=True)


def children_seconds() -> float:
    """Return the processor time of the processes that this one has started and that have ended."""
    usage = getrusage(RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def count_words(line: str) -> int:
    """Return the number of words of a tokenized sentence. Punctuation is no word."""
    return sum(any(map(str.isalnum, token)) for token in line.split())


def draw(sentences: Sequence[str], number: str) -> list[str]:
    """Return sentences with so many words, or all. A smaller draw is part of a larger one."""
    if number == "all":
        return list(sentences)
    shuffled = random.Random(1).sample(sentences, len(sentences))
    ends = list(accumulate(map(count_words, shuffled)))
    if ends[-1] < int(number):
        raise ValueError(f"--words: expected up to {ends[-1]:,} or all, got {number}")
    return shuffled[: bisect_left(ends, int(number)) + 1]


def tables(folder: Path) -> Iterator[Table]:
    """Yield for each language a table of the trainings, and one of the taggers for each task."""
    for file in sorted(folder.glob("*.jsonl")):
        rows = Results(file).rows()
        names = [*MEASURED, "passes", "epochs", "best_epoch", "cpu_seconds"]
        trained = [
            [f"{row['trained']} {row.get('bilm', '')}", row["words"], *(str(row.get(name, "")) for name in names)]
            for row in rows
            if "trained" in row
        ]
        yield Table(file.stem, "", ["", "words", *names], trained)
        tagged = [row for row in rows if "system" in row]
        fractions = sorted({row["fraction"] for row in tagged})
        for task in sorted({row["task"] for row in tagged}):
            cells: dict[tuple[str, ...], dict[float, list[float]]] = {}
            for row, part in product(tagged, ("score", "test")):
                if row["task"] == task and row.get(part) is not None:
                    system = row["system"] + ", test part" * (part == "test")
                    name = (system, row["bilm"] or "", row["words"] or "")
                    cells.setdefault(name, {}).setdefault(row["fraction"], []).append(row[part])
            lines = [[*name, *(cell(of.get(fraction, [])) for fraction in fractions)] for name, of in cells.items()]
            header = ["", "biLM", "words", *(f"{100 * fraction:g} %" for fraction in fractions)]
            about = "Accuracy in percent, of the epoch that is best on the development set."
            yield Table(f"{file.stem}, {task}", about, header, lines)


def plot(folder: Path, bilm: str, output: Path) -> None:
    """Draw a row of panels for each language: the accuracy of each task by the words, with all tagged sentences.

    Systems without raw text are levels. The name of each stands beside its last point. Of several biLMs, only those of
    the config called `bilm` are drawn.
    """
    import matplotlib.pyplot as plt

    from experiments.why_elmo.plot import spread

    files = sorted(folder.glob("*.jsonl"))
    tasks = {"treebank_pos": "parts of speech", "treebank_features": "the whole tag"}
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "how_much_text", "font.size": 9})
    figure, panels = plt.subplots(
        len(files), 2, figsize=(6.6, 2.9 * len(files)), layout="constrained", squeeze=False, sharex="row"
    )
    for file, row in zip(files, panels, strict=True):
        rows = [each for each in Results(file).rows() if each.get("bilm") in (None, bilm)]
        sizes = {each["words"]: each["n_words"] for each in rows if each.get("trained") == "bilm"}
        for (task, title), axes in zip(tasks.items(), row, strict=True):
            names = []  # the height, the name and the colour of each
            for number, (name, systems) in enumerate(NAMES.items()):
                scores = defaultdict[tuple[int, str], list[float]](list)  # systems without raw text have 0 words of it
                for each in rows:
                    if each.get("system") in systems and (each["task"], each["fraction"]) == (task, 1.0):
                        scores[sizes.get(each["words"], 0), each["system"]].append(each["score"])
                points: dict[int, float] = {}
                for (words, _), values in scores.items():
                    points[words] = max(points.get(words, 0), mean(values))
                if 0 in points:
                    axes.axhline(points[0], color=f"C{number}", linestyle="dotted")
                elif points:
                    axes.plot(*zip(*sorted(points.items()), strict=True), "o-", color=f"C{number}", markersize=4)
                if points:
                    names.append((points[max(points)], name, f"C{number}"))
            names.sort(reverse=True)
            axes.set_xscale("log")
            axes.set_xticks(list(sizes.values()), [f"{size / 1e6:.2g} M" for size in sizes.values()])
            axes.minorticks_off()
            low, high = axes.get_ylim()
            for place, (height, name, color) in zip(
                spread([height for height, *_ in names], (high - low) / 14), names, strict=True
            ):
                axes.annotate(
                    name, (1, height), xycoords=axes.get_yaxis_transform(), xytext=(1.03, place), color=color,
                    va="center",
                )  # fmt: skip
            axes.set_title(f"{file.stem}: {title}", fontsize="medium")
            axes.set_xlabel("words of raw text")
            axes.set_ylabel("accuracy, %")
            axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(output, metadata={"Date": None})


def cell(scores: Sequence[float]) -> str:
    """Return the mean of the seeds, with their standard deviation."""
    deviation = f" ± {stdev(scores):.1f} ({len(scores)} seeds)" if len(scores) > 1 else ""
    return f"{mean(scores):.1f}{deviation}" if scores else ""


def parse(arguments: Optional[list[str]] = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        "python -m experiments.how_much_text",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("runs", metavar="RUNS", nargs="?", type=Path, help="the folder for what is trained")
    add("language", metavar="LANGUAGE", nargs="?", help="the code of the language")
    add("--text", nargs="+", default=[], metavar="FILE", help="raw text")
    add("--treebank", type=Path, help="a folder with train.conllu and dev.conllu")
    add("--words", nargs="+", default=["all"], metavar="N", help="numbers of words, or all; default: all")
    add("--config", type=Path, default=CONFIGS / "pretrain/small_text.jsonnet", help="default: pretrain/small_text")
    add("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), help="default: all")
    add("--tasks", nargs="+", default=["treebank_pos", "treebank_features"], help="default: both")
    add("--fractions", nargs="+", type=float, default=[0.1, 1.0, 0.3], help="default: 0.1 1 0.3")
    add("--seeds", nargs="+", type=int, default=[1, 2, 3], help="default: 1 2 3")
    add("--packages", type=Path, help="a folder with gensim; without it there is no fastText")
    add(
        "--kenlm", type=Path, help="a folder with KenLM's programs (benchmarks/kenlm.sh); without it there is no 5-gram"
    )
    add("--results", type=Path, default=RESULTS, help="the folder of the results; default: experiments/results")
    add("--table", action="store_true", help="only print the tables")
    add("--plot", type=Path, metavar="FILE", help="draw the accuracy by the words, with all sentences of the treebank")
    args = parser.parse_args(arguments)
    if not args.table and None in (args.runs, args.language, args.treebank):
        parser.error("expected RUNS, LANGUAGE and --treebank, or --table")
    for name in ("runs", "treebank", "config", "packages", "kenlm"):
        if value := getattr(args, name):
            setattr(args, name, value.resolve())
    return args


def main(arguments: Optional[list[str]] = None) -> int:
    """Train what has no result yet, and print the tables. Return 1 if a tagger failed."""
    args = parse(arguments)
    failed = 0
    if not args.table:
        sys.path.append(str(args.packages))
        systems = [name for name in args.systems if args.packages or "vectors" not in SYSTEMS[name]]
        sizes = [Words(args, number) for number in args.words]
        for size in sizes:
            if args.kenlm:
                size.five_gram()
        for seed, fraction, size, task, system in product(args.seeds, args.fractions, sizes, args.tasks, systems):
            failed += not size.tag(system, task, fraction, seed)
    for table in tables(args.results):
        print(*table.lines(), sep="\n")
    if args.plot:
        plot(args.results, args.config.stem, args.plot)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
