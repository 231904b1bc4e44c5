"""FINISHED RUNS → ONE PAGE: tables and figures, in Markdown and as one HTML file."""

from elmo_plugin.report.findings import keep
from elmo_plugin.report.report import Report, write_report

__all__ = ["Report", "keep", "write_report"]
