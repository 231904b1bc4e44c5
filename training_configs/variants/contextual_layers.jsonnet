// The two LSTM layers without the token layer, whose weight starts at 5e-14 and stays there.
(import '../lib/task.libsonnet') { elmo+:: { mix: { type: 'scalar', initial_scalar_parameters: [-30, 0, 0] } } }
