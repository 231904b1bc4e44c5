"""IDS → LAYERS: the token encoder, the stacked bidirectional LSTM, and the biLM made of the two.

A batch of sentences takes these steps in `BiLM.forward`:

1. `TokenEncoder.bounded` puts `<S>` and `</S>` around each sentence: ids (B, T + 2, ·).
2. `TokenEncoder.look_up` or the word cache gives the vector of each distinct word, and the row of each token: a
   `TokenTable`.
3. `ElmoLstm` reads the tokens in both directions at once, layer by layer, with a kernel of `elmo_plugin.lstm`.
4. The token vectors, twice side by side, and the outputs of the LSTMs are the layers (L, B, T + 2, D).
"""

from elmo_plugin.bilm.bilm import BiLM, BiLMOutput, count_parameters, language_of, read_extra_state
from elmo_plugin.bilm.elmo_lstm import ElmoLstm, ProjectedLstm
from elmo_plugin.bilm.extra_state import description_to_tensor, tensor_to_description
from elmo_plugin.bilm.initial_state import CarriedState, InitialState, WarmState, ZeroState, identity, warm_up
from elmo_plugin.bilm.precision import (
    CHOICES,
    check_precision,
    dtype_on,
    precision_on,
    warn_of_fallback,
)
from elmo_plugin.bilm.registered import (
    CONTEXTUALIZERS,
    build_contextualizer,
    build_registered,
    last_layer,
    reset_states,
    sizes_of,
)
from elmo_plugin.bilm.sizes import BiLMOptions, CharCnnOptions, LstmOptions, ManyLangsOptions
from elmo_plugin.bilm.token_encoder import (
    IDS,
    ByteEncoder,
    CharacterEncoder,
    CharacterLevelEncoder,
    CharCnn,
    ManyLangsEncoder,
    TokenEncoder,
    WordEncoder,
    add_boundaries,
    check_padding,
)

__all__ = [
    "CHOICES",
    "CONTEXTUALIZERS",
    "IDS",
    "BiLM",
    "BiLMOptions",
    "BiLMOutput",
    "ByteEncoder",
    "CarriedState",
    "CharCnn",
    "CharCnnOptions",
    "CharacterEncoder",
    "CharacterLevelEncoder",
    "ElmoLstm",
    "InitialState",
    "LstmOptions",
    "ManyLangsEncoder",
    "ManyLangsOptions",
    "ProjectedLstm",
    "TokenEncoder",
    "WarmState",
    "WordEncoder",
    "ZeroState",
    "add_boundaries",
    "build_contextualizer",
    "build_registered",
    "check_padding",
    "check_precision",
    "count_parameters",
    "description_to_tensor",
    "dtype_on",
    "identity",
    "language_of",
    "last_layer",
    "precision_on",
    "read_extra_state",
    "reset_states",
    "sizes_of",
    "tensor_to_description",
    "warm_up",
    "warn_of_fallback",
]
