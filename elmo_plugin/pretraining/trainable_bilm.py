"""Build the biLM that a language model trains: new or pretrained, with another contextualizer, with a shared table."""

from dataclasses import replace
from os import fspath
from typing import Any, Optional

import torch
from allennlp.common import Lazy
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder

from elmo_plugin.bilm import BiLM, ElmoLstm, ManyLangsEncoder, WordEncoder, build_contextualizer
from elmo_plugin.checkpoints import Checkpoint, build_bilm, find_checkpoint, in_order_of, resolve_bilm
from elmo_plugin.pretraining.softmax import LmSoftmax
from elmo_plugin.pretraining.vocabulary import BEGIN_ID, END_ID


def build_trainable_bilm(
    words: list[str], keys: dict[str, Any], kernel: str, serialization_dir: Optional[str]
) -> tuple[BiLM, Optional[Checkpoint]]:
    """Build the biLM that a config's `bilm` names, and return it with the checkpoint that it came from, if any.

    Raises `ConfigurationError` for a biLM that cannot be trained to predict these words.
    """
    checkpoint = None
    if "options" in keys:
        options = keys["options"]
        if isinstance(options, dict):
            stated = options.get("n_tokens_vocab", len(words))
            if stated != len(words):
                raise ConfigurationError(
                    f"'bilm.options.n_tokens_vocab': expected {len(words)}, the size of the vocabulary, got {stated!r}"
                )
            keys = {**keys, "options": {**options, "n_tokens_vocab": len(words)}}
        bilm = resolve_bilm(keys, kernel, serialization_dir)
    else:
        checkpoint = find_checkpoint(keys, serialization_dir)
        source = fspath(keys.get("pretrained") or keys["weight_file"])
        bilm = build_bilm(in_order_of(words, checkpoint), kernel, source)
    encoder = bilm.token_encoder
    if isinstance(encoder, ManyLangsEncoder):
        raise ConfigurationError("'bilm': expected a biLM that reads bytes or words, got one of ELMoForManyLangs")
    if isinstance(encoder, WordEncoder):
        n_words = encoder.embedding.num_embeddings - 1  # row 0 is padding
        if n_words != len(words):
            raise ConfigurationError(
                f"'bilm': expected the {len(words)} words of the vocabulary, got {n_words}; use a vocabulary of type "
                "'pretrained_bilm', or of type 'bilm-tf' with the file that the biLM was trained with"
            )
        if encoder.boundary_ids != (BEGIN_ID, END_ID):
            raise ConfigurationError(
                f"'bilm': expected the ids {BEGIN_ID} and {END_ID} for <S> and </S>, got {encoder.boundary_ids}; put "
                "its vocabulary file, which gives the order of its words, beside its weights"
            )
    return bilm, checkpoint


def put_contextualizer(bilm: BiLM, contextualizer: Lazy[Seq2SeqEncoder]) -> None:
    """Replace the LSTMs of a biLM by another contextualizer, whose config becomes part of the biLM's options.

    Raises `ConfigurationError` for an encoder of other sizes: what is trained could not be used as a biLM.
    """
    params = contextualizer._params
    config = {"type": params} if isinstance(params, str) else params.as_dict(quiet=True)
    bilm.lstm = encoder = build_contextualizer(config, bilm.options.lstm.projection_dim, is_trusted=True)
    if isinstance(encoder, ElmoLstm):  # the options describe it in their block `lstm`
        bilm.options = replace(bilm.options, contextualizer=None, lstm=encoder.options)
    else:
        bilm.options = replace(bilm.options, contextualizer=config)


def share_table(bilm: BiLM, softmax: LmSoftmax, is_new: bool) -> None:
    """Predict words with the table of vectors that a word-input biLM reads."""
    encoder = bilm.token_encoder
    if not isinstance(encoder, WordEncoder):
        raise ConfigurationError(
            "'share_embedding_softmax': expected a biLM that reads words, got one that reads characters"
        )
    softmax.tie(encoder.embedding)
    if is_new:  # N(0, 1/P): with N(0, 1) the first predictions would be far too certain
        with torch.no_grad():
            encoder.embedding.weight.mul_(softmax.input_dim**-0.5)
