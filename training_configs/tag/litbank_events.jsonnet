// Literary events of LitBank (Sims et al. 2019): F1 of the tokens with the tag EVENT.
// LITBANK: a folder with train.tsv and dev.tsv.
(import '../lib/tagger.libsonnet') {
  data:: (import '../lib/data.libsonnet').litbank_events,
  metric:: '+f1-measure-EVENT',
  epochs:: 12,
  patience:: 4,
  grid+:: { train: 5263, dev: 935, epochs: 4, patience: 3 },
  model+: { verbose_metrics: true },
}
