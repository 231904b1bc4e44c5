"""The architecture: vectors and gradients against AllenNLP's `ScalarMix`; training, saving and loading by spaCy."""

import shutil
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.scalar_mix import ScalarMix
from spacy.tokens import Doc, DocBin
from thinc.api import Model

import elmo_plugin
from elmo_plugin.integrations import ElmoComponent, elmo_v1, spacy_pipeline
from elmo_plugin.text import by_length
from tests.checkpoints.word_input_test import ANYWHERE, write_pair
from tests.task_oracles import D, L

TEXTS = [["The", "ship", "sank", "."], ["A", "calm"], [], ["She", "sold", "\n", "the", "bakery", "."], [" "]]
VOCAB = spacy.blank("en").vocab
DATA = [
    {
        "words": ["The", "ship", "left", "Boston", "."],
        "tags": ["DT", "NN", "VBD", "NNP", "."],
        "ents": ["O", "O", "O", "B-GPE", "O"],
    },
    {"words": ["She", "sold", "bread", "."], "tags": ["PRP", "VBD", "NN", "."], "ents": ["O"] * 4},
]
PARTIAL = """
[paths]
train = "train.spacy"
dev = "train.spacy"

[nlp]
lang = "en"
pipeline = ["tok2vec", "tagger", "ner"]

[components]

[components.tok2vec]
factory = "tok2vec"

[components.tok2vec.model]
@architectures = "elmo_plugin.Elmo.v1"
bilm = "bilm"
width = 16

[components.tagger]
factory = "tagger"

[components.tagger.model]
@architectures = "spacy.Tagger.v2"

[components.tagger.model.tok2vec]
@architectures = "spacy.Tok2VecListener.v1"
width = ${components.tok2vec.model.width}

[components.ner]
factory = "ner"

[components.ner.model]
@architectures = "spacy.TransitionBasedParser.v2"
state_type = "ner"
hidden_width = 8

[components.ner.model.tok2vec]
@architectures = "spacy.Tok2VecListener.v1"
width = ${components.tok2vec.model.width}

[training]
max_steps = 4
eval_frequency = 2
"""
"""A config that spaCy completes."""


def docs(texts: list[list[str]] = TEXTS) -> list[Doc]:
    return [Doc(VOCAB, words=words) for words in texts]


def mix_of(model: Model) -> dict[str, torch.Tensor]:
    """The parameters of the trained mix."""
    return model.shims[0]._model.elmo.mixes[0].state_dict()


def allennlps(weights: torch.Tensor, gamma: torch.Tensor) -> ScalarMix:
    """AllenNLP's mix with these parameters."""
    mix = ScalarMix(L, initial_scalar_parameters=weights.tolist(), trainable=True)
    mix.gamma.data = gamma.clone()
    return mix


def test_vectors_equal_allennlps_mix_of_the_layers_of_load(small: str) -> None:
    model = elmo_v1(small)
    model.initialize()
    weights, gamma = torch.tensor([0.3, -1.0, 2.0]), torch.tensor([1.5])
    model.shims[0]._model.elmo.mixes[0].load_state_dict({"scalar_parameters": weights, "gamma": gamma})
    mix = allennlps(weights, gamma)
    for words, found in zip(TEXTS, model.predict(docs()), strict=True):
        is_word = [not word.isspace() for word in words]
        (layers,) = elmo_plugin.load(small).embed([[word for word in words if not word.isspace()]])  # (L, T, D)
        assert found.shape == (len(words), D) and found.dtype == np.float32
        np.testing.assert_allclose(found[is_word], mix(list(torch.tensor(layers))).detach(), atol=1e-5)
        assert not found[~np.array(is_word, dtype=bool)].any()
    assert model.predict([]) == []


def test_docs_are_read_by_sentence_on_request_and_whole_otherwise(small: str) -> None:
    starts = [True, False, False, True, False, False]
    doc = Doc(VOCAB, words=["It", "sank", ".", "We", "swam", "."], sent_starts=starts)
    plain = Doc(VOCAB, words=[word.text for word in doc])
    component = ElmoComponent(elmo_plugin.load(small, "average"))
    for model, wanted in ((elmo_v1(small), plain), (elmo_v1(small, by_sentence=True), doc)):
        (found,) = model.predict([doc])
        np.testing.assert_allclose(found, component(wanted).tensor, atol=1e-5)
        np.testing.assert_allclose(model.begin_update([doc])[0][0], found, atol=1e-6)
    assert not np.allclose(plain.tensor, doc.tensor, atol=1e-2)
    with pytest.raises(ConfigurationError, match=r"'training.annotating_components'"):
        model.begin_update([doc, Doc(VOCAB, words=["We", "swam"])])


def test_gradients_of_the_mix_equal_allennlps_in_any_number_of_batches(
    small: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(0)
    upstream = [generator.normal(size=(len(words), D)).astype(np.float32) for words in TEXTS]
    mix = allennlps(torch.zeros(L), torch.ones(1))
    for words, gradient in zip(TEXTS, upstream, strict=True):
        is_word = [not word.isspace() for word in words]
        (layers,) = elmo_plugin.load(small).embed([[word for word in words if not word.isspace()]])
        mix(list(torch.tensor(layers))).backward(torch.tensor(gradient[is_word]))
    wanted = [float(weight.grad) for weight in mix.scalar_parameters]
    for budget in (12, 4096):
        monkeypatch.setattr(spacy_pipeline, "by_length", partial(by_length, tokens_per_batch=budget))
        model = elmo_v1(small)
        _, backprop = model.begin_update(docs())
        assert backprop(upstream) == []
        found = {name: weight.grad for name, weight in model.shims[0]._model.named_parameters()}
        np.testing.assert_allclose(found.pop("elmo.scalar_mix_0.scalar_parameters"), wanted, rtol=1e-3)
        np.testing.assert_allclose(found.pop("elmo.scalar_mix_0.gamma"), mix.gamma.grad, rtol=1e-3)
        assert set(found.values()) == {None}  # the biLM is frozen


@pytest.mark.slow
def test_spacy_trains_a_config_and_what_it_saves_needs_no_other_file(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spacy.cli.debug_data import debug_data  # imports all of spaCy's command line
    from spacy.cli.init_config import fill_config
    from spacy.cli.train import train

    monkeypatch.chdir(tmp_path)
    stored = [Doc(VOCAB, **DATA[index % 2]) for index in range(100)]  # the fewest that `debug data` accepts
    DocBin(docs=stored).to_disk("train.spacy")
    Path("partial.cfg").write_text(PARTIAL, encoding="utf-8")
    _, filled = fill_config(Path("config.cfg"), Path("partial.cfg"), silent=True)
    assert filled["components"]["tok2vec"]["model"]["precision"] == "float32"
    debug_data(Path("config.cfg"))
    train("config.cfg", "out", overrides={"components.tok2vec.model.sentence_cache": "cache"})

    layers = [array.mean(axis=0) for array in elmo_plugin.load(small).embed([case["words"] for case in DATA])]
    shutil.rmtree(small)
    shutil.rmtree("cache")
    nlp = spacy.load("out/model-last")
    model = nlp.get_pipe("tok2vec").model
    mix = mix_of(model)
    assert mix["scalar_parameters"].abs().min() > 1e-4 and mix["gamma"] != 1  # Adam's steps are of 0.001
    nlp.to_disk("again")
    again = spacy.load("again")
    for doc, beginning in zip(docs([case["words"] for case in DATA]), layers, strict=True):
        found, copy = nlp(doc), again(doc.copy())
        np.testing.assert_allclose(found.tensor, beginning, atol=0.2)
        np.testing.assert_array_equal(copy.tensor, found.tensor)
        assert [token.tag_ for token in copy] == [token.tag_ for token in found]
    assert not Path("cache").exists()
    for name, value in mix_of(again.get_pipe("tok2vec").model).items():
        assert torch.equal(value, mix[name])


def test_a_warm_state_and_a_vocabulary_are_saved_too(warm: str, tmp_path: Path) -> None:
    write_pair(tmp_path / "words", ANYWHERE)
    texts = docs([["the", "cat", "sat"], ["a", "dog"]])
    for bilm, state in ((warm, "warm"), (str(tmp_path / "words"), None)):
        model = elmo_v1(bilm, initial_state=state)
        wanted = model.predict(texts)
        means = elmo_plugin.load(bilm, "average", initial_state=state).embed([[w.text for w in doc] for doc in texts])
        content = model.to_bytes()
        shutil.rmtree(bilm)
        found = elmo_v1(bilm, initial_state=state).from_bytes(content).predict(texts)
        for array, mean, copy in zip(wanted, means, found, strict=True):
            np.testing.assert_allclose(array, mean, atol=1e-5)
            np.testing.assert_array_equal(array, copy)


def test_wrong_keys_are_errors_when_the_weights_are_loaded(small: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"'width': .*{D}.* 96"):
        elmo_v1(small, width=96).initialize()
    with pytest.raises(ConfigurationError, match=r"'initial_state': .*'carried'"):
        elmo_v1(small, initial_state="carried").initialize()
    with pytest.raises(ConfigurationError, match="nowhere"):
        elmo_v1("nowhere").initialize()


def test_spacy_finds_it_without_an_import() -> None:
    (entry,) = entry_points(group="spacy_architectures", name="elmo_plugin.Elmo.v1")
    assert entry.load() is elmo_v1
