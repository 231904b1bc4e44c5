"""How fast and how large: ours beside `allennlp.modules.elmo.Elmo` and beside the bare matrix products.

    sizes, text ──► weights, batches ──► contestants, products ──► agreement ──► timing, memory ──► table
                                         embed · layers · tagger · pretrain · long · growth

Run as `python -m benchmarks`; see README.md beside this file.
"""
