"""The text of a task, for a biLM of its own: what the reader of a config cuts it into, labels left out.

    uv run python benchmarks/text_of.py CONFIG [train|validation] > text.txt

A line is a whole text, of any length, its tokens separated by spaces, as `text_shards` reads it.
"""

import sys
from collections.abc import Iterator

from allennlp.common import Params
from allennlp.data import DatasetReader

import elmo_plugin  # noqa: F401


def texts(config: str, part: str = "train") -> Iterator[str]:
    """The lines of one part, `train` or `validation`, of a config's data."""
    params = Params.from_file(config)
    reader = DatasetReader.from_params(params["dataset_reader"])
    for instance in reader.read(params[f"{part}_data_path"]):
        yield " ".join(map(str, instance["tokens"]))


if __name__ == "__main__":
    for line in texts(*sys.argv[1:]):
        print(line)
