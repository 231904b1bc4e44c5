"""RUNS, LAYERS → PAGES: reports of finished runs, nearest neighbours in context, and probes of each layer."""

from elmo_plugin.analysis.data_check import DataCheck, check_data
from elmo_plugin.analysis.layer_weights import LearnedMix, learned_mixes
from elmo_plugin.analysis.minimal_pairs import MinimalPair, PairAccuracy, pair_accuracies, read_pairs
from elmo_plugin.analysis.nearest_contexts import Neighbor, Query, Search, find_query, nearest_uses, search
from elmo_plugin.analysis.page import accuracies_page, data_check_page, minimal_pairs_page, neighbors_page
from elmo_plugin.analysis.probing import (
    Accuracies,
    Examples,
    LabelledSentence,
    Task,
    probe,
    random_twin,
    sense_task,
    tagging_task,
)
from elmo_plugin.analysis.pseudowords import pseudoword_task
from elmo_plugin.analysis.report import Report, keep, write_report

__all__ = [
    "Accuracies",
    "DataCheck",
    "Examples",
    "LabelledSentence",
    "LearnedMix",
    "MinimalPair",
    "Neighbor",
    "PairAccuracy",
    "Query",
    "Report",
    "Search",
    "Task",
    "accuracies_page",
    "check_data",
    "data_check_page",
    "find_query",
    "keep",
    "learned_mixes",
    "minimal_pairs_page",
    "nearest_uses",
    "neighbors_page",
    "pair_accuracies",
    "probe",
    "pseudoword_task",
    "random_twin",
    "read_pairs",
    "search",
    "sense_task",
    "tagging_task",
    "write_report",
]
