// Layer weights learn fifty times as fast as the rest, so that a short training can move them.
(import '../lib/task.libsonnet') {
  trainer+: { optimizer+: { parameter_groups: [[['scalar_parameters'], { lr: 50 * $.learning_rate }]] } },
}
