"""The one list of what importing this package replaces outside of it, and when.

A test compares every attribute of every module before and after the import with these names. The import also adds
NumPy's types of numbers to what `torch.load` may read (`trust_numpy_scalars`), and adds to `sys.meta_path` what says
how to replace an import of `allennlp.commands.elmo` (`RemovedCommand`). The programs also filter one warning and what
AllenNLP logs (`adapt_console` in `commands/console.py`).
"""

REPLACED = {
    "always": [
        # compat/configs.py
        "allennlp.common.from_params.FromParams.from_params",
        "allennlp.common.from_params.create_kwargs",
        "allennlp.common.from_params.pop_and_construct_arg",
        "allennlp.common.params.Params.from_file",
        "allennlp.common.params.Params.pop_choice",
        "allennlp.common.params.with_overrides",
        "allennlp.models.archival.tarfile",
        # compat/models.py
        "allennlp.modules.encoder_base._EncoderBase.sort_and_run_forward",
        "allennlp.nn.initializers.InitializerApplicator.__call__",
        "allennlp.nn.util.get_token_ids_from_text_field_tensors",
        "allennlp.nn.util.tiny_value_of_dtype",
        "allennlp.predictors.predictor.Predictor._json_to_instance",
        # compat/training.py
        "allennlp.training.callbacks.confidence_checks.ConfidenceChecksCallback.on_start",
        "allennlp.training.checkpointer.Checkpointer.load_checkpoint",
        "allennlp.training.gradient_descent_trainer.GradientDescentTrainer.__init__",
        "allennlp.training.gradient_descent_trainer.GradientDescentTrainer._try_train",
        "allennlp.training.gradient_descent_trainer.GradientDescentTrainer.from_partial_objects",
        # compat/others.py
        "allennlp.common.cached_transformers.get_tokenizer",
        "allennlp.interpret.attackers.hotflip.Hotflip._make_embedder_input",
        "allennlp.interpret.influence_interpreters.influence_interpreter.autograd",
        "allennlp.interpret.influence_interpreters.simple_influence._flatten_tensors",
        "allennlp.interpret.influence_interpreters.simple_influence.autograd",
        "allennlp.interpret.saliency_interpreters.integrated_gradient.numpy",
        "allennlp.interpret.saliency_interpreters.simple_gradient.SimpleGradient._aggregate_token_embeddings",
        "allennlp.interpret.saliency_interpreters.simple_gradient.numpy",
        "allennlp.interpret.saliency_interpreters.smooth_gradient.numpy",
        "allennlp.models.multitask.MultiTaskModel._get_arguments",
        "allennlp.training.callbacks.wandb.WandBCallback.on_start",
        "allennlp.training.learning_rate_schedulers.pytorch_lr_schedulers.ReduceOnPlateauLearningRateScheduler.__init__",
        "allennlp.training.moving_average.MovingAverage.load_state_dict",
        # compat/before_allennlp.py
        "allennlp.common.util.pkgutil",
        # compat/workers.py
        "allennlp.data.data_loaders.multiprocess_data_loader.MultiProcessDataLoader._join_workers",
        "allennlp.data.data_loaders.multiprocess_data_loader.MultiProcessDataLoader._start_batch_workers",
        "allennlp.data.data_loaders.multiprocess_data_loader.MultiProcessDataLoader._start_instance_workers",
        # checkpoints/loading.py
        "allennlp.models.archival.load_archive",
        # elmo/elmo.py
        "allennlp.modules.elmo.Elmo.from_params",
        # pretraining/trainer.py
        "allennlp.training.gradient_descent_trainer.GradientDescentTrainer._train_epoch",
        "allennlp.training.gradient_descent_trainer.GradientDescentTrainer._validation_loss",
        "allennlp.training.gradient_descent_trainer.GradientDescentTrainer.batch_outputs",
        # commands: what needs our commands
        "allennlp.commands.evaluate.evaluate_from_archive",
        "allennlp.commands.train.train_model",
    ],
    "in the programs `elmo-plugin` and `allennlp`, unless `allennlp` loads plugins of others": [
        # commands: what needs our commands
        "allennlp.commands.ArgumentParserWithDefaults.error",
        "allennlp.common.logging.prepare_global_logging",
        "sys.excepthook",
    ],
    "if the installed transformers or huggingface-hub lacks it": [
        # compat/before_allennlp.py
        "huggingface_hub.HfFolder",
        "huggingface_hub.Repository",
        "transformers.AdamW",
        "transformers.tokenization_utils_base.PreTrainedTokenizerBase.build_inputs_with_special_tokens",
        "transformers.tokenization_utils_base.PreTrainedTokenizerBase.encode_plus",
    ],
    "in the programs, while an epoch is trained or validated": [
        # commands: what needs our commands
        "allennlp.training.gradient_descent_trainer.Tqdm",
    ],
    "while a data loader starts its workers": [
        # compat/workers.py
        "allennlp.data.data_loaders.multiprocess_data_loader.mp",
    ],
}
