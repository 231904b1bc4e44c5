"""The paper's experiments over the configs of `training_configs/`, and the scripts that their results come from."""
