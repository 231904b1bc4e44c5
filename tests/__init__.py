"""A package, so that `tests` is this folder and not that of flair, which installs its own under this name."""
