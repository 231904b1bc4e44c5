"""Print the texts that a config reads, without their labels, to pretrain a biLM on them."""

import argparse
from collections.abc import Iterator
from typing import Optional

from allennlp.common import Params
from allennlp.data import DatasetReader

import elmo_plugin  # noqa: F401

DESCRIPTION = """
Print the texts that a config's dataset reader reads, in the format of `text_shards`: one text of any length per line,
with spaces between its tokens. Labels are left out.

  python -m experiments.text_of training_configs/classify/imdb.jsonnet train > text.txt
"""


def texts(config: str, part: str = "train") -> Iterator[str]:
    """Yield one line for each text in a part, `train` or `validation`, of a config's data."""
    params = Params.from_file(config)
    reader = DatasetReader.from_params(params["dataset_reader"])
    for instance in reader.read(params[f"{part}_data_path"]):
        yield " ".join(map(str, instance["tokens"]))


def parse(arguments: Optional[list[str]] = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        "python -m experiments.text_of", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", help="a config of training_configs/, or your own")
    parser.add_argument("part", nargs="?", choices=["train", "validation"], default="train", help="default: train")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    args = parse()
    for line in texts(args.config, args.part):
        print(line)
