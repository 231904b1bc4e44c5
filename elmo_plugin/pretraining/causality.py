"""The causality check: no direction of a contextualizer may read the token that it predicts."""

import logging

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder
from torch import Tensor

logger = logging.getLogger(__name__)

N_TOKENS = 6
"""The length of the sentence that the check reads."""
TOLERANCE = 1e-5


@torch.no_grad()
def check_causality(contextualizer: Seq2SeqEncoder) -> None:
    """Raise `ConfigurationError` if forward outputs depend on later tokens, or backward outputs on earlier ones.

    The output at a token predicts the tokens beside it. A direction that reads further leaks the target: perplexity
    falls towards 1 and the model learns nothing. For each token of a random sentence, the check replaces the tokens
    that a direction must not read. Its output at that token must not change.

    Log a warning if an output depends on how many of them there are. Then a direction knows where the sentence ends:
    it reads positions counted from the far end, as the backward direction of AllenNLP's Transformer does.

    # Parameters

    contextualizer : `Seq2SeqEncoder`
        (B, T, I) to (B, T, 2P), the forward direction first.
    """
    # AllenNLP wraps PyTorch's modules, whose names are better known.
    name = f"'{type(getattr(contextualizer, '_module', contextualizer)).__name__}'"
    if not contextualizer.is_bidirectional() or contextualizer.get_output_dim() % 2:
        raise ConfigurationError(f"'contextualizer': expected a forward and a backward direction, got {name} with one")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sentence, replacement = torch.randn(2, N_TOKENS, contextualizer.get_input_dim())  # (T, I) each
    modes = {module: module.training for module in contextualizer.modules()}
    try:
        _check_tokens(contextualizer.eval(), name, sentence, replacement)
        _check_length(contextualizer, name, sentence)
    finally:
        for module, mode in modes.items():
            module.training = mode
        _forget(contextualizer)


def _check_tokens(contextualizer: Seq2SeqEncoder, name: str, sentence: Tensor, replacement: Tensor) -> None:
    """Raise `ConfigurationError` if an output changes with the tokens that its direction must not read."""
    plain = _outputs(contextualizer, sentence)  # (2, T, P)
    positions = torch.arange(N_TOKENS)
    for here in range(N_TOKENS):
        unseen = {"forward": ("later", positions > here), "backward": ("earlier", positions < here)}
        for number, (direction, (which, hidden)) in enumerate(unseen.items()):
            changed = torch.where(hidden.unsqueeze(-1), replacement, sentence)  # (T, I)
            if not _same(plain[number, here], _outputs(contextualizer, changed)[number, here]):
                raise ConfigurationError(
                    f"'contextualizer': {name} leaks the target, because its {direction} outputs depend "
                    f"on {which} tokens; use directions that never meet, as in 'elmo_lstm' (a bidirectional 'lstm' "
                    "of more than one layer joins them between its layers)"
                )


def _check_length(contextualizer: Seq2SeqEncoder, name: str, sentence: Tensor) -> None:
    """Warn if an output changes when the tokens that its direction must not read are left out."""
    plain = _outputs(contextualizer, sentence)  # (2, T, P)
    for direction, which, number, left_out in (
        ("forward", "follow", 0, slice(-1)),
        ("backward", "precede", 1, slice(1, None)),
    ):
        rest = plain[:, left_out][number]  # (T - 1, P)
        if not _same(rest, _outputs(contextualizer, sentence[left_out])[number]):
            logger.warning(
                "'contextualizer': the %s outputs of %s depend on how many tokens %s, so that direction knows where a "
                "sentence ends and its perplexity is too low; compare only that of the other direction",
                direction,
                name,
                which,
            )


def _same(found: Tensor, expected: Tensor) -> bool:
    return torch.allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


def _outputs(contextualizer: Seq2SeqEncoder, sentence: Tensor) -> Tensor:
    """Return the last layer of both directions for one sentence: (T, I) to (2, T, P)."""
    _forget(contextualizer)
    device = next((parameter.device for parameter in contextualizer.parameters()), sentence.device)
    mask = torch.ones(1, len(sentence), dtype=torch.bool, device=device)  # (B, T)
    outputs = contextualizer(sentence.unsqueeze(0).to(device), mask)  # (…, B, T, 2P)
    return outputs.reshape(-1, *outputs.shape[-2:])[-1].unflatten(-1, (2, -1)).transpose(0, 1)


def _forget(contextualizer: Seq2SeqEncoder) -> None:
    getattr(contextualizer, "reset_states", lambda: None)()
