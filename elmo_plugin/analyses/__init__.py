"""A biLM → WHAT ITS LAYERS KNOW: nearest neighbours in context, and probes of each layer alone (ELMo §5.3)."""

from elmo_plugin.analyses.labelled_sentences import Examples, LabelledSentence
from elmo_plugin.analyses.nearest_contexts import Neighbor, Query, Search, find_query, search
from elmo_plugin.analyses.probing import Accuracies, Task, probe, random_twin, sense_task, tagging_task
from elmo_plugin.analyses.pseudowords import pseudoword_task

__all__ = [
    "Accuracies",
    "Examples",
    "LabelledSentence",
    "Neighbor",
    "Query",
    "Search",
    "Task",
    "find_query",
    "probe",
    "pseudoword_task",
    "random_twin",
    "search",
    "sense_task",
    "tagging_task",
]
