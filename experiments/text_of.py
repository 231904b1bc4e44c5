"""Write the text that a config's task reads, without labels, to pretrain a biLM on it."""

import argparse
from collections.abc import Iterator
from typing import Optional

from allennlp.common import Params
from allennlp.data import DatasetReader

import elmo_plugin  # noqa: F401

DESCRIPTION = """
Print the texts that a config's dataset reader reads: one text per line, of any length, its tokens separated by
spaces, as `text_shards` reads them. Labels are left out.

  python -m experiments.text_of training_configs/classify/imdb.jsonnet train > text.txt
"""


def texts(config: str, part: str = "train") -> Iterator[str]:
    """Yield the lines of one part, `train` or `validation`, of a config's data."""
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
