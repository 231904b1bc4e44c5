"""Write a report with tables and figures about finished runs.

elmo-plugin report-elmo RUN [RUN ...] --output FOLDER [options]

  elmo-plugin report-elmo runs --output report

This reads all runs of `elmo-plugin train` below the folder `runs`, and writes

  report/report.html  the whole report in one file
  report/report.md    the report in Markdown, with its figures in SVG files

Report on two runs only:
  elmo-plugin report-elmo runs/demo runs/bilm --output report

The report shows the scores by task and variant, as the mean ± the standard
deviation over seeds; the score by the size of the training data; the F1 of each
label, of models with verbose_metrics; the weights that the tasks learned for
the layers of the biLM, from best.th or model.tar.gz; learning curves; and the
perplexity of pretraining runs. A section without data is left out. Runs that
are unfinished or cannot be read are listed but not counted.

A file grid.json in a run's folder gives its task, variant, seed and share of
the training data, and optionally the commit of the code that trained it:
  {"task": "sst5", "variant": "english-tiny", "seed": 1, "fraction": 0.1,
   "metric": "accuracy", "commit": "1a2b3c4"}
Missing values come from the config and from the names of folders. In a folder
TASK/VARIANT-SEED, SEED must be the config's seed. Otherwise the folder of the
training data names the task, and the folder of the run names the variant.
--names says how the folders of your own are named; for runs/elmo/ner_seed1:
  elmo-plugin report-elmo runs --names VARIANT/TASK_seedSEED --output report
"""

import argparse
import shlex
from pathlib import Path

from elmo_plugin.commands.arguments import say_written


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "runs",
        metavar="RUN",
        type=Path,
        nargs="+",
        help="a folder of `elmo-plugin train`, or a folder of such folders",
    )
    parser.add_argument("--output", metavar="FOLDER", type=Path, required=True, help="the folder to write to")
    parser.add_argument("--names", metavar="FORM", help="where the end of a run's path has its TASK, VARIANT and SEED")


def run(args: argparse.Namespace) -> None:
    """Write the report and say what was written."""
    from elmo_plugin.analysis import write_report

    report = write_report(args.runs, args.output, args.names)
    left_out = f", {len(report.uncounted)} not counted" if report.uncounted else ""
    what = f"{len(report.runs)} runs{left_out}; report.html, report.md and its {len(report.files) - 2} figures"
    say_written(args.output, what, f"python -m webbrowser {shlex.quote(str(args.output / 'report.html'))}")
