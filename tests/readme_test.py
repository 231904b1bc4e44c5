"""What the README tells people to type is typed here, in its order."""

import gzip
import json
import re
import shlex
from pathlib import Path

import pytest
from allennlp.commands import main

from elmo_plugin.bilm import BiLM
from tests.oracles import lively, options, write_files

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
INDENTED = [line.strip() for line in README.splitlines() if line.startswith("    ")]
CORPUS = "in\tO\nPort\tB-location\nCalder\tI-location\n\nHi\tO\n\n"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the configs, a corpus and a biLM under the names that the README uses."""
    for name in ("training_configs", ".allennlp_plugins"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "path/to/wnut17").mkdir(parents=True)
    for part in ("train", "dev"):
        (tmp_path / f"path/to/wnut17/{part}.conll").write_text(CORPUS, encoding="utf-8")
    write_files(tmp_path, lively(BiLM.random(options(), seed=3)))
    for name in ("sentences.txt", "other_text.txt", "path/to/heldout.txt"):
        (tmp_path / name).write_text("One sentence .\nAnd another .\n", encoding="utf-8")
    for name in ("train.conllu", "dev.conllu"):
        (tmp_path / name).write_text("1\tGo\tgo\tVERB\n2\t.\t.\tPUNCT\n\n", encoding="utf-8")
    with gzip.open(tmp_path / "path/to/train-0.txt.gz", "wt", encoding="utf-8") as shard:
        shard.writelines(f"w{number} w{number + 1}\n" for number in range(0, 12000, 2))
    for line in INDENTED:
        for variable, value in re.findall(r"(\w+)=(\S+)", line.removeprefix("export ")) if "export " in line else []:
            monkeypatch.setenv(variable, value.strip("'"))
    (tmp_path / "sentences.jsonl").write_text('{"sentence": "I saw the ship ."}\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def allennlp_commands() -> list[str]:
    """Each `allennlp` command line, with the variables before it; those in the text are between backticks."""
    return [line for line in INDENTED if re.search("uv run (--all-groups )?allennlp ", line)] + re.findall(
        r"`(allennlp convert-elmo [^`]+)`", README
    )


def little_work(arguments: list[str]) -> list[str]:
    """What makes a training run short, for the command line."""
    if "train" not in arguments:
        return []
    overrides: dict[str, int] = {"trainer.num_epochs": 1}
    if "/pretrain/" in " ".join(arguments):
        overrides |= {"data_loader.batches_per_epoch": 2, "trainer.learning_rate_scheduler.warmup_steps": 1}
    return ["-o", json.dumps(overrides)]


def test_its_commands_and_its_python_run(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = allennlp_commands()
    assert len(commands) == 18
    for command in commands:
        words = shlex.split(command, comments=True)
        for variable, value in (word.split("=", 1) for word in words[: words.index("allennlp")] if "=" in word):
            monkeypatch.setenv(variable, value)
        arguments = words[words.index("allennlp") :]
        monkeypatch.setattr("sys.argv", arguments + little_work(arguments))
        main()
    assert {path.name for path in (checkout / "my_bilm").iterdir()} == {"options.json", "weights.hdf5"}
    exported = {path.name for path in (checkout / "exported").iterdir()}
    assert exported == {"options.json", "weights.hdf5", "vocabulary.txt"}
    assert (checkout / "exported.safetensors").exists()
    assert (checkout / "vectors.hdf5").exists()

    capsys.readouterr()
    for python in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(compile(python, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "['default', 'elmo', 'lstm_outputs1', 'lstm_outputs2', 'tokens', 'word_emb']" in printed
    assert "torch.Size([2, 2, 16])" in printed
    assert "(3, 2, 512) (3, 1, 512)" in printed


def test_its_table_of_names_is_the_registries() -> None:
    from allennlp.commands import Subcommand
    from allennlp.data import DataLoader, DatasetReader, TokenIndexer, Tokenizer, Vocabulary
    from allennlp.models import Model
    from allennlp.modules import Seq2SeqEncoder, TokenEmbedder
    from allennlp.predictors import Predictor
    from allennlp.training import Checkpointer, TrainerCallback
    from allennlp.training.learning_rate_schedulers import LearningRateScheduler
    from allennlp.training.metrics import Metric

    from elmo_plugin.bilm import InitialState
    from elmo_plugin.checkpoints import CheckpointFormat
    from elmo_plugin.elmo import LayerMix
    from elmo_plugin.pretraining import LmSoftmax

    bases = [Subcommand, DatasetReader, Tokenizer, TokenIndexer, Model, Seq2SeqEncoder, TokenEmbedder, Predictor]
    bases += [InitialState, CheckpointFormat, LayerMix, LmSoftmax, DataLoader, Vocabulary, Metric]
    bases += [TrainerCallback, Checkpointer, LearningRateScheduler]
    ours = {
        (base.__name__, name)
        for base in bases
        for name in base.list_available()
        if base.resolve_class_name(name)[0].__module__.startswith("elmo_plugin")
    }
    rows = re.findall(r"^\| ([^|]*`[^|]*) \| (\w+) \|", README, re.MULTILINE)
    assert {(kind, name) for names, kind in rows for name in re.findall(r"`([^`]+)`", names)} == ours


@pytest.mark.parametrize("path", re.findall(r"`((?:training_configs|elmo_plugin|tests)/[\w./]+)`", README))
def test_the_files_that_it_names_exist(path: str) -> None:
    assert (ROOT / path).exists()


def test_make_has_the_targets_that_it_names() -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert (
        {"demo", "test", "check", "setup"}
        == set(re.findall(r"(?:^ {4}|`)make (\w+)", README, re.MULTILINE))
        <= set(targets)
    )
