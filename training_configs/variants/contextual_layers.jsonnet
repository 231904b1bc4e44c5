// The LSTM layers without the token layer, whose weight begins and stays at 1e-13: of a biLM with two of them.
(import '../lib/task.libsonnet') { elmo+:: { mix: { type: 'scalar', initial_scalar_parameters: [-30, 0, 0] } } }
