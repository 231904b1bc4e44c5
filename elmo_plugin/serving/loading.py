"""Load the models of a server: the archive of a tagger or classifier, or a biLM in any format."""

import tarfile
from pathlib import Path
from typing import NamedTuple, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.models import Archive, load_archive
from allennlp.predictors import Predictor

from elmo_plugin.analysis import learned_mixes
from elmo_plugin.bilm import ZeroState, identity
from elmo_plugin.checkpoints import bundled_folder, bundled_names, load_sizes, local_file
from elmo_plugin.elmo import Elmo, trained_elmo
from elmo_plugin.embedding import Embedder, find_device, load
from elmo_plugin.models import ElmoClassifierPredictor, ElmoTaggerPredictor
from elmo_plugin.pretraining import (
    BidirectionalLanguageModel,
    BiLMPredictor,
    TextShardsReader,
    load_language_model,
)
from elmo_plugin.serving.served_model import ServedModel
from elmo_plugin.serving.text_index import TextIndex
from elmo_plugin.text import SpacyBlankTokenizer

MIXES = ("all", "last", "average")


class Text(NamedTuple):
    """A text to find uses of words in: its path, and the number of sentences to read, all by default."""

    path: Path
    sentences: Optional[int] = None


def load_served(
    model: str,
    text: Optional[Text] = None,
    language_model: Optional[str] = None,
    predictor: Optional[str] = None,
    language: str = "en",
    cuda_device: int = -1,
) -> ServedModel:
    """Load the models of a server.

    # Parameters

    model : the archive of a tagger or classifier, or a biLM in any format
    text : a text to find uses of words in
    language_model : a biLM with its softmax, which scores words; by default the served one, if its softmax is available
    predictor : `elmo_tagger` or `elmo_classifier`; the default is the one of the model
    language : the language whose rules split raw text, as in `SpacyBlankTokenizer`
    cuda_device : the number of a GPU, −1 for the processor

    Raises `ConfigurationError` for files that cannot be read and for models of another kind.
    """
    path = Path(model)
    in_run = path.name == "model.tar.gz"  # `allennlp train` gives each archive this name, in a folder of its own
    device = find_device(cuda_device)
    archive = _task_archive(model, cuda_device)
    embedders = _embedders(model, archive, cuda_device)
    if text is not None and not embedders:
        raise ConfigurationError(f"'text': expected a model with ELMo, got '{model}' without")
    scorer = _scorer(model, archive, language_model, embedders)
    config = {} if archive is None else archive.config["model"].as_dict(quiet=True)
    return ServedModel(
        name=path.parent.name if in_run and path.parent.name else path.name,
        tokenizer=SpacyBlankTokenizer(language),
        embedders=embedders,
        predictor=None if archive is None else _predictor(archive, model, predictor, language),
        language_model=None if scorer is None else BiLMPredictor(scorer.to(device), TextShardsReader()),
        mixes={} if archive is None else learned_mixes(archive.model.state_dict(), config),
        index=None if text is None else TextIndex(text.path, embedders["all"], text.sentences),
    )


def _task_archive(model: str, cuda_device: int) -> Optional[Archive]:
    """Return the archive of a model that labels, or `None` for a biLM."""
    if bundled_folder(model) is not None:
        return None
    path = local_file(model, "model")
    in_folder = any((path / name).exists() for name in ("weights.th", "best.th"))
    if not (in_folder if path.is_dir() else tarfile.is_tarfile(path)):
        return None
    archive = load_archive(path, cuda_device)
    return None if isinstance(archive.model, BidirectionalLanguageModel) else archive


def _predictor(archive: Archive, name: str, predictor: Optional[str], language: str) -> Predictor:
    found = predictor or archive.model.default_predictor
    kinds = {"elmo_tagger": ElmoTaggerPredictor, "elmo_classifier": ElmoClassifierPredictor}
    if found not in kinds:
        raise ConfigurationError(
            f"'{name}': expected a biLM, or a model of type {' or '.join(kinds)}, got {type(archive.model).__name__}; "
            "name the predictor of another tagger or classifier"
        )
    built = kinds[found](archive.model.eval(), archive.validation_dataset_reader, language)
    built.predict_json({"tokens": ["."]})  # raises if the model is not of the predictor's kind
    return built


def _embedders(model: str, archive: Optional[Archive], cuda_device: int) -> dict[str, Embedder]:
    """Return an embedder for each mix; none for a baseline without ELMo."""
    if archive is None:
        every = load(model, "all", cuda_device=cuda_device)
        return {"all": every, **{mix: every.with_mix(mix) for mix in MIXES[1:]}}
    try:
        elmo, mix = trained_elmo(archive.model)
    except ConfigurationError:
        return {}
    elmo.bilm.requires_grad_(False)
    mixed = Elmo.from_parts(elmo.bilm, [mix], dropout=0.0, initial_state=elmo.initial_state)
    trained = Embedder(mixed, archive.model.vocab.get_token_index)
    return {"trained": trained, **{name: trained.with_mix(name) for name in MIXES}}


def _scorer(
    model: str, archive: Optional[Archive], language_model: Optional[str], embedders: dict[str, Embedder]
) -> Optional[BidirectionalLanguageModel]:
    """Return the language model that scores words: the named one, or the served biLM if its softmax is available."""
    if language_model is not None:
        return load_language_model(language_model)
    if archive is not None:
        return _bundled_twin(embedders)
    try:
        return load_language_model(model)
    except ConfigurationError:  # a biLM without softmax
        return None


def _bundled_twin(embedders: dict[str, Embedder]) -> Optional[BidirectionalLanguageModel]:
    """Return the language model of the bundled biLM that a model contains unchanged, if any."""
    bilm = embedders["all"].elmo.bilm if embedders else None
    for name in bundled_names():
        if bilm is not None and load_sizes(name) == bilm.options:
            scorer = load_language_model(name)
            if identity(scorer.bilm, ZeroState()) == identity(bilm, ZeroState()):
                return scorer
    return None
