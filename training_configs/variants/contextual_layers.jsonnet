// The two LSTM layers without the token layer, whose weight starts and stays at 1e-13.
(import '../lib/task.libsonnet') { elmo+:: { mix: { type: 'scalar', initial_scalar_parameters: [-30, 0, 0] } } }
