"""A process that is forked after PyTorch's threads have worked does not wait for them."""

from multiprocessing import get_context

import torch

import elmo_plugin  # noqa: F401


def multiply() -> None:
    """Use the threads."""
    torch.randn(500, 500) @ torch.randn(500, 500)


def test_a_forked_process_computes() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        multiply()
        process = get_context("fork").Process(target=multiply)
        process.start()
        process.join(60)
        exit_code = process.exitcode
        process.kill()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert exit_code == 0
