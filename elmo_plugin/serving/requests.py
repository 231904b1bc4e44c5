"""The schemas of the API: what clients send and get."""

from typing import Annotated, Any, Union

from pydantic import BaseModel, ConfigDict, Field, PlainValidator


def check_sentence(value: Any) -> Any:
    """Return a sentence unchanged. Raises `ValueError` for any other value."""
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(word, str) for word in value)):
        return value
    raise ValueError(f"expected a text or a list of words, got {value!r:.100}")


AnySentence = Annotated[
    Union[str, list[str]],
    PlainValidator(check_sentence, json_schema_input_type=Union[str, list[str]]),
    Field(description="Raw text, which is split into words, or a list of words, which is used as it is."),
]


class Sentences(BaseModel):
    """The sentences of a request."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"sentences": ["Greta sailed to Saint Orrin.", ["Two", "words"]]}]},
    )
    sentences: list[AnySentence]


class EmbedRequest(BaseModel):
    """Sentences to embed, and the mix of the layers."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"sentences": ["Greta sailed to Saint Orrin."], "mix": "last"}]},
    )
    sentences: list[AnySentence]
    mix: str = Field(
        default="average",
        description="`all` layers, kept apart; the `last` one, their `average`, or the `trained` mix of a model.",
    )


class NearestRequest(BaseModel):
    """A word in its sentence, by its position from 0, and the number of uses to find."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"sentence": "They saw the play .", "position": 3, "k": 5}]}
    )
    sentence: AnySentence
    position: int = Field(ge=0)
    k: int = Field(default=5, ge=1, le=50)


class Error(BaseModel):
    """Why a request is not answered."""

    error: str


class TagAnswer(BaseModel):
    """Tags, with their probabilities if the model has them, and spans if the tags encode them. `end` is exclusive."""

    tokens: list[str]
    tags: list[str]
    probabilities: list[float] = []
    spans: list[dict[str, Union[str, int]]] = []


class ClassifyAnswer(BaseModel):
    """The label of a text, and the probability of every label."""

    tokens: list[str]
    label: str
    probabilities: dict[str, float]
    probs: list[float]


class LogProbabilities(BaseModel):
    """Natural logarithms, forward for each word and `</S>`, backward for `<S>` and each word; and perplexities."""

    tokens: list[str]
    forward_log_probs: list[float]
    backward_log_probs: list[float]
    unknown: list[str]
    forward_perplexity: float
    backward_perplexity: float
    perplexity: float


class Vectors(BaseModel):
    """The vectors of a sentence: (T, D), or (L, T, D) for all layers, the token layer first."""

    tokens: list[str]
    vectors: list[Any]


class Use(BaseModel):
    """A use of the word in the text: its cosine, its line from 1, the sentence, and the position in it from 0."""

    cosine: float
    line: int
    tokens: list[str]
    position: int


class Nearest(BaseModel):
    """The nearest uses by each layer, from layer 1: all uses of a word have the same vector in layer 0."""

    layers: list[list[Use]]
