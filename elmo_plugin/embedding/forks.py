"""Forked processes compute with one thread of PyTorch."""

import os

import torch


def use_one_thread_in_forks() -> None:
    """Let forked processes use one thread, as PyTorch does in the workers of its own data loader.

    The threads of a process do not survive a fork. A process that is forked after they have worked, as spaCy's
    `n_process` and `datasets` do it, waits for them for ever. It may set another number itself.
    """
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))
