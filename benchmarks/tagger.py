"""One training step of a tagger on a frozen ELMo: AllenNLP's token embedder, and ours in its place."""

from collections import Counter, defaultdict
from collections.abc import Iterator
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
from benchmarks.contestants import PRECISIONS, AllenNlp, forget, pair
from benchmarks.settings import Settings
from benchmarks.table import Table, time_cells
from benchmarks.text import Sentences, spread
from benchmarks.timing import Call, interleave

BATCH_SIZE = 32
N_TAGS = 17
"""As many as Universal Dependencies has parts of speech."""
WORD_DIM, HIDDEN_DIM = 100, 100
ALLENNLP = AllenNlp().name
INDEXER = "characters"
"""Not `elmo`: those ids the tagger would keep for an ELMo of its own."""


class Trained(NamedTuple):
    """A tagger, its optimiser and the batch that it learns from."""

    model: Model
    optimizer: torch.optim.Optimizer
    batch: dict[str, Any]

    def step(self) -> None:
        """Forward, backward, update."""
        self.model.train()
        self.optimizer.zero_grad()
        self.model(**self.batch)["loss"].backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optimizer.step()

    @torch.no_grad()
    def vectors(self) -> Tensor:
        """What the tagger reads, ELMo and word vectors, (1, B, T, ·); the words of the batch are known afterwards."""
        self.forget()
        text: Any = self.model.eval().text
        embedded: Tensor = text.text_field_embedder(self.batch["tokens"])  # (B, T, ·)
        return embedded.unsqueeze(0)

    def forget(self) -> None:
        """Words and state of earlier batches."""
        forget(self.model)


def measure(settings: Settings) -> Iterator[Table]:
    """One table."""
    sentences = spread(settings.text.sentences, BATCH_SIZE)
    embedders = {ALLENNLP: {"type": "elmo_token_embedder"}}
    embedders |= {our_name(precision): {"type": "elmo", "precision": precision} for precision in PRECISIONS}
    taggers = {name: trained(embedder, sentences, settings) for name, embedder in embedders.items()}
    agreements = compare(taggers)
    calls = []
    for name, tagger in taggers.items():
        calls.append(Call(name, tagger.step, tagger.forget))
        if name != ALLENNLP:
            calls.append(Call(f"{name}, words known", tagger.step, tagger.vectors))
    timed = interleave(calls, settings.repeats, settings.device)
    yield Table(
        f"A training step of `elmo_tagger`, {len(sentences)} sentences",
        f"{sum(map(len, sentences))} tokens; frozen ELMo and word vectors of {WORD_DIM} into a biLSTM of "
        f"2 × {HIDDEN_DIM}, {N_TAGS} tags, Adam. Every word is new unless a line says otherwise; in training, from the "
        f"second epoch on, they are known. Rounds: {settings.repeats}.",
        ["", "median", "min–max", "× AllenNLP", "largest difference, cosine"],
        [[name, *time_cells(times, timed[ALLENNLP]), str(agreements.get(name, ""))] for name, times in timed.items()],
    )


def compare(taggers: dict[str, Trained]) -> dict[str, Agreement]:
    """Give all the weights of AllenNLP's, check that they read the same vectors; raises `Disagreement`."""
    first = taggers[ALLENNLP]
    shared = {name: value for name, value in first.model.state_dict().items() if "elmo" not in name}
    wanted, mask = first.vectors(), get_text_field_mask(first.batch["tokens"])  # (1, B, T, ·), (B, T)
    agreements = {}
    for precision in PRECISIONS:
        name = our_name(precision)
        taggers[name].model.load_state_dict(shared, strict=False)
        agreements[name] = check(name, precision, taggers[name].vectors(), wanted, mask)
    return agreements


def our_name(precision: str) -> str:
    """As the table says it."""
    return f"ours, {precision}"


def trained(embedder: dict[str, Any], sentences: Sentences, settings: Settings) -> Trained:
    """A tagger with this token embedder, about to learn."""
    instances = [instance(sentence) for sentence in sentences]
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for each in instances:
        each.count_vocab_items(counts)  # type: ignore[arg-type]
    vocab = Vocabulary(counts)  # type: ignore[arg-type]
    model = Model.from_params(Params(config(embedder, settings)), vocab=vocab).to(settings.device)
    batch = Batch(instances)
    batch.index_instances(vocab)
    optimizer = torch.optim.Adam(parameter for parameter in model.parameters() if parameter.requires_grad)
    return Trained(model, optimizer, move_to_device(batch.as_tensor_dict(), settings.device))


def config(embedder: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The model's block of a config."""
    options_file, weight_file = pair(settings.files)
    elmo = {**embedder, "options_file": options_file, "weight_file": weight_file}
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


def instance(sentence: list[str]) -> Instance:
    """A sentence with a tag for each word that depends on the word."""
    indexers = {INDEXER: ELMoTokenCharactersIndexer(), "tokens": SingleIdTokenIndexer(lowercase_tokens=True)}
    text = TextField([Token(word) for word in sentence], indexers)
    tags = [f"tag{sum(word.encode()) % N_TAGS}" for word in sentence]
    return Instance({"tokens": text, "tags": SequenceLabelField(tags, text)})
