"""Run the paper's experiments over the configs of `training_configs/`, and print their results."""
