"""Let forked processes compute with one PyTorch thread."""

import os

import torch


def use_one_thread_in_forks() -> None:
    """Let forked processes use one PyTorch thread, like the workers of PyTorch's own data loader.

    Threads do not survive a fork. A process that is forked after they have worked, as by spaCy's `n_process` and by
    `datasets`, would wait for them forever. It may set another number itself.
    """
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))
