"""The bidirectional language model: a biLM, and the softmax that its two directions share."""

import ctypes
import os
import sys
from dataclasses import replace
from functools import cache
from typing import Any, Optional, Union

import torch
from allennlp.common import Lazy
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import is_distributed
from allennlp.data import TextFieldTensors, Vocabulary
from allennlp.models import Model
from allennlp.modules import Seq2SeqEncoder
from allennlp.nn.util import dist_reduce_sum
from torch import Tensor, distributed, nn

from elmo_plugin.bilm import (
    BiLM,
    ElmoLstm,
    ManyLangsEncoder,
    WordEncoder,
    add_boundaries,
    build_contextualizer,
    check_padding,
    check_precision,
    dtype_on,
    last_layer,
    warn_of_fallback,
)
from elmo_plugin.checkpoints import Checkpoint, bilm_keys, build_bilm, find_checkpoint, in_order_of, resolve_bilm
from elmo_plugin.common import probability
from elmo_plugin.lstm import LstmState
from elmo_plugin.pretraining.causality import check_causality
from elmo_plugin.pretraining.metrics import BidirectionalPerplexity, Throughput, WordOrder
from elmo_plugin.pretraining.softmax import FullSoftmax, LmSoftmax, saved_softmax
from elmo_plugin.pretraining.vocabulary import BEGIN_ID, END_ID, UNKNOWN_ID, language_in, words_of
from elmo_plugin.tensors import outside_of_graphs

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""Parameters of `mallopt`, from glibc's `malloc.h`."""
PRIMITIVES = 128
"""The number of routines, one per shape of a product, that oneDNN caches in training. Its own default is 1,024."""


@Model.register("bilm")
class BidirectionalLanguageModel(Model):
    """Trains both directions of a biLM, which share the token encoder and the softmax (ELMo §3.1).

    The loss is the mean negative log likelihood per token of both directions, in nats.

    Registered as a `Model` with name `bilm`.

    ```jsonnet
    model: {
      type: 'bilm',
      bilm: { options: { lstm: { … }, char_cnn: { … } }, seed: 0 },  // or 'runs/bilm/model.tar.gz' to fine-tune
      softmax: { type: 'sampled', n_samples: 8192 },
      dropout: 0.1,
    },
    ```

    # Parameters

    vocab : `Vocabulary`
        A vocabulary of type `text_shards`, `bilm-tf` or `pretrained_bilm`: its namespace `tokens` has the order of
        bilm-tf's vocabulary file.
    bilm : `Union[str, dict[str, Any]]`
        As in `elmo`: `{"options": {…}, "seed": n}` trains a new biLM; `{"pretrained": …}`, or the source alone,
        fine-tunes a checkpoint that reads bytes or words. A table of words is put into the order of the vocabulary.
    softmax : `Optional[Lazy[LmSoftmax]]`
        `full`, `sampled` or `adaptive`. The default is the softmax in the checkpoint, or `full` if there is none.
    dropout : `float`
        Applied to the input of each LSTM layer and of the softmax (bilm-tf's `dropout`).
    share_embedding_softmax : `bool`
        Read and predict words with the same table of vectors. Only for a biLM that reads words.
    contextualizer : `Optional[Lazy[Seq2SeqEncoder]]`
        Replaces the biLM's LSTMs, for whole sentences. It must pass the causality check.
    precision : `str`
        The number type of matrix products: `float32`; `bfloat16`, which falls back to float32 on a processor that is
        faster in that; or `auto`, which is bfloat16 where the device is faster in it.
    kernel : `str`
        The name of the LSTM kernel, or `auto`.
    """

    default_predictor = "bilm"

    def __init__(
        self,
        vocab: Vocabulary,
        bilm: Union[str, dict[str, Any]],
        softmax: Optional[Lazy[LmSoftmax]] = None,
        dropout: float = 0.0,
        share_embedding_softmax: bool = False,
        contextualizer: Optional[Lazy[Seq2SeqEncoder]] = None,
        precision: str = "float32",
        kernel: str = "auto",
        serialization_dir: Optional[str] = None,
    ) -> None:
        super().__init__(vocab, serialization_dir=serialization_dir)
        self.precision = check_precision(precision, ["float32", "bfloat16", "auto"])
        probability(dropout=dropout)
        words = words_of(vocab)
        self.bilm, checkpoint = build_trainable_bilm(words, bilm_keys(bilm), kernel, serialization_dir)
        options = replace(self.bilm.options, language=self.bilm.options.language or language_in(vocab))
        if contextualizer is not None:  # its config becomes part of the biLM's options
            params = contextualizer._params
            config = {"type": params} if isinstance(params, str) else params.as_dict(quiet=True)
            self.bilm.lstm = build_contextualizer(config, options.lstm.projection_dim, is_trusted=True)
            options = replace(options, contextualizer=config)
        if isinstance(self.bilm.lstm, ElmoLstm):  # its directions never meet, and the block `lstm` describes it
            self.bilm.lstm.input_dropout.p = dropout
            options = replace(options, contextualizer=None, lstm=self.bilm.lstm.options)
        else:
            check_causality(self.bilm.lstm)
        self.bilm.options = options
        self.dropout = nn.Dropout(dropout)
        input_dim = self.bilm.lstm.get_output_dim() // 2  # P
        if softmax is None and checkpoint is not None and checkpoint.softmax is not None:
            self.softmax = saved_softmax(checkpoint.softmax, checkpoint.vocabulary, words, input_dim)
        else:
            self.softmax = (softmax or Lazy(FullSoftmax)).construct(vocab_size=len(words), input_dim=input_dim)
        if share_embedding_softmax:
            encoder = self.bilm.token_encoder
            if not isinstance(encoder, WordEncoder):
                raise ConfigurationError(
                    "'share_embedding_softmax': expected a biLM that reads words, got one that reads characters"
                )
            self.softmax.tie(encoder.embedding)
            if checkpoint is None:  # N(0, 1/P): with N(0, 1) the first predictions would be far too certain
                with torch.no_grad():
                    encoder.embedding.weight.mul_(input_dim**-0.5)
        self.word_order = WordOrder(vocab) if self.softmax.row_is_rank else None
        self.perplexity = BidirectionalPerplexity()
        self.throughput = Throughput()
        self.carried: dict[bool, LstmState] = {}
        """The state after the last window of streams, for training (True) and for evaluation (False)."""

    @outside_of_graphs  # a biLM runs its own kernels
    def forward(
        self, tokens: Optional[TextFieldTensors] = None, windows: Optional[dict[str, Any]] = None
    ) -> dict[str, Tensor]:
        """Score a batch.

        # Parameters

        tokens : sentences, `characters` (B, T, C) and `words` (B, T), without boundaries
        windows : a window over streams, see `UnrolledStreams`

        # Returns

        loss : `Tensor` (), if the batch has a token to predict
        n_tokens : `Tensor` (), in evaluation: the weight of the batch, for `--batch-weight-key`
        forward_log_probs, backward_log_probs, mask : `Tensor` (B, T + 1)
            In evaluation of sentences: natural logarithms over the full softmax. For n words, the first n + 1 values
            belong to w₁ … wₙ, `</S>` forward, and to `<S>`, w₁ … wₙ backward. `mask` is True for these.
        """
        device = next(self.parameters()).device
        if self.training and device.type == "cpu":
            prepare_memory()
        warn_of_fallback(device, self.precision)
        dtype = dtype_on(device, self.precision)
        with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
            both, present = self._read_windows(windows) if windows is not None else self._read_sentences(tokens or {})
            score = self.softmax if self.training else self.softmax.nll
            losses = [score(self.dropout(vectors), rows) for vectors, rows in both]  # (N,) each
        forward_rows = both[0][1]  # (N,)
        if self.softmax.exact or not self.training:
            self.perplexity(*losses, forward_rows == UNKNOWN_ID - 1)  # type: ignore[call-arg]
        if self.training:
            self.throughput.add(len(forward_rows))
            if self.word_order is not None:
                self.word_order.add(forward_rows, self.softmax.config["type"])
        n_tokens = losses[0].new_tensor(losses[0].numel())
        if self.training and is_distributed():  # so that the mean gradient of the processes is that of all tokens
            n_tokens = dist_reduce_sum(n_tokens) / distributed.get_world_size()
        output = {} if self.training else {"n_tokens": n_tokens}
        # One of several processes may have an empty batch, which AllenNLP leaves out of the mean loss in evaluation.
        if n_tokens > 0:
            output["loss"] = (losses[0].sum() + losses[1].sum()) / (2 * n_tokens)
        if tokens is not None and not self.training:
            mask = output["mask"] = present.to(device)  # (B, T + 1)
            for name, nats in zip(("forward_log_probs", "backward_log_probs"), losses, strict=True):
                output[name] = nats.new_zeros(mask.shape).masked_scatter(mask, -nats)  # (B, T + 1)
        return output

    def make_output_human_readable(self, output_dict: dict[str, Any]) -> dict[str, Any]:
        """Convert log probabilities to one list per sentence, without padding."""
        mask = output_dict.pop("mask", None)
        if mask is not None:
            for name in ("forward_log_probs", "backward_log_probs"):
                output_dict[name] = [
                    row[present].tolist() for row, present in zip(output_dict[name], mask, strict=True)
                ]
        return output_dict

    def get_metrics(self, reset: bool = False) -> dict[str, float]:
        """Return the metrics of `BidirectionalPerplexity`, and in training tokens/s.

        Without `reset`, for the progress bar, only the perplexity and tokens/s are returned.
        """
        metrics = self.perplexity.get_metric(reset)
        if reset and self.training and self.word_order is not None:  # at the end of an epoch
            self.word_order.judge(self.softmax.config["type"])
        if not reset:
            metrics = {name: metrics[name] for name in ("perplexity",) if name in metrics}
        return {**metrics, **self.throughput.get_metric(reset)} if self.training else metrics

    def metric_names(self) -> list[str]:
        """Return the names of the metrics of a validation."""
        return ["perplexity", "forward_perplexity", "backward_perplexity", "oov_rate", "n_tokens"]

    def training_state(self) -> dict[str, Any]:
        """Return what training carries from batch to batch besides the weights: the LSTM states and the perplexity."""
        return {"carried": [part.cpu() for part in self.carried.get(True, ())], "sums": self.perplexity.sums}

    def restore_training_state(self, state: dict[str, Any]) -> None:
        """Restore a state that `training_state` returned."""
        if state["carried"]:
            self.carried[True] = LstmState(*(part.to(self.bilm.weight.device) for part in state["carried"]))
        self.perplexity.sums = state["sums"]

    def _read_windows(self, windows: dict[str, Any]) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
        """Read one window in each direction, starting from the state after the previous window.

        Returns what `select` returns for each direction, and where there is a word in it (S, U).
        """
        lstm, encoder = self.bilm.lstm, self.bilm.token_encoder
        if not isinstance(lstm, ElmoLstm):
            raise ConfigurationError(
                f"'contextualizer': expected 'elmo_lstm' for 'unrolled_streams', got {type(lstm).__name__}, which "
                "carries no state from window to window; use 'sentence_batches'"
            )
        both = [windows["forward"], windows["backward"]]
        key = "characters" if encoder.input_dims == 3 else "words"
        ids = torch.cat([part[key] for part in both]).cpu()  # (2S, U, ·)
        vectors = encoder(encoder.fit(ids)).to(self.bilm.weight.dtype).unflatten(0, (2, -1))  # (2, S, U, P)
        carried = self.carried.get(self.training)
        if carried is None or bool(windows["first"]):
            carried = lstm.zero_state(vectors.size(1), vectors)
        # Both directions read the same sentences, so their windows have the same lengths.
        targets = [part["targets"].cpu() for part in both]  # (S, U) each
        present = targets[0] > 0  # (S, U)
        check_padding(present, "the targets of a window")
        outputs, state = lstm.read_windows(vectors, present.sum(dim=1), carried)  # (2, S, U, P)
        self.carried[self.training] = LstmState(*(part.detach() for part in state))
        return [select(*each, present) for each in zip(outputs, targets, strict=True)], present

    def _read_sentences(self, tokens: TextFieldTensors) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
        """Read whole sentences. The vector at a token predicts the next one in its direction, boundaries included.

        Returns what `select` returns for each direction, and where there is a prediction in it (B, T + 1).
        """
        words = tokens["words"]["tokens"].cpu()  # (B, T)
        targets = add_boundaries(words, words > 0, BEGIN_ID, END_ID)  # (B, T + 2)
        mask = targets > 0
        encoder = self.bilm.token_encoder
        ids = tokens["characters"]["elmo_tokens"] if encoder.input_dims == 3 else words  # (B, T, ·)
        vectors = encoder(encoder.bounded(ids.cpu()))  # (B, T + 2, P)
        moved = mask.to(vectors.device, non_blocking=True)
        vectors = (vectors * moved.unsqueeze(-1)).to(next(self.bilm.lstm.parameters()).dtype)
        lstm = self.bilm.lstm
        # Ours needs the lengths on the CPU, and its output at the last token predicts nothing.
        is_ours = isinstance(lstm, ElmoLstm)
        outputs = lstm(vectors, mask, reads_last=False) if is_ours else last_layer(lstm, vectors, moved)
        # (B, T + 2, 2P) of the last layer, or of an `elmo_lstm` (n_layers, B, T + 2, 2P)
        forward, backward = (outputs if outputs.dim() == 3 else outputs[-1]).chunk(2, dim=-1)  # (B, T + 2, P) each
        present = mask[:, 1:]  # (B, T + 1): all tokens but the first, or all but the last
        both = [select(forward[:, :-1], targets[:, 1:], present), select(backward[:, 1:], targets[:, :-1], present)]
        return both, present


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
        bilm = build_bilm(in_order_of(words, checkpoint), kernel, keys.get("pretrained") or keys["weight_file"])
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


def select(outputs: Tensor, targets: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
    """Return the outputs (N, P) of one direction where `present` is True, and the rows of the softmax to predict (N,).

    `outputs` (B, T, P) gives the device; `targets` (B, T), ids of the vocabulary, and `present` (B, T) are on the CPU.
    """
    device = outputs.device
    places = present.flatten().nonzero().squeeze(1)  # (N,)
    rows = targets.flatten()[places] - 1  # (N,): the softmax has no row for padding
    vectors = outputs.flatten(0, 1).index_select(0, places.to(device, non_blocking=True))
    return vectors, rows.to(device, non_blocking=True)


@cache
def prepare_memory() -> None:
    """Prepare this process for training on a CPU, once: keep freed memory, and bound the cache of oneDNN.

    Each training step allocates the same tensors as the step before. glibc returns those of more than 32 MB to the
    system, which must then clear and map their pages again; that takes about a quarter of the time of a step. With both
    parameters it keeps them, and the peak memory of the process grows by up to a tenth.

    Batches of whole sentences keep bringing new shapes, and oneDNN caches a routine for each. A cache of 1,024 took
    400 MB more than one of 128, which took 4 % more processor time (docs/benchmarks.md, Load). PyTorch has no function
    for this, and oneDNN reads the environment once, at the first product of the process.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None  # musl has none
    if mallopt is not None and mallopt(M_MMAP_MAX, 0):
        mallopt(M_TRIM_THRESHOLD, -1)
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(PRIMITIVES))
