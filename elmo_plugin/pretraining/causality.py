"""The causality check: no direction of a contextualizer may read the token that it predicts."""

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder
from torch import Tensor

N_TOKENS = 6
"""The length of the sentence that the check reads."""
TOLERANCE = 1e-5


@torch.no_grad()
def check_causality(contextualizer: Seq2SeqEncoder) -> None:
    """Raise `ConfigurationError` if forward outputs depend on later tokens, or backward outputs on earlier ones.

    The output at a token predicts the tokens beside it. A direction that reads further leaks the target: perplexity
    falls towards 1 and the model learns nothing. For each token of a random sentence, the check replaces the tokens
    that a direction must not read. Its output at that token must not change.

    # Parameters

    contextualizer : `Seq2SeqEncoder`
        (B, T, I) to (B, T, 2P), the forward direction first.
    """
    # AllenNLP wraps PyTorch's modules, whose names are better known.
    name = f"'{type(getattr(contextualizer, '_module', contextualizer)).__name__}'"
    if not contextualizer.is_bidirectional() or contextualizer.get_output_dim() % 2:
        raise ConfigurationError(f"'contextualizer': expected a forward and a backward direction, got {name} with one")
    modes = {module: module.training for module in contextualizer.modules()}
    try:
        _check_directions(contextualizer.eval(), name)
    finally:
        for module, mode in modes.items():
            module.training = mode
        _forget(contextualizer)


def _check_directions(contextualizer: Seq2SeqEncoder, name: str) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sentence, replacement = torch.randn(2, N_TOKENS, contextualizer.get_input_dim())  # (T, I) each
    positions = torch.arange(N_TOKENS)
    for here in range(N_TOKENS):
        unseen = {"forward": ("later", positions > here), "backward": ("earlier", positions < here)}
        for direction, (which, hidden) in enumerate(unseen.values()):
            plain = _outputs(contextualizer, sentence)[direction, here]  # (P,)
            changed = torch.where(hidden.unsqueeze(-1), replacement, sentence)  # (T, I)
            if not torch.allclose(
                plain, _outputs(contextualizer, changed)[direction, here], rtol=TOLERANCE, atol=TOLERANCE
            ):
                raise ConfigurationError(
                    f"'contextualizer': {name} leaks the target, because its {[*unseen][direction]} outputs depend "
                    f"on {which} tokens; use directions that never meet, as in 'elmo_lstm' (a bidirectional 'lstm' "
                    "of more than one layer joins them between its layers)"
                )


def _outputs(contextualizer: Seq2SeqEncoder, sentence: Tensor) -> Tensor:
    """Return the last layer of both directions for one sentence: (T, I) to (2, T, P)."""
    _forget(contextualizer)
    device = next((parameter.device for parameter in contextualizer.parameters()), sentence.device)
    mask = torch.ones(1, len(sentence), dtype=torch.bool, device=device)  # (B, T)
    outputs = contextualizer(sentence.unsqueeze(0).to(device), mask)  # (…, B, T, 2P)
    return outputs.reshape(-1, *outputs.shape[-2:])[-1].unflatten(-1, (2, -1)).transpose(0, 1)


def _forget(contextualizer: Seq2SeqEncoder) -> None:
    getattr(contextualizer, "reset_states", lambda: None)()
