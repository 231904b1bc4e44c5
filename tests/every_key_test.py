"""Every key of every registered component with values of wrong types.

Components, keys and types come from AllenNLP's registries and the signatures of constructors, so that a test fails for
a new component that is not described here. A value of a type that the key does not have must raise a
`ConfigurationError` that names the key, or the value if it names a file or a class. No value may raise anything else
when the component is built and used once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any, NamedTuple, Union, get_args, get_origin

import pytest
import torch
from allennlp.common import Lazy, Params, Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.common.from_params import infer_params
from allennlp.data import DatasetReader, Token, TokenIndexer, Vocabulary
from allennlp.data.fields import TextField
from allennlp.models import Model
from torch import Tensor

from elmo_plugin import batch_to_ids
from elmo_plugin.checkpoints import loading
from elmo_plugin.elmo import Elmo
from elmo_plugin.elmo.sentence_cache import SentenceCache
from elmo_plugin.pretraining.vocabulary import vocabulary_of
from tests.oracles import options, write_files
from tests.task_oracles import small_bilm

NEVER: list[Any] = [float("nan"), [[]], {"a": 1}]
"""Values that no key takes."""
NEGATIVE = {"seed", "label_column", "tag_column"}
"""Keys that take a number below zero."""
VALUES: list[Any] = [None, True, -1, 1.5, "text", *NEVER]
NAMED_INSTEAD = {"conllu": "token_column"}
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


def registered() -> Iterator[tuple[str, str, str, Any]]:
    """Yield the registry, name, key and annotation of every key of this package's components that a config builds."""
    for base, names in Registrable._registry.items():
        for name, (cls, constructor_name) in names.items():
            if cls.__module__.startswith("elmo_plugin") and base.__name__ not in NO_CONFIG:
                constructor = getattr(cls, constructor_name) if constructor_name else cls.__init__
                if base.__name__ == "TokenEmbedder" and name == "elmo":  # see `ElmoTokenEmbedder.from_params`
                    cls, constructor = Elmo, Elmo.__init__
                keys = {} if constructor is object.__init__ else infer_params(cls, constructor)
                for key, parameter in keys.items():
                    if key not in SUPPLIED and (base.__name__, key) != ("TokenEmbedder", "num_output_representations"):
                        yield base.__name__, name, key, parameter.annotation
                yield base.__name__, name, "unknown_key", None


BLOCKS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "bilm": ([], {"options": {}, "seed": 0, "unknown_key": ...}),
    "options": (["options"], {"lstm": {}, "char_cnn": {}, "lexicon": {}, "n_tokens_vocab": 0}),
    "lstm": (["options", "lstm"], {**OPTIONS["lstm"], "unknown_key": ...}),
    "char_cnn": (["options", "char_cnn"], {**OPTIONS["char_cnn"], "unknown_key": ...}),
    "embedding": (["options", "char_cnn", "embedding"], {**OPTIONS["char_cnn"]["embedding"], "unknown_key": ...}),
}
"""The parts of the block `bilm`, which no constructor describes: the path of each part, its keys and their values."""


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
        patch.setattr(loading, "PUBLISHED_OPTIONS", options_file)
        patch.setattr(loading, "PUBLISHED_WEIGHTS", weight_file)
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
            ("LmSoftmax", "adaptive"): Component({"div_value": 2.0}, softmax, scored),
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


def types_of(annotation: Any) -> set[type]:
    """Return the types of the JSON values that a key with this annotation may have."""
    known = {None: set(), bool: {bool}, int: {int}, float: {int, float}, str: {str}, NoneType: {NoneType}}
    kind = get_origin(annotation) or annotation
    if kind is Union:
        return set().union(*map(types_of, get_args(annotation)))
    if kind in known:
        return known[kind]
    if kind in (list, Sequence):
        return {list}
    if kind in (dict, Lazy) or (isinstance(kind, type) and issubclass(kind, Registrable)):
        return {str, dict}
    return {NoneType, bool, int, float, str, list, dict}


def check(key: str, types: set[type], use: Callable[[Any], Any]) -> None:
    """Use the component with each value of the key."""
    for value in VALUES:
        try:
            use(value)
        except ConfigurationError as error:
            names = [key, NAMED_INSTEAD.get(key, key), *(["text"] if value == "text" else [])]
            assert any(name in str(error) for name in [*names, *(["'a'"] if value == {"a": 1} else [])]), error
        else:
            assert type(value) in types and value not in NEVER, f"'{key}' takes {value!r}"
            assert value != -1 or key in NEGATIVE, f"'{key}' takes {value!r}"


@pytest.mark.parametrize(("base", "name", "key", "annotation"), [*registered()])
def test_a_key_is_used_or_named(
    base: str, name: str, key: str, annotation: Any, components: dict[tuple[str, str], Component]
) -> None:
    minimal, extras, use = components[base, name]
    keys = dict(minimal)
    if key in ("options_file", "weight_file"):
        del keys["bilm"]
    if key not in extras:
        check(key, types_of(annotation), lambda value: use(built(base, name, {**keys, key: value}, **extras)))


@pytest.mark.parametrize(("block", "key"), [(block, key) for block, (_, keys) in BLOCKS.items() for key in keys])
def test_a_key_of_the_block_bilm_is_used_or_named(block: str, key: str) -> None:
    def use(value: Any) -> None:
        bilm = deepcopy(BILM)
        inner: Any = bilm
        for part in BLOCKS[block][0]:
            inner = inner[part]
        inner[key] = value
        built("Elmo", "elmo", {"bilm": bilm})(IDS)

    kind = type(BLOCKS[block][1][key])
    check(key, {NoneType, kind, *({float} if kind is int else {})}, use)


def test_what_is_pretrained_is_a_name() -> None:
    check("pretrained", set(), lambda value: built("Elmo", "elmo", {"bilm": {"pretrained": value}}))


@pytest.mark.parametrize(("key", "parameter"), infer_params(SentenceCache).items())
def test_a_key_of_the_sentence_cache_is_used_or_named(
    key: str, parameter: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cache = {"path": "cache"}
    check(
        key,
        types_of(parameter.annotation),
        lambda value: built("Elmo", "elmo", {"bilm": BILM, "sentence_cache": {**cache, key: value}})(IDS),
    )


def test_a_message_says_where_in_the_config_a_value_stands() -> None:
    config = Params(
        {"model": {"type": "elmo_tagger", "elmo": {"bilm": BILM, "dropout": "0.5"}, "encoder": {**ENCODER}}}
    )
    vocab = Vocabulary()
    vocab.add_tokens_to_namespace(["O"], "labels")
    with pytest.raises(ConfigurationError, match=r"^'model\.elmo\.dropout': expected a number, got \"0\.5\"$"):
        Model.from_params(config.pop("model"), vocab=vocab)
