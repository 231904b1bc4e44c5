"""Dataset readers of tagged sentences and labelled texts."""

from elmo_plugin.models.readers.column_tags import ColumnTagsReader
from elmo_plugin.models.readers.doubtful_columns import doubtful_columns
from elmo_plugin.models.readers.text_classification_csv import TextClassificationCsvReader
from elmo_plugin.text import FilePath

__all__ = ["ColumnTagsReader", "FilePath", "TextClassificationCsvReader", "doubtful_columns"]
