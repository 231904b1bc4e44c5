"""What every package uses: config keys, JSON, labels, atomic writes, stop signals, equal settings, empty modules."""

from elmo_plugin.common.atomic_write import LOCK, NotWritten, atomic_file, atomic_folder, lock_folder
from elmo_plugin.common.config_keys import (
    Kind,
    at_least,
    check_config,
    check_keys,
    check_value,
    did_you_mean,
    is_ours,
    kind_of,
    names_our_components,
    probability,
)
from elmo_plugin.common.errors import extra, installed, named_errors, printable
from elmo_plugin.common.json_text import check_made_with, parse_json, read_json
from elmo_plugin.common.labels import count_labels, labels_not_in_train, some_of
from elmo_plugin.common.stop_signals import Stopped, on_stop_signal, stop
from elmo_plugin.common.without_memory import without_memory

__all__ = [
    "LOCK",
    "Kind",
    "NotWritten",
    "Stopped",
    "at_least",
    "atomic_file",
    "atomic_folder",
    "check_config",
    "check_keys",
    "check_made_with",
    "check_value",
    "count_labels",
    "did_you_mean",
    "extra",
    "installed",
    "is_ours",
    "kind_of",
    "labels_not_in_train",
    "lock_folder",
    "named_errors",
    "names_our_components",
    "on_stop_signal",
    "parse_json",
    "printable",
    "probability",
    "read_json",
    "some_of",
    "stop",
    "without_memory",
]
