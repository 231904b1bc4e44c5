"""What two processes of a distributed run do in tests, and what starts them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import distributed, multiprocessing

from elmo_plugin.pretraining import BidirectionalLanguageModel, loaders
from tests.language_model_oracles import language_model
from tests.loader_oracles import WORDS, build_loader

Job = Callable[..., Any]
Config = dict[str, Any]


def in_two_processes(job: Job, folder: Path, *arguments: Any) -> list[Any]:
    """What `job` returns in each of two processes that know of each other."""
    folder.mkdir()
    start_processes(_run, (job, folder, arguments), nprocs=2)
    return [torch.load(folder / f"{rank}.th") for rank in (0, 1)]


def start_processes(job: Job, args: tuple[Any, ...], nprocs: int) -> None:
    """`torch.multiprocessing.spawn`, without the seconds that each process needs to import everything.

    They are forked from a server that has imported it once and that never computes, so may be forked anywhere.
    """
    context()
    multiprocessing.start_processes(job, args, nprocs, start_method="forkserver")


def context() -> Any:
    """What starts processes that way."""
    forkserver = multiprocessing.get_context("forkserver")
    forkserver.set_forkserver_preload(
        ["elmo_plugin", "tests.distributed_jobs", "tests.killer", "tests.pretraining_runs"]
    )
    return forkserver


def _run(rank: int, job: Job, folder: Path, arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    torch.save(job(*arguments), folder / f"{rank}.th")
    # A process that has met the other one may be done before the other one knows that they have met.
    distributed.barrier()
    distributed.destroy_process_group()


def read(data_path: str, keys: Config, epochs: int = 0, block: int = loaders.SHUFFLED) -> dict[str, Any]:
    """Batches of a loader, of so many epochs or of a single pass, and its state after them."""
    with patch.object(loaders, "SHUFFLED", block):
        loader = build_loader(data_path, **keys)
        if not loader.endless:
            return {"batches": list(loader)}
        batches = [batch for _ in range(epochs) for batch in loader]
        return {"batches": batches, "state": loader.state_dict(), "length": len(loader)}


@torch.no_grad()
def evaluate(data_path: str, loader: Config, model: Config) -> dict[str, Any]:
    """Metrics of a held-out text, and the losses and tokens of the batches of this process."""
    language: BidirectionalLanguageModel = language_model(WORDS, **model)
    outputs = [language(**batch) for batch in build_loader(data_path, shuffle=False, **loader)]
    losses = [float(output["loss"]) for output in outputs if "loss" in output]
    return {"metrics": language.perplexity.get_metric(), "losses": losses, "n_batches": len(outputs)}
