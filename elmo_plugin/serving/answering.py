"""Answer requests with the models, in the models' thread and within the limits."""

from collections.abc import Sequence
from typing import Any, Union

from elmo_plugin.analysis import Query
from elmo_plugin.serving.limits import Limits, RequestError
from elmo_plugin.serving.model_thread import ModelThread, Task
from elmo_plugin.serving.served_model import Sentence, ServedModel
from elmo_plugin.serving.text_index import Question


class Answering:
    """Answers requests with the models, in the models' thread and within the limits."""

    def __init__(self, model: ServedModel, limits: Limits) -> None:
        self.model, self.limits, self.thread = model, limits, ModelThread()

    async def ask(self, task: Task, items: Sequence[Any]) -> list[Any]:
        """Return the answers of a task, which runs in the models' thread."""
        return await self.thread.answer(task, items)

    async def read(self, given: Sequence[Union[str, list[str]]]) -> list[Sentence]:
        """Split sentences into words. Raises `RequestError` for too many sentences or words."""
        self.limits.check_given(given)
        sentences: list[Sentence] = await self.ask(self.model.read, given)
        self.limits.check_words([each.tokens for each in sentences])
        return sentences

    async def nearest(self, sentence: Sentence, position: int, k: int) -> list[list[dict[str, Any]]]:
        """Return the nearest uses of a word in the text, for each layer from layer 1."""
        assert self.model.index is not None
        if not 0 <= position < len(sentence.tokens):
            got = f"{position} in a sentence of {len(sentence.tokens)} words"
            raise RequestError(422, f"'position': expected the number of a word, counted from 0, got {got}")
        question = Question(Query(sentence.tokens, position), k)
        (layers,) = await self.ask(self.model.index.nearest, [question])
        return [[neighbor._asdict() for neighbor in layer] for layer in layers]
