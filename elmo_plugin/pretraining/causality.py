"""The causality check: no direction of a contextualizer may read the token that it predicts."""

import logging

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder
from torch import Tensor

from elmo_plugin.bilm import last_layer, reset_states, sizes_of

logger = logging.getLogger(__name__)

N_TOKENS = 6
"""The length of the random sentence that the check reads."""
TOLERANCES = 1e-5, 1e-5  # relative and absolute


@torch.no_grad()
def check_causality(contextualizer: Seq2SeqEncoder) -> None:
    """Raise `ConfigurationError` if forward outputs depend on later tokens, or backward outputs on earlier ones.

    The forward output at a token predicts the next token, and the backward output predicts the previous one. A
    direction that reads its target leaks it: perplexity falls towards 1 and the model learns nothing. For each token of
    a random sentence, the check replaces the tokens that a direction must not read. The output at that token must not
    change.

    Log a warning if an output depends on the number of these tokens. Such a direction knows where the sentence ends,
    because it counts positions from there, as the backward direction of AllenNLP's Transformer does.

    # Parameters

    contextualizer : `Seq2SeqEncoder`
        Maps (B, T, I) to (B, T, 2P), the forward direction first. It is in the mode of training afterwards.
    """
    # AllenNLP wraps PyTorch's modules, whose names are better known than those of the wrappers.
    name = f"'{type(getattr(contextualizer, '_module', contextualizer)).__name__}'"
    width, output, has_two_directions = sizes_of(contextualizer)
    if not has_two_directions or output % 2:
        raise ConfigurationError(f"'contextualizer': expected a forward and a backward direction, got {name} with one")
    generator = torch.Generator().manual_seed(0)
    sentence, replacement = torch.randn(2, N_TOKENS, width, generator=generator)  # (T, I) each
    later = torch.ones(N_TOKENS, N_TOKENS, dtype=torch.bool).triu(1)  # (T, T): in row t, the tokens after t
    each = range(N_TOKENS)
    contextualizer.eval()
    for number, direction, which, unread, follow, rest in (
        (0, "forward", "later", later, "follow", slice(-1)),
        (1, "backward", "earlier", later.T, "precede", slice(1, None)),
    ):
        plain = _outputs(contextualizer, sentence.unsqueeze(0))[number, 0]  # (T, P)
        changed = torch.where(unread.unsqueeze(-1), replacement, sentence)  # (T, T, I): a sentence for each token
        if not torch.allclose(plain, _outputs(contextualizer, changed)[number, each, each], *TOLERANCES):
            raise ConfigurationError(
                f"'contextualizer': {name} leaks the target, because its {direction} outputs depend "
                f"on {which} tokens; use directions that never meet, as in 'elmo_lstm' (a bidirectional 'lstm' "
                "of more than one layer joins them between its layers)"
            )
        if not torch.allclose(plain[rest], _outputs(contextualizer, sentence[None, rest])[number, 0], *TOLERANCES):
            logger.warning(
                "'contextualizer': the %s outputs of %s depend on how many tokens %s, so this direction knows where a "
                "sentence ends and its perplexity is too low; compare only the perplexity of the other direction",
                direction,
                name,
                follow,
            )
    reset_states(contextualizer)
    contextualizer.train()


def _outputs(contextualizer: Seq2SeqEncoder, sentences: Tensor) -> Tensor:
    """Return the last layer of both directions (2, B, T, P) for sentences (B, T, I)."""
    mask = torch.ones(sentences.shape[:2], dtype=torch.bool)  # (B, T)
    return last_layer(contextualizer, sentences, mask).unflatten(-1, (2, -1)).movedim(-2, 0)
