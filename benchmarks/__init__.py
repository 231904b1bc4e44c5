"""Speed and memory: our biLMs, AllenNLP's `Elmo`, and the matrix products alone.

    bilms, text ──► systems, products ──► agreement ──► timing, memory ──► table
                    embed · layers · tagger · pretrain · long · growth · same

Run them with `python -m benchmarks`. `epoch`, `load`, `serve` and `start` are commands of their own, such as
`python -m benchmarks.load`. See docs/benchmarks.md.
"""
