"""Find the ELMo of a trained model, ours or AllenNLP's own, and the mix that was trained with it."""

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.elmo import Elmo as AllenNlpElmo
from allennlp.modules.elmo import _ElmoBiLm
from torch import nn

from elmo_plugin.bilm import BiLMOptions
from elmo_plugin.checkpoints import ALLENNLP_BILM, Checkpoint, SavedMix, allennlp_checkpoint, build_bilm
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.elmo.enhanced_encoder import ElmoEnhancedEncoder
from elmo_plugin.elmo.mixes import ConcatenateMix, LayerMix, ScalarMix


def trained_elmo(model: nn.Module) -> tuple[Elmo, LayerMix]:
    """Return the first ELMo of a model and the first mix trained with it, perhaps in `elmo_enhanced`.

    If the model uses AllenNLP's own `Elmo`, its weights are copied into an `Elmo` of this library.
    Raises `ConfigurationError` for a model without ELMo.
    """
    for module in model.modules():
        if isinstance(module, Elmo):
            mix = module.mixes[0]
            enhanced = next((part for part in model.modules() if isinstance(part, ElmoEnhancedEncoder)), None)
            if enhanced is not None and isinstance(mix, ConcatenateMix):  # it passes all layers on
                mix = enhanced.input_mix or enhanced.output_mix or mix
            return module, mix
        if isinstance(module, AllenNlpElmo) and isinstance(getattr(module, ALLENNLP_BILM), _ElmoBiLm):
            mix, name = module._scalar_mixes[0], type(model).__name__
            options = BiLMOptions.from_dict(getattr(module, ALLENNLP_BILM)._token_embedder._options)
            checkpoint = allennlp_checkpoint(module.state_dict(), f"{ALLENNLP_BILM}.", options, name)
            weights = [weight.item() for weight in mix.scalar_parameters]
            elmo = elmo_of(checkpoint, SavedMix(weights, mix.gamma.item(), mix.do_layer_norm), name)
            return elmo.to(next(module.parameters()).device).eval(), elmo.mixes[0]
    raise ConfigurationError(f"the archive's model: expected one with ELMo, got a {type(model).__name__}")


def elmo_of(checkpoint: Checkpoint, saved: SavedMix, source: str) -> Elmo:
    """Return a frozen `Elmo` without dropout, with the weights and the mix of AllenNLP's own `Elmo`."""
    bilm = build_bilm(checkpoint, source=source).requires_grad_(False)
    sizes = bilm.options
    mix = ScalarMix(
        sizes.num_layers, sizes.layer_dim, saved.scalar_parameters, trainable=False, do_layer_norm=saved.do_layer_norm
    )
    with torch.no_grad():
        mix.gamma.fill_(saved.gamma)
    return Elmo.from_parts(bilm, [mix], dropout=0.0)
