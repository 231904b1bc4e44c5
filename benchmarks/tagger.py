"""Time a training step of a tagger on frozen ELMo, with AllenNLP's token embedder and with ours."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from allennlp.common import Params
from allennlp.data import Batch, Instance, Token, Vocabulary
from allennlp.data.fields import SequenceLabelField, TextField
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer, SingleIdTokenIndexer
from allennlp.models import Model
from allennlp.nn.util import get_text_field_mask, move_to_device
from torch import Tensor

from benchmarks.agreement import Agreement, check
from benchmarks.settings import Settings
from benchmarks.systems import ALLENNLP, PRECISIONS, clear, weight_files
from benchmarks.table import AGREEMENT, TIMES, Table, time_cells
from benchmarks.text import Sentences, spread
from benchmarks.timing import Call, interleave

BATCH_SIZE = 32
N_TAGS = 17
"""The number of parts of speech in Universal Dependencies."""
WORD_DIM, HIDDEN_DIM = 100, 100
INDEXER = "characters"
"""Not `elmo`, which the tagger would reserve for an ELMo of its own."""


class Trained(NamedTuple):
    """A tagger, its optimizer and the batch that it trains on."""

    model: Model
    optimizer: torch.optim.Optimizer
    batch: dict[str, Any]

    def step(self) -> None:
        """Run one training step: forward, backward, update."""
        self.model.train()
        self.optimizer.zero_grad()
        self.model(**self.batch)["loss"].backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optimizer.step()

    @torch.no_grad()
    def vectors(self) -> Tensor:
        """Return ELMo and word vectors as the tagger reads them, (1, B, T, ·). This caches the words of the batch."""
        clear(self.model)
        text: Any = self.model.eval().text
        embedded: Tensor = text.text_field_embedder(self.batch["tokens"])  # (B, T, ·)
        return embedded.unsqueeze(0)


def measure(settings: Settings) -> Iterator[Table]:
    """Yield one table."""
    sentences = spread(settings.text.sentences, BATCH_SIZE)
    embedders = {ALLENNLP.name: {"type": "elmo_token_embedder"}}
    embedders |= {f"ours, {precision}": {"type": "elmo", "precision": precision} for precision in PRECISIONS}
    taggers = {name: trained(embedder, sentences, settings) for name, embedder in embedders.items()}
    agreements = compare(taggers)
    calls = []
    for name, tagger in taggers.items():
        calls.append(Call(name, tagger.step, partial(clear, tagger.model)))
        if name != ALLENNLP.name:
            calls.append(Call(f"{name}, words cached", tagger.step, tagger.vectors))
    times = interleave(calls, settings.repeats, settings.device)
    yield Table(
        f"A training step of `elmo_tagger`, {len(sentences)} sentences",
        f"{sum(map(len, sentences))} tokens; frozen ELMo and word vectors of {WORD_DIM} into a biLSTM of "
        f"2 × {HIDDEN_DIM}, {N_TAGS} tags, Adam. The word cache is empty unless a row says otherwise; in training, "
        f"words are cached from the second epoch on. Rounds: {settings.repeats}.",
        ["", *TIMES, AGREEMENT],
        [
            [name, *time_cells(each, times[ALLENNLP.name]), str(agreements.get(name, ""))]
            for name, each in times.items()
        ],
    )


def compare(taggers: dict[str, Trained]) -> dict[str, Agreement]:
    """Copy the weights of AllenNLP's tagger to all, and compare the vectors they read. Raises `Disagreement`."""
    first = taggers[ALLENNLP.name]
    shared = {name: value for name, value in first.model.state_dict().items() if "elmo" not in name}
    expected, mask = first.vectors(), get_text_field_mask(first.batch["tokens"])  # (1, B, T, ·), (B, T)
    agreements = {}
    for precision in PRECISIONS:
        name = f"ours, {precision}"
        taggers[name].model.load_state_dict(shared, strict=False)
        agreements[name] = check(name, precision, taggers[name].vectors(), expected, mask)
    return agreements


def trained(embedder: dict[str, Any], sentences: Sentences, settings: Settings) -> Trained:
    """Build a tagger with this token embedder, its optimizer and its batch."""
    indexers = {INDEXER: ELMoTokenCharactersIndexer(), "tokens": SingleIdTokenIndexer(lowercase_tokens=True)}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    instances = []
    for sentence in sentences:
        text = TextField([Token(word) for word in sentence], indexers)
        tags = [f"tag{sum(word.encode()) % N_TAGS}" for word in sentence]  # the word decides its tag
        instances.append(Instance({"tokens": text, "tags": SequenceLabelField(tags, text)}))
        instances[-1].count_vocab_items(counts)  # type: ignore[arg-type]
    vocab = Vocabulary(counts)  # type: ignore[arg-type]
    batch = Batch(instances)
    batch.index_instances(vocab)
    model = Model.from_params(Params(config(embedder, settings)), vocab=vocab).to(settings.device)
    optimizer = torch.optim.Adam(parameter for parameter in model.parameters() if parameter.requires_grad)
    return Trained(model, optimizer, move_to_device(batch.as_tensor_dict(), settings.device))


def config(embedder: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Return the `model` block of a config with this token embedder."""
    elmo = {**embedder, **weight_files(settings.files)}
    words = {"type": "embedding", "embedding_dim": WORD_DIM}
    input_size = WORD_DIM + settings.options.layer_dim
    return {
        "type": "elmo_tagger",
        "elmo": None,
        "text_field_embedder": {"token_embedders": {INDEXER: elmo, "tokens": words}},
        "encoder": {"type": "lstm", "input_size": input_size, "hidden_size": HIDDEN_DIM, "bidirectional": True},
        "crf": False,
        "dropout": 0.5,
    }
