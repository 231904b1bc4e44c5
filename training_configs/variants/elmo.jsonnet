// The paper's ELMo: input and output, learned layer weights with λ = 0, dropout 0.5, no layer norm.
import '../lib/task.libsonnet'
