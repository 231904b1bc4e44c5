"""The one list of what importing this package replaces outside of it, and when.

A test compares every attribute of every module before and after the import with these names. The import also adds
NumPy's types of numbers to what `torch.load` may read (`trust_numpy_scalars`), and adds to `sys.meta_path` what says
how to replace an import of `allennlp.commands.elmo` (`RemovedCommand`). The programs also filter one warning and what
AllenNLP logs (`adapt_console` in `commands/console.py`).
"""

ALWAYS = "always"
PROGRAMS = "in the programs `elmo-plugin` and `allennlp`, unless `allennlp` loads plugins of others"
LIBRARIES = "if the installed transformers or huggingface-hub lacks it"
WHILE_TRAINING = "in the programs, while an epoch is trained or validated"
WHILE_STARTING = "while a data loader starts its workers"

REPLACED = {
    # compat/configs.py
    "allennlp.common.from_params.FromParams.from_params": ALWAYS,
    "allennlp.common.from_params.create_kwargs": ALWAYS,
    "allennlp.common.from_params.pop_and_construct_arg": ALWAYS,
    "allennlp.common.params.Params.from_file": ALWAYS,
    "allennlp.common.params.with_overrides": ALWAYS,
    "allennlp.models.archival.tarfile": ALWAYS,
    # compat/models.py
    "allennlp.modules.encoder_base._EncoderBase.sort_and_run_forward": ALWAYS,
    "allennlp.nn.initializers.InitializerApplicator.__call__": ALWAYS,
    "allennlp.nn.util.get_token_ids_from_text_field_tensors": ALWAYS,
    "allennlp.nn.util.tiny_value_of_dtype": ALWAYS,
    "allennlp.predictors.predictor.Predictor._json_to_instance": ALWAYS,
    # compat/training.py
    "allennlp.training.callbacks.confidence_checks.ConfidenceChecksCallback.on_start": ALWAYS,
    "allennlp.training.checkpointer.Checkpointer.load_checkpoint": ALWAYS,
    "allennlp.training.gradient_descent_trainer.GradientDescentTrainer.__init__": ALWAYS,
    "allennlp.training.gradient_descent_trainer.GradientDescentTrainer._try_train": ALWAYS,
    "allennlp.training.gradient_descent_trainer.GradientDescentTrainer.from_partial_objects": ALWAYS,
    # compat/others.py
    "allennlp.common.cached_transformers.get_tokenizer": ALWAYS,
    "allennlp.interpret.attackers.hotflip.Hotflip._make_embedder_input": ALWAYS,
    "allennlp.interpret.influence_interpreters.influence_interpreter.autograd": ALWAYS,
    "allennlp.interpret.influence_interpreters.simple_influence._flatten_tensors": ALWAYS,
    "allennlp.interpret.influence_interpreters.simple_influence.autograd": ALWAYS,
    "allennlp.interpret.saliency_interpreters.integrated_gradient.numpy": ALWAYS,
    "allennlp.interpret.saliency_interpreters.simple_gradient.SimpleGradient._aggregate_token_embeddings": ALWAYS,
    "allennlp.interpret.saliency_interpreters.simple_gradient.numpy": ALWAYS,
    "allennlp.interpret.saliency_interpreters.smooth_gradient.numpy": ALWAYS,
    "allennlp.models.multitask.MultiTaskModel._get_arguments": ALWAYS,
    "allennlp.training.callbacks.wandb.WandBCallback.on_start": ALWAYS,
    "allennlp.training.learning_rate_schedulers.pytorch_lr_schedulers.ReduceOnPlateauLearningRateScheduler.__init__": ALWAYS,  # noqa: E501
    "allennlp.training.moving_average.MovingAverage.load_state_dict": ALWAYS,
    # compat/before_allennlp.py
    "allennlp.common.util.pkgutil": ALWAYS,
    "huggingface_hub.HfFolder": LIBRARIES,
    "huggingface_hub.Repository": LIBRARIES,
    "transformers.AdamW": LIBRARIES,
    "transformers.tokenization_utils_base.PreTrainedTokenizerBase.build_inputs_with_special_tokens": LIBRARIES,
    "transformers.tokenization_utils_base.PreTrainedTokenizerBase.encode_plus": LIBRARIES,
    # compat/workers.py
    "allennlp.data.data_loaders.multiprocess_data_loader.MultiProcessDataLoader._join_workers": ALWAYS,
    "allennlp.data.data_loaders.multiprocess_data_loader.MultiProcessDataLoader._start_batch_workers": ALWAYS,
    "allennlp.data.data_loaders.multiprocess_data_loader.MultiProcessDataLoader._start_instance_workers": ALWAYS,
    "allennlp.data.data_loaders.multiprocess_data_loader.mp": WHILE_STARTING,
    # checkpoints/loading.py
    "allennlp.models.archival.load_archive": ALWAYS,
    # elmo/elmo.py
    "allennlp.modules.elmo.Elmo.from_params": ALWAYS,
    # pretraining: what needs the language model and the exact resume
    "allennlp.training.gradient_descent_trainer.GradientDescentTrainer._train_epoch": ALWAYS,
    "allennlp.training.gradient_descent_trainer.GradientDescentTrainer._validation_loss": ALWAYS,
    "allennlp.training.gradient_descent_trainer.GradientDescentTrainer.batch_outputs": ALWAYS,
    # commands: what needs our commands
    "allennlp.commands.evaluate.evaluate_from_archive": ALWAYS,
    "allennlp.commands.train.train_model": ALWAYS,
    "allennlp.commands.ArgumentParserWithDefaults.error": PROGRAMS,
    "allennlp.common.logging.prepare_global_logging": PROGRAMS,
    "allennlp.training.gradient_descent_trainer.Tqdm": WHILE_TRAINING,
    "sys.excepthook": PROGRAMS,
}
