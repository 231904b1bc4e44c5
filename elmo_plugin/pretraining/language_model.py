"""The bidirectional language model: a biLM and the softmax over it, trained to say the word beside a token."""

from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Optional, Union

import torch
from allennlp.common import Lazy
from allennlp.common.checks import ConfigurationError
from allennlp.data import TextFieldTensors, Vocabulary
from allennlp.models import Model
from allennlp.modules import Seq2SeqEncoder
from allennlp.nn.util import add_sentence_boundary_token_ids
from torch import Tensor, nn

from elmo_plugin.bilm import BiLM, ElmoLstm, WordEncoder, check_precision, dtype_on, warn_of_emulation
from elmo_plugin.checkpoints import bilm_keys, resolve_bilm
from elmo_plugin.config_keys import probability
from elmo_plugin.lstm import LstmState
from elmo_plugin.pretraining.causality import refuse_leaks
from elmo_plugin.pretraining.perplexity import BidirectionalPerplexity, Throughput
from elmo_plugin.pretraining.softmax import LmSoftmax
from elmo_plugin.pretraining.softmax_source import resolve_softmax
from elmo_plugin.pretraining.vocabulary import BEGIN_ID, END_ID, UNKNOWN_ID, words_of


class Predictions(NamedTuple):
    """What one direction is asked: vectors (N, P), the vocabulary ids (N,) that each should predict, and their places.

    `places` (B, T + 1) of sentences, or (S, U) of a window, is True where there is one of the N, row after row.
    """

    vectors: Tensor
    targets: Tensor
    places: Tensor


@Model.register("bilm")
class BidirectionalLanguageModel(Model):
    """Both directions of a biLM over one token encoder and under one softmax (ELMo §3.1).

    The loss is the mean of the two negative log likelihoods a token, in nats.

    Registered as a `Model` with name `bilm`.

    # Parameters

    vocab : `Vocabulary`
        Namespace `tokens`, in the order of bilm-tf's vocabulary file; `text_shards` and `bilm-tf` make such ones.
    bilm : `Union[str, dict[str, Any]]`
        As in `elmo`: `{"options": {…}, "seed": n}` to start anew, `{"pretrained": …}` or the source alone to go on from
        any checkpoint. A checkpoint's table of words is put into the order of the vocabulary.
    softmax : `Optional[Lazy[LmSoftmax]]`
        `full`, `sampled` or `adaptive`; by default the one that the biLM came with, or `full`.
    dropout : `float`
        Of each LSTM layer's input and of the vectors that predict (bilm-tf's `dropout`).
    share_embedding_softmax : `bool`
        Of a word-input biLM: one table of vectors for reading and for predicting.
    contextualizer : `Optional[Seq2SeqEncoder]`
        In place of the biLM's LSTM, for whole sentences. It is refused if a direction sees what it predicts.
    precision : `str`
        Of matrix products: `float32`; `bfloat16`, which is float32 on a processor that would emulate it; or `auto`:
        bfloat16 where the device computes it natively, else float32.
    kernel : `str`
        Name of the LSTM's kernel, or `auto`.
    """

    default_predictor = "bilm"

    def __init__(
        self,
        vocab: Vocabulary,
        bilm: Union[str, dict[str, Any]],
        softmax: Optional[Lazy[LmSoftmax]] = None,
        dropout: float = 0.0,
        share_embedding_softmax: bool = False,
        contextualizer: Optional[Seq2SeqEncoder] = None,
        precision: str = "float32",
        kernel: str = "auto",
        serialization_dir: Optional[str] = None,
    ) -> None:
        super().__init__(vocab, serialization_dir=serialization_dir)
        self.precision = check_precision(precision)
        probability(dropout=dropout)
        words = words_of(vocab)
        keys = bilm_keys(bilm)
        self.bilm = resolve_bilm(_with_vocabulary_size(keys, len(words)), kernel, serialization_dir, words=words)
        _check_word_table(self.bilm, len(words))
        if contextualizer is not None:
            self.bilm.lstm = _fitting(contextualizer, self.bilm)
        if isinstance(self.bilm.lstm, ElmoLstm):  # its directions never meet
            self.bilm.lstm.input_dropout.p = dropout
        else:
            refuse_leaks(self.bilm.lstm)
        self.dropout = nn.Dropout(dropout)
        input_dim = self.bilm.lstm.get_output_dim() // 2  # P
        self.softmax = resolve_softmax(softmax, keys, words, input_dim, serialization_dir)
        if share_embedding_softmax:
            table = _word_table(self.bilm)
            self.softmax.tie(table)
            if "options" in keys:  # a fresh table: N(0, 1/P), because scores by N(0, 1) are far too certain
                with torch.no_grad():
                    table.weight.mul_(input_dim**-0.5)
        self.perplexity = BidirectionalPerplexity()
        self.throughput = Throughput()
        self.carried: dict[bool, LstmState] = {}
        """The state after the last window of streams, apart for training (True) and evaluation (False)."""

    def forward(
        self, tokens: Optional[TextFieldTensors] = None, windows: Optional[dict[str, Any]] = None
    ) -> dict[str, Tensor]:
        """Score a batch.

        # Parameters

        tokens : sentences, `characters` (B, T, C) and `words` (B, T), without boundaries
        windows : a window of streams, see `UnrolledStreams`

        # Returns

        loss : `Tensor` (), if there is a token to predict
        forward_log_probs, backward_log_probs, mask : `Tensor` (B, T + 1)
            In evaluation, of sentences. Of n words, the first n + 1 places are those of w₁ … wₙ, `</S>` forward, and
            of `<S>`, w₁ … wₙ backward: a natural logarithm each, over the full softmax. `mask` says where they are.
        """
        with self._autocast():
            if windows is not None:
                forward, backward = self._predict_windows(windows)
            elif tokens is not None:
                forward, backward = self._predict_sentences(tokens)
            else:
                raise ConfigurationError("the batch holds neither 'tokens' nor 'windows'")
            losses = [self._score(predictions) for predictions in (forward, backward)]  # (N,) each
        if self.softmax.exact or not self.training:
            with torch.no_grad():
                self.perplexity(*losses, forward.targets == UNKNOWN_ID)  # type: ignore[call-arg]
        if self.training:
            self.throughput.add(forward.targets.numel())
        output: dict[str, Tensor] = {}
        if forward.targets.numel():  # of several processes one may be left with nothing: AllenNLP's mean leaves it out
            output["loss"] = (losses[0].mean() + losses[1].mean()) / 2
        if tokens is not None and not self.training:
            output |= _by_sentence(losses, forward.places)
        return output

    def make_output_human_readable(self, output_dict: dict[str, Any]) -> dict[str, Any]:
        """Log probabilities as a list a sentence, as long as the sentence."""
        mask = output_dict.pop("mask", None)
        if mask is not None:
            for name in ("forward_log_probs", "backward_log_probs"):
                rows = zip(output_dict[name], mask, strict=True)
                output_dict[name] = [log_probs[present].tolist() for log_probs, present in rows]
        return output_dict

    def get_metrics(self, reset: bool = False) -> dict[str, float]:
        """Perplexities, out-of-vocabulary rate and token count, over the full softmax or not at all; in training also
        tokens a second. Before the epoch's end, which resets them, only what a progress bar has room for."""
        metrics = self.perplexity.get_metric(reset)
        if not reset:
            metrics = {name: metrics[name] for name in ("perplexity",) if name in metrics}
        return {**metrics, **self.throughput.get_metric(reset)} if self.training else metrics

    def training_state(self) -> dict[str, Any]:
        """What training carries from batch to batch beside the weights: the LSTM's state and the metrics' counts."""
        carried = self.carried.get(True)
        state = None if carried is None else [part.cpu() for part in carried]
        return {"carried": state, "counts": dict(self.perplexity.counts)}

    def restore_training_state(self, state: dict[str, Any]) -> None:
        """Go on from what `training_state` gave."""
        if state["carried"] is not None:
            self.carried[True] = LstmState(*state["carried"])
        self.perplexity.counts = dict(state["counts"])

    def _autocast(self) -> AbstractContextManager[Any]:
        device = next(self.parameters()).device
        warn_of_emulation(device, self.precision)
        dtype = dtype_on(device, self.precision)
        return torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32)

    def _score(self, predictions: Predictions) -> Tensor:
        rows = predictions.targets - 1  # (N,), the softmax knows no padding
        if self.training:
            return torch.as_tensor(self.softmax(self.dropout(predictions.vectors), rows))  # (N,)
        return self.softmax.nll(predictions.vectors, rows)  # (N,)

    def _predict_windows(self, windows: dict[str, Any]) -> tuple[Predictions, Predictions]:
        """Read one window in each direction, from where the last one ended."""
        lstm, encoder = self.bilm.lstm, self.bilm.token_encoder
        if not isinstance(lstm, ElmoLstm):
            raise ConfigurationError(
                f"'contextualizer' is {type(lstm).__name__}, which carries no state from window to window; wanted "
                "'elmo_lstm', or a data loader of whole sentences"
            )
        both = [windows["forward"], windows["backward"]]
        ids = torch.cat([part["characters" if encoder.input_dims == 3 else "words"] for part in both])  # (2S, U, ·)
        vectors = encoder(encoder.fit(ids)).to(next(lstm.parameters()).dtype).chunk(2)  # (S, U, P) each
        targets = [part["targets"] for part in both]  # (S, U) each
        before = self._state_before(bool(windows["first"]), vectors[0])
        present = [part > 0 for part in targets]  # (S, U) each
        outputs = [
            lstm.run_direction(
                direction,
                vectors[direction],
                present[direction].sum(dim=1),
                LstmState(*(part[:, direction] for part in before)),
            )
            for direction in (0, 1)
        ]
        states = zip(*(output.state for output in outputs), strict=True)
        self.carried[self.training] = LstmState(*(torch.stack(parts, dim=1).detach() for parts in states))
        forward, backward = (
            Predictions(output.layers[-1][here], wanted[here], here)
            for output, wanted, here in zip(outputs, targets, present, strict=True)
        )
        return forward, backward

    def _state_before(self, first: bool, like: Tensor) -> LstmState:
        carried = self.carried.get(self.training)
        if first or carried is None:
            return self.bilm.lstm.zero_state(like.size(0), like)
        return LstmState(*(part.to(like.device) for part in carried))

    def _predict_sentences(self, tokens: TextFieldTensors) -> tuple[Predictions, Predictions]:
        """Read whole sentences; the vectors beside a token predict it, up to the boundaries."""
        words = tokens["words"]["tokens"]  # (B, T)
        present = words > 0  # (B, T)
        targets, mask = add_sentence_boundary_token_ids(words, present, BEGIN_ID, END_ID)  # type: ignore[arg-type]  # (B, T + 2)
        encoder = self.bilm.token_encoder
        ids = tokens["characters"]["elmo_tokens"] if encoder.input_dims == 3 else words  # (B, T, ·)
        vectors = encoder(encoder.bounded(ids)) * mask.unsqueeze(-1)  # (B, T + 2, P)
        vectors = vectors.to(next(self.bilm.lstm.parameters()).dtype)
        outputs = self.bilm.lstm(vectors, mask)  # (B, T + 2, 2P) of the last layer, or (n_layers, B, T + 2, 2P)
        forward, backward = (outputs if outputs.dim() == 3 else outputs[-1]).chunk(2, dim=-1)  # (B, T + 2, P) each
        inner = mask[:, 1:]  # (B, T + 1): each place but a sentence's first, or each but its last
        return (
            Predictions(forward[:, :-1][inner], targets[:, 1:][inner], inner),
            Predictions(backward[:, 1:][inner], targets[:, :-1][inner], inner),
        )


def _fitting(contextualizer: Seq2SeqEncoder, bilm: BiLM) -> Any:
    """The same, if it reads the biLM's token vectors."""
    found, wanted = contextualizer.get_input_dim(), bilm.options.lstm.projection_dim
    if found != wanted:
        raise ConfigurationError(
            f"'contextualizer' reads vectors of {found} dimensions; the biLM's tokens have {wanted}"
        )
    return contextualizer


def _by_sentence(losses: list[Tensor], places: Tensor) -> dict[str, Tensor]:
    """Losses (N,) of both directions as log probabilities (B, T + 1), and where they are."""
    forward, backward = (nats.new_zeros(places.shape).masked_scatter(places, -nats) for nats in losses)  # (B, T + 1)
    return {"forward_log_probs": forward, "backward_log_probs": backward, "mask": places}


def _with_vocabulary_size(keys: dict[str, Any], n_words: int) -> dict[str, Any]:
    """The `bilm` block, its options completed by V."""
    options = keys.get("options")
    if not isinstance(options, dict):
        return keys
    stated = options.get("n_tokens_vocab", n_words)
    if stated != n_words:
        raise ConfigurationError(f"'bilm.options.n_tokens_vocab' is {stated!r}; the vocabulary has {n_words} words")
    return {**keys, "options": {**options, "n_tokens_vocab": n_words}}


def _check_word_table(bilm: BiLM, n_words: int) -> None:
    """Raise `ConfigurationError` for a word-input biLM from elsewhere whose words are not those of the vocabulary."""
    encoder = bilm.token_encoder
    if isinstance(encoder, WordEncoder) and encoder.embedding.num_embeddings != n_words + 1:
        raise ConfigurationError(
            f"'bilm' reads {encoder.embedding.num_embeddings - 1} words and the vocabulary has {n_words}; wanted the "
            "vocabulary that it was trained with: type 'pretrained_bilm', or 'bilm-tf' with its file"
        )
    if isinstance(encoder, WordEncoder) and encoder.boundary_ids != (BEGIN_ID, END_ID):
        raise ConfigurationError(
            f"'bilm': expected <S> and </S> to have the ids {BEGIN_ID} and {END_ID}, got {encoder.boundary_ids}; its "
            "vocabulary file, by which its words are put in order, must lie beside its weights"
        )


def _word_table(bilm: BiLM) -> nn.Embedding:
    if not isinstance(bilm.token_encoder, WordEncoder):
        raise ConfigurationError("'share_embedding_softmax' is true, but the biLM reads characters; wanted words")
    return bilm.token_encoder.embedding
