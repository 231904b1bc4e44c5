"""Dataset readers of the formats that tagged and labelled text comes in."""

from elmo_plugin.models.readers.column_tags import ColumnTagsReader
from elmo_plugin.models.readers.text_classification_csv import TextClassificationCsvReader

__all__ = ["ColumnTagsReader", "TextClassificationCsvReader"]
