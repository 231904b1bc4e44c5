// A learning rate fifty times as high for the layer weights, so that a short training changes them.
(import '../lib/task.libsonnet') {
  trainer+: { optimizer+: { parameter_groups: [[['scalar_parameters'], { lr: 50 * $.learning_rate }]] } },
}
