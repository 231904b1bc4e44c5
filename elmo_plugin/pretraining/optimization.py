"""How weights are trained: the optimizer `muon`, and the learning rate schedule `warmup_cosine`."""

import re
from collections.abc import Sequence
from math import cos, pi
from typing import Any, Optional, Union

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.training.learning_rate_schedulers import LearningRateScheduler, PolynomialDecay
from allennlp.training.optimizers import MultiOptimizer, Optimizer
from torch import Tensor, nn

from elmo_plugin.common import at_least, probability

MATRICES = (r"\.lstm\.", r"\.highways\.", r"\.projection\.")
"""Regular expressions for the names of the weights of a biLM that Muon trains if they are matrices."""
STEPS = 5
COEFFICIENTS = (3.4445, -4.775, 2.0315)
"""From Jordan et al. 2024: five steps bring all singular values between 0.7 and 1.2, and raise small ones fastest."""


@Optimizer.register("muon")
class Muon(MultiOptimizer):
    """Trains the matrices that map a vector to a vector with Muon, and all other weights with AdamW.

    Muon replaces the matrix of gradients, averaged by momentum, by the nearest orthogonal one (U Vᵀ of its singular
    value decomposition), so an update changes all directions by the same amount. Tables of characters and words,
    convolutions and biases keep AdamW, as the authors of Muon advise. AllenNLP's `multi` optimizer could combine the
    two, but a schedule of learning rates does not reach its parts.

    Registered as an `Optimizer` with name `muon`.

    ```jsonnet
    optimizer: { type: 'muon', lr: 0.005, adamw_lr: 0.003 },
    ```

    # Parameters

    model_parameters
        From the trainer.
    matrices : `Optional[list[str]]`
        Regular expressions for the names of the weights that Muon trains if they have two dimensions. The default
        matches the LSTMs, highway layers and projection of a biLM.
    lr : `float`
        Muon's learning rate.
    adamw_lr : `float`
        AdamW's learning rate.
    momentum : `float`
        Muon's momentum.
    betas : `Sequence[float]`
        AdamW's two coefficients.
    weight_decay, adamw_weight_decay : `float`
        The fraction of each weight that a step subtracts, times the learning rate, for Muon and for AdamW. Without
        it the weights that Muon trains grow with every step, whatever their gradients.
    """

    zero_grad = Optimizer.zero_grad  # AllenNLP's sets gradients to 0, and PyTorch's to None

    def __init__(
        self,
        model_parameters: list[tuple[str, nn.Parameter]],
        matrices: Optional[list[str]] = None,
        lr: float = 0.005,
        adamw_lr: float = 0.003,
        momentum: float = 0.95,
        betas: Sequence[float] = (0.9, 0.98),
        weight_decay: float = 0.1,
        adamw_weight_decay: float = 0.01,
    ) -> None:
        at_least(0, lr=lr, adamw_lr=adamw_lr, weight_decay=weight_decay, adamw_weight_decay=adamw_weight_decay)
        probability(momentum=momentum, **{f"betas.{number}": beta for number, beta in enumerate(betas)})
        if len(betas) != 2:
            raise ConfigurationError(f"'betas': expected two numbers, got {list(betas)}")
        matrices = list(MATRICES) if matrices is None else matrices
        names = {
            name
            for name, weight in model_parameters
            if weight.dim() == 2 and any(re.search(pattern, name) for pattern in matrices)
        }
        orthogonal = [weight for name, weight in model_parameters if name in names]
        others = [weight for name, weight in model_parameters if name not in names]
        if not orthogonal or not others:
            matched = "no matrix" if others else "all weights"
            raise ConfigurationError(
                f"'matrices': expected patterns of some weights, got {matrices}, which match {matched}"
            )
        self.optimizers: dict[str, Any] = {
            "muon": OrthogonalMomentum(orthogonal, lr, momentum, weight_decay),
            "adamw": torch.optim.AdamW(others, adamw_lr, (betas[0], betas[1]), weight_decay=adamw_weight_decay),
        }
        # AllenNLP's `__init__` gives this optimizer groups of its own, and would build the two from a config.
        Optimizer.__init__(self, self._groups(), {"lr": lr})

    def load_state_dict(self, training_state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned."""
        super().load_state_dict(training_state)
        self.param_groups = self._groups()

    def _groups(self) -> list[dict[str, Any]]:
        """Return the groups of both optimizers, into which a schedule writes its learning rates."""
        return [group for optimizer in self.optimizers.values() for group in optimizer.param_groups]


class OrthogonalMomentum(torch.optim.Optimizer):
    """Muon with Nesterov momentum, for matrices only.

    The update of a matrix (M, N) is scaled by 0.2 √max(M, N), which makes it about as large as AdamW's.
    `torch.optim.Muon` with `adjust_lr_fn="match_rms_adamw"` computes the same in bfloat16, for which a step takes 2.4
    times as long on a processor with AVX-512, and 35 times without. Sources: Jordan et al. 2024, "Muon: An optimizer
    for hidden layers in neural networks"; Liu et al. 2025, "Muon is Scalable for LLM Training", §2.2.
    """

    def __init__(self, weights: list[nn.Parameter], lr: float, momentum: float, weight_decay: float) -> None:
        super().__init__(weights, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all weights that have a gradient."""
        for group in self.param_groups:
            lr, momentum = group["lr"], group["momentum"]
            for weight in [weight for weight in group["params"] if weight.grad is not None]:
                state = self.state[weight]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(weight)
                average = state["momentum_buffer"].lerp_(weight.grad, 1 - momentum)
                update = nearest_orthogonal(weight.grad.lerp(average, momentum))
                weight.mul_(1 - lr * group["weight_decay"])
                weight.add_(update, alpha=-lr * 0.2 * max(weight.shape) ** 0.5)


def nearest_orthogonal(matrix: Tensor) -> Tensor:
    """Approximate U Vᵀ of the singular value decomposition of a matrix with Newton-Schulz iterations.

    An iteration multiplies X (M, N), M ≤ N, by P = a I + b X Xᵀ + c (X Xᵀ)², so X Xᵀ becomes P X Xᵀ P. Only these small
    matrices (M, M) are iterated, and X is multiplied at the end, by the product of all P. In float32, rounding errors
    stay below 0.1 % of the result.
    """
    if matrix.size(0) > matrix.size(1):
        return nearest_orthogonal(matrix.T).T
    wide = matrix / matrix.norm().clamp(min=1e-7)
    gram = wide @ wide.T  # (M, M)
    a, b, c = COEFFICIENTS
    product = identity = torch.eye(len(gram), device=gram.device)
    for _ in range(STEPS):
        factor = torch.addmm(gram, gram, gram, beta=b, alpha=c) + a * identity
        product = factor @ product
        gram = factor @ gram @ factor
    return product @ wide


@LearningRateScheduler.register("warmup_cosine")
class WarmUpCosine(PolynomialDecay):
    """Raises the learning rate linearly over the first batches, then lowers it along half a cosine to 0 at the end.

    It gets the number of batches of the run from the trainer. AllenNLP's `cosine_with_warmup` needs that number in the
    config, and changes the rate only at the end of an epoch. Source: Loshchilov & Hutter 2017, without restarts.

    Registered as a `LearningRateScheduler` with name `warmup_cosine`.

    >>> import torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    >>> schedule = WarmUpCosine(optimizer, num_epochs=1, num_steps_per_epoch=6, warmup_steps=2)
    >>> rates = []
    >>> for batch in range(1, 7):
    ...     schedule.step_batch(batch)
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 2))
    >>> rates
    [0.5, 1.0, 0.85, 0.5, 0.15, 0.0]

    # Parameters

    optimizer, num_epochs, num_steps_per_epoch
        From the trainer.
    warmup_steps : `Union[int, float]`
        The number of batches until the optimizer's learning rate is reached, or their share of the run, below 1.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        num_epochs: int,
        num_steps_per_epoch: Optional[int] = None,
        warmup_steps: Union[int, float] = 0,
    ) -> None:
        if num_steps_per_epoch is None:
            raise ConfigurationError("'warmup_cosine': expected a data loader with a length, got one without")
        n_steps = num_epochs * num_steps_per_epoch
        if not 0 <= warmup_steps < n_steps:
            raise ConfigurationError(
                f"'warmup_steps': expected 0 or more and less than the {n_steps} batches of the run, or a share below "
                f"1, got {warmup_steps}"
            )
        steps = int(warmup_steps * n_steps) if 0 < warmup_steps < 1 else int(warmup_steps)
        super().__init__(optimizer, num_epochs, num_steps_per_epoch, warmup_steps=steps)

    def get_values(self) -> list[float]:
        """Return the current rate of each parameter group."""
        if self.steps < self.warmup_steps:
            part = self.steps / self.warmup_steps
        else:
            part = (1 + cos(pi * (self.steps - self.warmup_steps) / (self.total_steps - self.warmup_steps))) / 2
        return [part * value for value in self.base_values]

    def state_dict(self) -> dict[str, Any]:
        """Return the number of batches so far. The length of the run comes from the config that resumes it."""
        return {"steps": self.steps, "base_values": self.base_values}
