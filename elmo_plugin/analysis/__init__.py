"""RUNS, LAYERS → PAGES: reports of finished runs, nearest neighbours in context, and probes of each layer."""

from elmo_plugin.analysis.layer_weights import read_layer_weights
from elmo_plugin.analysis.minimal_pairs import (
    MinimalPair,
    PairAccuracy,
    pair_accuracies,
    read_pairs,
    score_pairs,
    write_scores,
)
from elmo_plugin.analysis.nearest_contexts import (
    Found,
    Neighbor,
    Query,
    Search,
    find_query,
    frequent_words,
    search,
    search_texts,
    write_contexts,
)
from elmo_plugin.analysis.page import (
    accuracies_page,
    data_check_page,
    frequent_words_page,
    minimal_pairs_page,
    neighbors_page,
)
from elmo_plugin.analysis.probing import (
    Accuracies,
    Examples,
    LabelledSentence,
    ProbingTask,
    probe,
    random_twin,
    read_senses,
    sense_task,
    tagging_task,
)
from elmo_plugin.analysis.pseudowords import pseudoword_task
from elmo_plugin.analysis.runs import Report, write_report

__all__ = [
    "Accuracies",
    "Examples",
    "Found",
    "LabelledSentence",
    "MinimalPair",
    "Neighbor",
    "PairAccuracy",
    "ProbingTask",
    "Query",
    "Report",
    "Search",
    "accuracies_page",
    "data_check_page",
    "find_query",
    "frequent_words",
    "frequent_words_page",
    "minimal_pairs_page",
    "neighbors_page",
    "pair_accuracies",
    "probe",
    "pseudoword_task",
    "random_twin",
    "read_layer_weights",
    "read_pairs",
    "read_senses",
    "score_pairs",
    "search",
    "search_texts",
    "sense_task",
    "tagging_task",
    "write_contexts",
    "write_report",
    "write_scores",
]
