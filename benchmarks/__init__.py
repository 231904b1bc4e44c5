"""Speed and memory: ours beside `allennlp.modules.elmo.Elmo` and beside the bare matrix products.

    bilms, text ──► systems, products ──► agreement ──► timing, memory ──► table
                    embed · layers · tagger · pretrain · long · growth · same · load

Run as `python -m benchmarks`; see docs/benchmarks.md.
"""
