// A learning rate fifty times as high for γ, so that a short training changes it.
(import '../lib/task.libsonnet') {
  trainer+: { optimizer+: { parameter_groups: [[['gamma$'], { lr: 50 * $.learning_rate }]] } },
}
