"""The mix that a model was trained with, wherever it has it."""

from typing import cast

from torch import nn

from elmo_plugin.mixes.elmo import Elmo
from elmo_plugin.mixes.enhanced_encoder import ElmoEnhancedEncoder
from elmo_plugin.mixes.layer_mix import ConcatenateMix, LayerMix


def trained_mix(model: nn.Module, elmo: Elmo) -> LayerMix:
    """The first mix of a model's ELMo; where that hands on all layers, the first of `elmo_enhanced` behind it."""
    mix = cast(LayerMix, elmo.mixes[0])
    if isinstance(mix, ConcatenateMix):
        for encoder in model.modules():
            if isinstance(encoder, ElmoEnhancedEncoder):
                return encoder.input_mix or encoder.output_mix or mix
    return mix
