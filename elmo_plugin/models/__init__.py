"""VECTORS → ANSWERS: readers of tagged and labelled text, the tagger, the classifier, and their predictors."""

from elmo_plugin.models.data_check import DataCheck, check_data, doubtful_columns
from elmo_plugin.models.predictors import ElmoClassifierPredictor, ElmoEmbedderPredictor, ElmoTaggerPredictor
from elmo_plugin.models.readers import ColumnTagsReader, TextClassificationCsvReader
from elmo_plugin.models.task_models import PLACES, ElmoClassifier, ElmoTagger, EnhancedText
from elmo_plugin.text import FilePath, SpacyBlankTokenizer

__all__ = [
    "PLACES",
    "ColumnTagsReader",
    "DataCheck",
    "ElmoClassifier",
    "ElmoClassifierPredictor",
    "ElmoEmbedderPredictor",
    "ElmoTagger",
    "ElmoTaggerPredictor",
    "EnhancedText",
    "FilePath",
    "SpacyBlankTokenizer",
    "TextClassificationCsvReader",
    "check_data",
    "doubtful_columns",
]
