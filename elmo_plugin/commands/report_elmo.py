"""`allennlp report-elmo`: finished runs to one page."""

import argparse
import sys
from pathlib import Path

from allennlp.commands.subcommand import Subcommand
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import write_report
from elmo_plugin.commands.arguments import check_values

DESCRIPTION = """
Read finished runs of `allennlp train` and write one page about them into a folder:

  report.html  all of it in one file, pictures inside
  report.md    the same in Markdown, with its pictures in PNG files beside it

It has the scores by task and variant, mean ± standard deviation over seeds; the score by the size of the
training data; the weights that each layer of the biLM was given; learning curves; confusion matrices of
classifiers; the perplexity of pretraining runs, both directions apart. What no run can tell is left out. A
run that is unfinished or cannot be read is named and not counted.

All runs below a folder:
  allennlp report-elmo runs --output report

Two of them:
  allennlp report-elmo runs/demo runs/bilm --output report

Task, variant, seed and part of the training data of a run stand in a file grid.json in its folder:
  {"task": "sst5", "variant": "english-tiny", "seed": 1, "fraction": 0.1, "metric": "accuracy"}
What that does not say, or where there is none, the names say: TASK/VARIANT-SEED, if the config's seed is
SEED; else the folder of the training data is the task, and the folder of the run the variant.

Layer weights and confusion matrices are read from the weights of a run, best.th or model.tar.gz; a
classifier labels its validation data again. With --keep both are also written to small files in the run's
folder, layer_weights.json and confusion.json, which are read instead from then on, so that weights may be
deleted.
"""


@Subcommand.register("report-elmo")
class ReportElmo(Subcommand):
    """Registered as a `Subcommand` with name `report-elmo`."""

    def add_subparser(self, parser: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
        """Say what the command takes."""
        subparser = parser.add_parser(
            self.name,
            description=DESCRIPTION,
            help="Write a page with tables and plots about finished runs.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        check_values(subparser)
        subparser.add_argument(
            "runs",
            metavar="RUN",
            type=Path,
            nargs="+",
            help="a folder that `allennlp train` wrote, or one that holds some",
        )
        subparser.add_argument(
            "--output", metavar="FOLDER", type=Path, required=True, help="the folder to write the page into"
        )
        subparser.add_argument(
            "--keep", action="store_true", help="write what only weights can tell to small files in the runs' folders"
        )
        subparser.set_defaults(func=run)
        return subparser


def run(args: argparse.Namespace) -> None:
    """Write the page, and say what was written; one line and exit code 1 if something is wrong."""
    try:
        report = write_report(args.runs, args.output, args.keep)
    except (ConfigurationError, OSError) as error:
        sys.exit(f"report-elmo: {error}")
    left_out = f", {len(report.uncounted)} not counted" if report.uncounted else ""
    print(f"{args.output}: {len(report.runs)} runs{left_out}; {', '.join(path.name for path in report.files)}")
