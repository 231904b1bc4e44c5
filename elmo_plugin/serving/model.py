"""The models of a server: how they are loaded, their tasks, and the one thread that computes them."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, Optional, Union

from allennlp.common.checks import ConfigurationError
from allennlp.common.util import JsonDict
from allennlp.data import Tokenizer
from allennlp.models import Archive, Model, load_archive
from allennlp.predictors import Predictor
from more_itertools import split_into

from elmo_plugin import bilm, checkpoints, elmo, embedding, models, pretraining, text
from elmo_plugin.common import installed

Text = Union[str, list[str]]
"""Raw text, or a list of words."""
Task = Callable[[Sequence[Any]], list[Any]]
"""A function from items to one answer for each. The answer to an item does not depend on the other items."""

PREDICTORS = {"elmo_tagger": models.ElmoTaggerPredictor, "elmo_classifier": models.ElmoClassifierPredictor}
MOST_TOGETHER = 16
"""The most items of several requests that are answered by one call."""


@dataclass(frozen=True, eq=False)
class ServedModel:
    """The models of a server.

    # Parameters

    name : the name of the archive or biLM
    tokenizer : splits raw text for vectors and log probabilities
    embedders : an embedder for each mix; none for a model without ELMo
    predictor : the predictor of a tagger or a classifier
    language_model : the predictor of a biLM with its softmax
    """

    name: str
    tokenizer: Tokenizer
    embedders: dict[str, embedding.Embedder] = field(default_factory=dict)
    predictor: Optional[Predictor] = None
    language_model: Optional[pretraining.BiLMPredictor] = None

    @property
    def label_task(self) -> Optional[str]:
        """Return the task of the predictor, `tag` or `classify`, or `None` without one."""
        if self.predictor is None:
            return None
        return "classify" if isinstance(self.predictor, models.ElmoClassifierPredictor) else "tag"

    def read(self, texts: Sequence[Text]) -> list[list[str]]:
        """Split raw text into words, all of them. Lists of words are returned as they are."""
        return [
            [token.ensure_text() for token in self.tokenizer.tokenize(text.without_lone_surrogates(each))]
            if isinstance(each, str)
            else each
            for each in texts
        ]

    def label(self, texts: Sequence[Text]) -> list[JsonDict]:
        """Return the predictor's answers: tags or labels."""
        questions = [{"sentence" if isinstance(each, str) else "tokens": each} for each in texts]
        return _in_batches(self.predictor, questions, self.read(texts))

    def log_probabilities(self, sentences: Sequence[list[str]]) -> list[JsonDict]:
        """Return the answers of the predictor `bilm`: the log probability of each word."""
        return _in_batches(self.language_model, [{"tokens": words} for words in sentences], sentences)


def _in_batches(
    predictor: Optional[Predictor], questions: list[JsonDict], sentences: Sequence[list[str]]
) -> list[JsonDict]:
    assert predictor is not None  # what a model lacks has no path
    answers = dict(text.by_length(predictor.predict_batch_json, questions, list(map(len, sentences))))
    return [answers[index] for index in range(len(sentences))]


def load_served(
    model: str,
    language_model: Optional[str] = None,
    predictor: Optional[str] = None,
    language: Optional[str] = None,
    cuda_device: int = -1,
) -> ServedModel:
    """Load the models of a server.

    # Parameters

    model : a trained tagger or classifier, the folder of its run or its NAME.tar.gz, which is a program that the config
        in it describes; or a biLM in any format, which is data
    language_model : a biLM with its softmax, which scores words; by default the served biLM, if it has a softmax
    predictor : `elmo_tagger` or `elmo_classifier`; the default is the one of the model
    language : the language whose rules split raw text, as in `SpacyBlankTokenizer`; the default is that of the biLM
    cuda_device : the number of a GPU, −1 for the processor

    Raises `ConfigurationError` for files that cannot be read and for models of another kind.
    """
    named = Path(model)
    # `elmo-plugin train` gives each archive the same name, in a folder of its own
    name = (named.parent.name if named.name == "model.tar.gz" else "") or named.name
    device = embedding.find_device(cuda_device)
    labels: Optional[Predictor] = None
    scorer: Optional[pretraining.BidirectionalLanguageModel] = None
    path = checkpoints.trained_model(model, "model")
    archive = None if path is None else load_archive(path, cuda_device)
    if archive is None:
        try:
            scorer = pretraining.load_language_model(model).to(device)
        except ConfigurationError:  # it has no softmax
            embedders = {"all": embedding.load(model, "all", cuda_device=cuda_device)}
    elif isinstance(archive.model, pretraining.BidirectionalLanguageModel):
        scorer = archive.model
    else:
        labels = _predictor(archive, model, predictor, language)
        embedders = _trained_embedder(archive.model)
    if scorer is not None:
        scorer.eval().requires_grad_(False)
        embedders = {
            "all": embedding.Embedder(elmo.Elmo.from_parts(scorer.bilm, [], dropout=0.0), scorer.vocab.get_token_index)
        }
    for embedder in [*embedders.values()]:
        embedders |= {mix: embedder.with_mix(mix) for mix in ("all", "last", "average")}
    reader = labels._dataset_reader if isinstance(labels, models.ElmoClassifierPredictor) else None
    read_by = embedders["all"].elmo if archive is None else archive.model
    spacy_blank = text.SpacyBlankTokenizer(language or bilm.language_of(read_by) or "en")
    tokenizer = getattr(reader, "_tokenizer", spacy_blank)
    if language_model is not None:
        scorer = pretraining.load_language_model(language_model).to(device)
    words = None if scorer is None else pretraining.BiLMPredictor(scorer, pretraining.TextShardsReader())
    return ServedModel(name, tokenizer, embedders, labels, words)


def _trained_embedder(model: Model) -> dict[str, embedding.Embedder]:
    """Return an embedder with the mix that a model was trained with; none for a baseline without ELMo."""
    try:
        trained, mix = elmo.trained_elmo(model)
    except ConfigurationError:
        return {}
    trained.bilm.requires_grad_(False)
    return {"trained": embedding.Embedder(trained, model.vocab.get_token_index).with_mix(mix)}


def _predictor(archive: Archive, name: str, predictor: Optional[str], language: Optional[str]) -> Predictor:
    found = predictor or archive.model.default_predictor
    if found not in PREDICTORS:
        raise ConfigurationError(
            f"'{name}': expected a biLM, or a model of type {' or '.join(PREDICTORS)}, got "
            f"{type(archive.model).__name__}; name the predictor of another tagger or classifier, see "
            f"{installed('docs/extend.md')}"
        )
    built = PREDICTORS[found](archive.model.eval(), archive.validation_dataset_reader, language)
    built.predict_json({"tokens": ["."]})  # raises if the model is not of the predictor's kind
    return built


@dataclass(frozen=True, eq=False)
class _Job:
    task: Task
    items: Sequence[Any]
    answers: Future[list[Any]] = field(default_factory=Future)


class ModelThread:
    """Answers requests in one thread, one after the other. One call answers requests that wait for the same task.

    A model would not answer faster in several threads, and its caches are not made for them.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "models")
        self._waiting: list[_Job] = []  # the event loop appends, the thread removes

    async def answer(self, task: Task, items: Sequence[Any]) -> list[Any]:
        """Return the answers of a task, or raise its error. A job that is cancelled before it starts is skipped."""
        job = _Job(task, items)
        self._waiting.append(job)
        # In the next turn of the event loop, so that one call answers those that arrive in this one.
        asyncio.get_running_loop().call_soon(self._executor.submit, self._work)
        return await asyncio.wrap_future(job.answers)

    def _work(self) -> None:
        """Answer the job that has waited longest, if any is left, and some others that wait for the same task."""
        same = [job for job in self._waiting if job.task == self._waiting[0].task]
        n_items = accumulate(len(job.items) for job in same)
        together = [job for job, n in zip(same, n_items, strict=True) if n <= MOST_TOGETHER] or same[:1]
        for job in together:
            self._waiting.remove(job)
        if jobs := [job for job in together if job.answers.set_running_or_notify_cancel()]:
            self._run(jobs)

    def _run(self, jobs: list[_Job]) -> None:
        try:
            answers = jobs[0].task([item for job in jobs for item in job.items])
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].answers.set_exception(error)
            else:  # one of them may have caused it: answer each by itself
                for job in jobs:
                    self._run([job])
        else:
            for job, own in zip(jobs, split_into(answers, [len(job.items) for job in jobs]), strict=True):
                job.answers.set_result(own)
