"""An epoch is a pass: each sentence once, for every loader, number of files and processes, also after a resume."""

from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.training import GradientDescentTrainer

from elmo_plugin.pretraining import BidirectionalLanguageModel, loaders
from tests.pretraining.resume_test import Stopped, interrupt_at, stop
from tests.pretraining_runs import LOADERS, config, train

FORWARD = BidirectionalLanguageModel.forward
EPOCHS = 3


def whole_passes(folder: Path, loader: str) -> dict[str, Any]:
    """Return the config of three epochs of a whole text in three files."""
    keys = config(folder, loader, num_epochs=EPOCHS)
    lines = Path(keys["train_data_path"]).read_text().splitlines(keepends=True)
    Path(keys["train_data_path"]).unlink()
    for number, part in enumerate((lines[:10], lines[10:11], lines[11:])):
        (folder / f"train-{number}.txt").write_text("".join(part))
    keys["train_data_path"] = keys["vocabulary"]["files"] = str(folder / "train-*.txt")
    del keys["data_loader"]["batches_per_epoch"]
    return keys


def targets_of(batch: dict[str, Any]) -> list[int]:
    """Return the ids of the words of a batch, each of which is read once."""
    ids = batch["tokens"]["words"]["tokens"] if "tokens" in batch else batch["windows"]["forward"]["words"]
    return [word for word in ids.flatten().tolist() if word > 2]


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("block", [7, loaders.SHUFFLED])
@pytest.mark.slow
def test_each_epoch_trains_on_every_word_once_and_the_schedule_ends_with_the_last_batch(
    loader: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaders, "SHUFFLED", block)
    monkeypatch.setattr(loaders, "GROUP", 1 if block == 7 else loaders.GROUP)
    keys = whole_passes(tmp_path, loader)
    epochs: list[list[list[int]]] = []
    rates: list[float] = []
    train_epoch = GradientDescentTrainer._train_epoch

    def forward(self: BidirectionalLanguageModel, **batch: Any) -> Any:
        if self.training:
            epochs[-1].append(targets_of(batch))
        return FORWARD(self, **batch)

    def epoch_of(self: GradientDescentTrainer, epoch: int) -> Any:
        epochs.append([])
        metrics = train_epoch(self, epoch)
        rates.append(self.optimizer.param_groups[0]["lr"])
        return metrics

    monkeypatch.setattr(BidirectionalLanguageModel, "forward", forward)
    monkeypatch.setattr(GradientDescentTrainer, "_train_epoch", epoch_of)
    train(keys, tmp_path / "undisturbed")
    vocabulary = (tmp_path / "undisturbed/vocabulary/tokens.txt").read_text().split("\n")
    text = "".join(path.read_text() for path in sorted(tmp_path.glob("train-*.txt")))
    wanted = Counter(vocabulary.index(word) + 1 for word in text.split())  # counted without the loaders
    assert [Counter(chain(*epoch)) for epoch in epochs] == [wanted] * EPOCHS
    n_batches = len(epochs[0])
    assert n_batches > 4 and [len(epoch) for epoch in epochs] == [n_batches] * EPOCHS
    assert rates[0] > rates[1] > rates[2] == 0
    undisturbed, epochs = epochs, []

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stopped):
        interrupt_at(patch, n_batches + 5, stop)  # the checkpoint is of the fourth batch
        train(keys, tmp_path / "run")
    epochs = []
    train(keys, tmp_path / "run", recover=True)
    assert epochs == [[], undisturbed[1][4:], undisturbed[2]]
    for name in ("best.th", f"model_state_e2_b{n_batches}.th"):
        found, expected = (torch.load(tmp_path / run / name) for run in ("run", "undisturbed"))
        assert all(torch.equal(found[key], expected[key]) for key in expected)
