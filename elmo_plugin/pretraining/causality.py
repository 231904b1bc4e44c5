"""No direction sees the token that it predicts: what a contextualizer must keep to, found out by trying."""

from copy import deepcopy

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder
from torch import Tensor

STEPS = 6
"""Tokens of the sentence that is tried."""
TOLERANCE = 1e-5


@torch.no_grad()
def refuse_leaks(contextualizer: Seq2SeqEncoder) -> None:
    """Raise `ConfigurationError` if the forward half reads what comes after, or the backward half what came before.

    The output at a token predicts the tokens beside it, so a half that peeks has read the answer: with every further
    layer over both directions joined, a language model's perplexity falls towards 1 and it learns nothing. At each
    place of a sentence all that a half must not know is replaced by other numbers; its output there must not change.

    # Parameters

    contextualizer : `Seq2SeqEncoder`
        (B, T, I) to (B, T, 2P), the forward half first.
    """
    if not contextualizer.is_bidirectional() or contextualizer.get_output_dim() % 2:
        raise ConfigurationError(
            f"'contextualizer' is {_name(contextualizer)} of one direction; wanted a forward and a backward half"
        )
    probe = deepcopy(contextualizer).eval()  # so that no mode and no state of a stateful encoder is left changed
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first, second = torch.randn(2, STEPS, contextualizer.get_input_dim())  # (T, I) each
        reset = getattr(probe, "reset_states", lambda: None)
        for here in range(STEPS):
            after = torch.arange(STEPS) > here  # (T,)
            before = torch.arange(STEPS) < here  # (T,)
            for half, name, hidden in ((0, "forward", after), (1, "backward", before)):
                reset()
                plain = _read(probe, first)[half, here]  # (P,)
                reset()
                changed = _read(probe, torch.where(hidden.unsqueeze(-1), second, first))[half, here]
                if not torch.allclose(plain, changed, rtol=TOLERANCE, atol=TOLERANCE):
                    raise ConfigurationError(_leak(contextualizer, name))


def _read(contextualizer: Seq2SeqEncoder, sentence: Tensor) -> Tensor:
    """Both halves of the last layer over one sentence: (T, I) to (2, T, P)."""
    device = next((parameter.device for parameter in contextualizer.parameters()), sentence.device)
    mask = torch.ones(1, len(sentence), dtype=torch.bool, device=device)  # (B, T)
    outputs = contextualizer(sentence.unsqueeze(0).to(device), mask)  # (…, B, T, 2P)
    return outputs.reshape(-1, *outputs.shape[-2:])[-1].unflatten(-1, (2, -1)).transpose(0, 1)


def _leak(contextualizer: Seq2SeqEncoder, half: str) -> str:
    unseen = "after" if half == "forward" else "before"
    return (
        f"'contextualizer': the {half} half of {_name(contextualizer)} depends on tokens {unseen} its own, which it is "
        "to predict; wanted two directions that never meet, as in 'elmo_lstm' (a bidirectional 'lstm' of more than "
        "one layer joins them between its layers)"
    )


def _name(contextualizer: Seq2SeqEncoder) -> str:
    return f"'{type(getattr(contextualizer, '_module', contextualizer)).__name__}'"
