"""Fine-tune BERT on a task by transformers' `Trainer`."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np
from allennlp.common import Params
from allennlp.data import DatasetReader
from allennlp.data.dataset_readers.dataset_utils import bio_tags_to_spans
from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

from experiments.run import DONE, Run, prepare

BATCH = 32
IGNORED = -100
"""The label of word pieces that are not the first of a word, and of the marks."""


def instances(params: Params, reader: str, part: str) -> tuple[list[list[str]], list[Any]]:
    """Return the words of each sentence of a part of the data, and its tags or its label."""
    found = list(DatasetReader.from_params(params[reader].duplicate()).read(params[f"{part}_data_path"]))
    words = [[token.text for token in instance["tokens"].tokens] for instance in found]
    return words, [instance["tags"].labels if "tags" in instance else instance["label"].label for instance in found]


def score(gold: Sequence[Any], found: Sequence[Any], metric: str, encoding: Optional[str]) -> float:
    """Return the score of a task: accuracy, F1 of spans, or F1 of the tokens with the tag that the metric names."""
    if metric == "accuracy":
        pairs = list(zip(gold, found, strict=True))
        if not isinstance(gold[0], str):
            pairs = [pair for tags, others in pairs for pair in zip(tags, others, strict=True)]
        return float(np.mean([right == label for right, label in pairs]))

    def parts(sentences: Sequence[list[str]]) -> set[Any]:
        if metric == "f1-measure-overall":
            spans = bio_tags_to_spans if encoding == "BIO" else bioul_spans
            return {(number, span) for number, tags in enumerate(sentences) for span in spans(tags)}
        wanted = metric.removeprefix("f1-measure-")
        return {(n, i) for n, tags in enumerate(sentences) for i, tag in enumerate(tags) if tag == wanted}

    right, labelled = parts(gold), parts(found)
    return 2 * len(right & labelled) / max(1, len(right) + len(labelled))


def bioul_spans(tags: list[str]) -> list[Any]:
    """Return the spans of BIOUL tags, which no CRF has made consistent."""
    as_bio = {"L": "I", "U": "B"}
    return bio_tags_to_spans([as_bio.get(tag[0], tag[0]) + tag[1:] for tag in tags])


def fine_tune(run: Run, model: Path) -> None:
    """Train all weights of BERT on a run's data, and write the files from which a table reads the score.

    The learning rate and the batches are those for small BERTs (Turc et al. 2019); there are as many steps as for the
    taggers and classifiers, and the best epoch counts, as for them.
    """
    task, folder, params = run.facts(), run.path(), prepare(run)
    folder.mkdir(exist_ok=True)
    train_words, train_gold = instances(params, "dataset_reader", "train")
    dev_words, dev_gold = instances(params, "validation_dataset_reader", "validation")
    is_tagging = not isinstance(train_gold[0], str)
    labels = sorted({tag for tags in train_gold for tag in tags} if is_tagging else set(train_gold))
    numbers = {label: number for number, label in enumerate(labels)}
    pieces = PreTrainedTokenizerFast.from_pretrained(model)

    def encode(words: list[str], gold: Any) -> dict[str, Any]:
        encoding = pieces(words, is_split_into_words=True, truncation=True, max_length=512)
        if not is_tagging:
            return {**encoding, "labels": numbers.get(gold, IGNORED)}
        owners = encoding.word_ids()
        first = [word is not None and word not in owners[:place] for place, word in enumerate(owners)]
        tags = [
            numbers.get(gold[word], IGNORED) if is_first else IGNORED
            for word, is_first in zip(owners, first, strict=True)
        ]
        return {**encoding, "labels": tags}

    def measure(predictions: Any) -> dict[str, float]:
        best = predictions.predictions.argmax(axis=-1)
        if not is_tagging:
            found: list[Any] = [labels[number] for number in best]
        else:
            found = []
            for words, row in zip(dev_words, best, strict=True):
                tags = dict.fromkeys(range(len(words)), "O")
                owners = pieces(words, is_split_into_words=True, truncation=True, max_length=512).word_ids()
                for place, word in reversed(list(enumerate(owners))):  # the first piece is the last to set a word's tag
                    if word is not None:
                        tags[word] = labels[row[place]]
                found.append(list(tags.values()))
        return {"score": score(dev_gold, found, task.metric, params["model"].get("label_encoding"))}

    kind = AutoModelForTokenClassification if is_tagging else AutoModelForSequenceClassification
    collator = DataCollatorForTokenClassification if is_tagging else DataCollatorWithPadding
    steps = math.ceil(task.train_size() / BATCH)
    arguments = TrainingArguments(
        str(folder / "checkpoints"),
        use_cpu=True,
        max_steps=task.epochs * steps,
        per_device_train_batch_size=BATCH,
        learning_rate=3e-4,
        eval_strategy="steps",
        eval_steps=steps,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=run.seed,
    )
    trainer = Trainer(
        kind.from_pretrained(model, num_labels=len(labels)),
        arguments,
        data_collator=collator(pieces),
        train_dataset=list(map(encode, train_words, train_gold)),
        eval_dataset=list(map(encode, dev_words, dev_gold)),
        compute_metrics=measure,
    )
    trainer.train()
    best = max(entry["eval_score"] for entry in trainer.state.log_history if "eval_score" in entry)
    metrics = {f"best_validation_{task.metric}": best, "epoch": task.epochs - 1}
    (folder / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    (folder / DONE).write_text(json.dumps({"task": run.task, "variant": run.variant}), encoding="utf-8")
