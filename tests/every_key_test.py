"""Every key of every registered component with wrong types, null, empty values and numbers out of range.

Components and keys come from AllenNLP's registries and the signatures of constructors, so that a test fails for a new
one that is not described here. Each component is built and used once with the values in `MEANINGS`. Any other value
must raise a `ConfigurationError` that names the key, or the value if it names a file or a class.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import torch
from allennlp.common import Params, Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.common.from_params import infer_params
from allennlp.data import DatasetReader, Token, TokenIndexer, Vocabulary
from allennlp.data.fields import TextField
from allennlp.models import Model
from torch import Tensor

from elmo_plugin import batch_to_ids
from elmo_plugin.checkpoints import resolve
from elmo_plugin.elmo import Elmo
from elmo_plugin.elmo.sentence_cache import SentenceCache
from elmo_plugin.pretraining.vocabulary import vocabulary_of
from tests.oracles import options, write_files
from tests.task_oracles import small_bilm

VALUES: list[Any] = [
    *(None, "", [], {}, "0.5", "text", True, 0, 1, -1, 2, 1.5, 1e30, 10**30, float("nan")),
    *([1], ["text"], [[]], {"a": 1}),
]
MEANINGS: dict[str, list[Any]] = {
    key: values
    for values, keys in [
        ([1, 2], "min_count streams window layer_dim output_dim embedding_dim input_size"),
        (
            [1, 2],
            "hidden_size num_layers num_elmo_layers num_output_representations tokens_at_once n_samples",
        ),
        ([1, 2], "n_layers embedding.dim lstm.projection_dim"),
        ([0, 1, 2], "token_min_padding_length n_highway warmup_steps sampled.seed"),
        ([0, 1, -1, 2], "seed"),
        ([0, 1], "dropout momentum"),
        ([0, 1, 2, 1.5, 1e30], "lr adamw_lr weight_decay adamw_weight_decay"),
        ([None], "matrices"),
        ([1, 2, 1.5], "div_value"),
        ([None, 1, 2], "max_sequence_length batches_per_epoch hidden_dim projection_dim n_tokens_vocab"),
        ([None, 1, 2], "save_every_num_batches keep_most_recent_by_count keep_most_recent_by_age max_sentence_length"),
        ([None, 1, 2], "num_labels"),
        ([None, 0, 1, 2], "char_cnn.n_highway max_instances"),
        ([None, 0, 1, 2, 1.5], "cell_clip proj_clip"),
        ([None, 0, 1, 2, 1.5, 1e30], "save_every_num_seconds save_every_num_minutes"),
        ([None, 0, 1, 2, 1.5], "memory_cell_clip_value state_projection_clip_value"),
        (
            [True],
            "shuffle crf verbose_metrics requires_grad do_layer_norm keep_sentence_boundaries trainable",
        ),
        ([True], "use_skip_connections return_all_layers save_completed_epochs skip_label_indexing"),
        ([None, True], "lstm.use_skip_connections"),
        (
            [None],
            "max_size column_tags.delimiter coding_scheme convert_to_coding_scheme quote_char max_splits label_names",
        ),
        (
            [None],
            "tokenizer text_field_embedder feedforward label_encoding contextualizer lexicon options_file weight_file",
        ),
        ([None], "elmo.bilm elmo_enhanced.bilm elmo_enhanced.num_layers module"),
        ([None], "initial_scalar_parameters scalar_mix_parameters"),
        ([None, {}], "token_indexers softmax mix initial_state input_mix output_mix"),
        ([{}], "elmo initializer"),
        (["0.5", "text"], "column_tags.label_namespace sentence_cache.path pretrained_bilm.files"),
        ([None, "0.5", "text"], "sentence_cache"),
        ([None, [], ["text"]], "vocab_to_cache"),
        ([None, True], "has_header"),
        ([None, 0], "token_column"),
        ([0, 1, -1], "label_column"),
        ([None, 1, -1], "tag_column"),
        ([None, [1]], "text_columns"),
        ([[1]], "cutoffs"),
    ]
    for key in keys.split()
}
"""The valid values of a key, or of `component.key`."""
SAID_OF_ANOTHER = {"conllu": "token_column"}
"""Keys whose value is wrong beside the value of another key, which the message names."""
SUPPLIED = {"self", "kwargs", "vocab", "serialization_dir", "model", "dataset_reader", "reader", "data_path"} | {
    *("optimizer", "model_parameters", "num_epochs", "num_steps_per_epoch", "regularizer", "ddp_accelerator")
}
"""Parameters that AllenNLP's commands pass, or that AllenNLP defines."""
NO_CONFIG = {"Subcommand", "CheckpointFormat", "VectorFile"}
"""Registries whose components are not built by configs."""

D = 8
OPTIONS = options(dim=6, projection_dim=4).to_dict()
BILM = {"options": OPTIONS, "seed": 1}
ENCODER = {"type": "pass_through", "input_dim": D}
IDS = batch_to_ids([["a", "b"], ["c"]])  # (B, T, C)
MASK = torch.tensor([[True, True], [True, False]])  # (B, T)


class Component(NamedTuple):
    """A valid config, the arguments that AllenNLP's commands add to it, and a first use of the component."""

    keys: Mapping[str, Any] = MappingProxyType({})
    extras: Mapping[str, Any] = MappingProxyType({})
    use: Callable[[Any], Any] = lambda built: None


def registered() -> Iterator[tuple[str, str, list[str]]]:
    """Yield the registry, name and keys of every component of this package that a config can build."""
    for base, names in Registrable._registry.items():
        for name, (cls, constructor_name) in names.items():
            if cls.__module__.startswith("elmo_plugin") and base.__name__ not in NO_CONFIG:
                constructor = getattr(cls, constructor_name) if constructor_name else cls.__init__
                keys = [] if constructor is object.__init__ else [*infer_params(cls, constructor)]
                if base.__name__ == "TokenEmbedder" and name == "elmo":
                    keys = [*infer_params(Elmo, Elmo.__init__)]  # see `ElmoTokenEmbedder.from_params`
                    keys.remove("num_output_representations")
                yield base.__name__, name, [key for key in keys if key not in SUPPLIED]


BLOCKS: dict[str, tuple[list[str], list[str]]] = {
    "bilm": ([], ["options", "seed"]),
    "options": (["options"], ["lstm", "char_cnn", "lexicon", "n_tokens_vocab"]),
    "lstm": (["options", "lstm"], list(OPTIONS["lstm"])),
    "char_cnn": (["options", "char_cnn"], list(OPTIONS["char_cnn"])),
    "embedding": (["options", "char_cnn", "embedding"], list(OPTIONS["char_cnn"]["embedding"])),
}
"""The parts of the block `bilm`, which no constructor describes: the path of each part and its keys."""


@pytest.fixture(scope="module")
def components(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Component]]:
    """Build all components. A small biLM replaces the published one, the default of a config without a biLM."""
    folder = tmp_path_factory.mktemp("every_key")
    text, columns, table, words_file = (folder / name for name in ("text.txt", "columns.txt", "table.csv", "words.txt"))
    text.write_text("a b c\nd e f g\n" * 20)
    columns.write_text("a B-X\nb O\n\nc O\n")
    table.write_text("1,good film\n0,bad\n")
    words_file.write_text("<S>\n</S>\n<UNK>\na\nb\nc\n")
    words = vocabulary_of(["<S>", "</S>", "<UNK>", *"abcdefg"])
    vocab = Vocabulary()
    vocab.add_tokens_to_namespace(["B-X", "O", "0", "1"], "labels")
    reader = DatasetReader.from_params(Params({"type": "text_shards"}))
    tagger = {"elmo": {"bilm": BILM}, "encoder": ENCODER}
    classifier = {**tagger, "seq2vec_encoder": {"type": "boe", "embedding_dim": 2 * D}}
    tagged = built("Model", "elmo_tagger", tagger, vocab=vocab)
    predictor = {"model": tagged, "dataset_reader": built("DatasetReader", "column_tags", ELMO_IDS)}
    labelled = built("Model", "elmo_classifier", classifier, vocab=vocab)
    csv_reader = built("DatasetReader", "text_classification_csv", ELMO_IDS)
    lm = {"bilm": BILM, "softmax": {"type": "full"}}
    loader = {"reader": reader, "data_path": str(text)}
    in_run = {"serialization_dir": str(folder / "run")}
    mix = Component({}, {"num_elmo_layers": 3, "layer_dim": D}, lambda mix: mix(torch.randn(3, 2, 2, D), MASK))
    softmax = {"vocab_size": 20, "input_dim": D}
    state, elmo = Component(), Component({"bilm": BILM}, {"vocab": vocab}, lambda elmo: elmo(IDS))
    schedule = {"optimizer": torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)}
    with pytest.MonkeyPatch.context() as patch:
        options_file, weight_file = write_files(folder / "published", small_bilm(dim=6, projection_dim=4))
        patch.setattr(resolve, "PUBLISHED_OPTIONS", options_file)
        patch.setattr(resolve, "PUBLISHED_WEIGHTS", weight_file)
        patch.chdir(folder)
        yield {
            ("Vocabulary", "pretrained_bilm"): Component({"pretrained": "english-tiny", "files": str(text)}),
            ("Vocabulary", "bilm-tf"): Component({"file": str(words_file)}),
            ("Vocabulary", "text_shards"): Component({"files": str(text)}),
            **{
                ("Tokenizer", name): Component(use=lambda tokenizer: tokenizer.tokenize("a b"))
                for name in ("ascii_spaces", "spacy_blank", "just_tabs")
            },
            ("TokenIndexer", "elmo_many_langs"): Component(use=indexed),
            ("DatasetReader", "column_tags"): Component(use=lambda reader: list(reader.read(str(columns)))),
            ("DatasetReader", "text_classification_csv"): Component(use=lambda reader: list(reader.read(str(table)))),
            ("DatasetReader", "text_shards"): Component(use=lambda reader: list(reader.read(str(text)))),
            ("DataLoader", "sentence_batches"): Component({}, loader, lambda loader: first_batches(loader, words)),
            ("DataLoader", "unrolled_streams"): Component(
                {"streams": 2, "window": 3}, loader, lambda loader: first_batches(loader, words)
            ),
            ("Model", "elmo_tagger"): Component(
                tagger, {"vocab": vocab}, lambda model: model(ELMO_TENSORS, tags=torch.zeros(2, 2, dtype=torch.long))
            ),
            ("Model", "elmo_classifier"): Component(
                classifier, {"vocab": vocab}, lambda model: model(ELMO_TENSORS, label=torch.zeros(2, dtype=torch.long))
            ),
            ("Model", "bilm"): Component(lm, {"vocab": words}, lambda model: model(tokens=WORDS)),
            ("TokenEmbedder", "elmo"): elmo,
            ("Elmo", "elmo"): elmo,
            ("TokenEmbedder", "elmo_char_cnn"): Component(
                {"filters": [[1, 4]], "output_dim": 4}, use=lambda encoder: encoder(IDS)
            ),
            ("Seq2SeqEncoder", "elmo_lstm"): Component(
                {"input_size": 8, "hidden_size": 4, "cell_size": 6, "num_layers": 2}, use=encoded
            ),
            ("Seq2SeqEncoder", "elmo_enhanced"): Component(
                {"encoder": {"type": "pass_through", "input_dim": 10}, "num_elmo_layers": 3, "layer_dim": D},
                use=encoded,
            ),
            **{("LayerMix", name): mix for name in ("average", "last", "concatenate", "scalar", "frozen_random")},
            ("LayerMix", "learned_function"): mix,
            **{("InitialState", name): state for name in ("zero", "warm", "carried")},
            ("LmSoftmax", "full"): Component({}, softmax, scored),
            ("LmSoftmax", "adaptive"): Component({"cutoffs": [5]}, softmax, scored),
            ("LmSoftmax", "sampled"): Component({"n_samples": 4}, softmax, scored),
            ("Metric", "bidirectional_perplexity"): Component(),
            ("TrainerCallback", "exact_resume"): Component({}, in_run),
            ("Checkpointer", "atomic"): Component({}, in_run),
            ("LearningRateScheduler", "warmup_cosine"): Component(
                {}, {**schedule, "num_epochs": 2, "num_steps_per_epoch": 5}, lambda schedule: schedule.step_batch(1)
            ),
            ("Optimizer", "muon"): Component(
                {},
                {"model_parameters": [*built("Model", "bilm", lm, vocab=words).named_parameters()]},
                lambda muon: muon.step(),
            ),
            ("Predictor", "elmo_tagger"): Component({}, predictor, asked),
            ("Predictor", "elmo_embedder"): Component({}, predictor, asked),
            ("Predictor", "elmo_classifier"): Component({}, {"model": labelled, "dataset_reader": csv_reader}, asked),
            ("Predictor", "bilm"): Component(
                {}, {"model": built("Model", "bilm", lm, vocab=words), "dataset_reader": reader}, asked
            ),
        }


ELMO_IDS = {"token_indexers": {"elmo": {"type": "elmo_characters"}}}
ELMO_TENSORS = {"elmo": {"elmo_tokens": IDS}}
WORDS = {"characters": {"elmo_tokens": IDS}, "words": {"tokens": torch.tensor([[4, 5], [6, 0]])}}


def built(base: str, name: str, keys: Mapping[str, Any], **extras: Any) -> Any:
    """Build a component from a config."""
    (registry,) = (cls for cls in Registrable._registry if cls.__name__ == base)
    return registry.from_params(Params({"type": name, **deepcopy(dict(keys))}), **extras)  # type: ignore[attr-defined]


def indexed(indexer: TokenIndexer) -> None:
    """Index two tokens."""
    field = TextField([Token("ab"), Token("c")], {"elmo": indexer})
    field.index(Vocabulary())
    field.as_tensor(field.get_padding_lengths())


def first_batches(loader: Any, words: Vocabulary) -> None:
    """Load two batches."""
    loader.index_with(words)
    batches = iter(loader)
    next(batches)
    next(batches, None)


def encoded(encoder: Any) -> Tensor:
    """Encode vectors that begin with the token layer of a biLM, whose two halves are equal."""
    inputs = torch.randn(2, 2, encoder.get_input_dim())
    half = torch.randn(2, 2, getattr(encoder, "layer_dim", 0) // 2)
    inputs[:, :, : 2 * half.size(-1)] = torch.cat([half, half], dim=-1)
    return encoder(inputs, MASK)


def scored(softmax: Any) -> None:
    """Compute a training loss and a likelihood."""
    softmax.train()
    softmax(torch.randn(4, D), torch.arange(4))
    softmax.nll(torch.randn(4, D), torch.arange(4))


def asked(predictor: Any) -> None:
    """Predict one sentence."""
    predictor.predict_json({"sentence": "a b"})


def check(name: str, key: str, value: Any, build_and_use: Callable[[], Any]) -> None:
    """Build and use the component if `MEANINGS` has the value, and expect an error otherwise."""
    meant = MEANINGS.get(f"{name}.{key}", MEANINGS.get(key, []))
    if any(type(value) is type(each) and value == each for each in meant):
        build_and_use()
        return
    with pytest.raises(ConfigurationError) as caught:
        build_and_use()
    is_name = isinstance(value, str) and value
    names = [key, SAID_OF_ANOTHER.get(key, key), *([value] if is_name else []), *(["'a'"] if value == {"a": 1} else [])]
    assert any(each in str(caught.value) for each in names), caught.value


@pytest.mark.parametrize(
    ("base", "name", "key"),
    [(base, name, key) for base, name, keys in registered() for key in [*keys, "unknown_key"]],
)
def test_a_key_is_used_or_named(base: str, name: str, key: str, components: dict[tuple[str, str], Component]) -> None:
    minimal, extras, use = components[base, name]
    if key in extras:
        return
    for value in VALUES:
        if (key, value) == ("tokenizer", {}):
            continue  # AllenNLP's own default, which downloads a pipeline
        keys = {**minimal, key: value}
        if key in ("options_file", "weight_file"):
            del keys["bilm"]
        check(name, key, value, lambda keys=keys: use(built(base, name, keys, **extras)))


@pytest.mark.parametrize(
    ("block", "key"),
    [
        (block, key)
        for block, (_, keys) in BLOCKS.items()
        for key in ([*keys, "unknown_key"] if block != "options" else keys)  # which may be all of an options.json
    ],
)
def test_a_key_of_the_block_bilm_is_used_or_named(block: str, key: str) -> None:
    for value in VALUES:
        bilm = deepcopy(BILM)
        inner: Any = bilm
        for part in BLOCKS[block][0]:
            inner = inner[part]
        inner[key] = value
        check(block, key, value, lambda bilm=bilm: built("Elmo", "elmo", {"bilm": bilm})(IDS))


@pytest.mark.parametrize("value", VALUES)
def test_what_is_pretrained_is_a_name(value: Any) -> None:
    check("bilm", "pretrained", value, lambda: built("Elmo", "elmo", {"bilm": {"pretrained": value}}))


@pytest.mark.parametrize("key", [*(key for key in infer_params(SentenceCache) if key != "self"), "unknown_key"])
def test_a_key_of_the_sentence_cache_is_used_or_named(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for value in VALUES:
        keys = {"bilm": BILM, "sentence_cache": {"path": "cache", key: value}}
        check("sentence_cache", key, value, lambda keys=keys: built("Elmo", "elmo", keys)(IDS))


def test_a_message_says_where_in_the_config_a_value_stands() -> None:
    config = Params({"model": {"type": "elmo_tagger", "elmo": {"bilm": BILM, "dropout": "0.5"}, "encoder": ENCODER}})
    vocab = Vocabulary()
    vocab.add_tokens_to_namespace(["O"], "labels")
    with pytest.raises(ConfigurationError, match=r"^'model\.elmo\.dropout': expected a number, got \"0\.5\"$"):
        Model.from_params(config.pop("model"), vocab=vocab)
