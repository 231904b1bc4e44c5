// γ, the scale of the mix, stays 1 (paper, §3.2: learning it helps optimization).
(import '../lib/task.libsonnet') { trainer+: { no_grad: ['gamma$'] } }
