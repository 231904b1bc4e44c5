// BiLMs by name: their keys in `elmo`, and the sizes that the rest of a model is derived from.
//   keys        the value of `bilm` in `elmo`
//   num_layers  L, the token layer included
//   layer_dim   D, both directions
//   options     all sizes, as in an options.json
local sizes(options) = {
  num_layers: options.lstm.n_layers + 1,
  layer_dim: 2 * options.lstm.projection_dim,
  options:: options,
};
local random(options, seed=1) = sizes(options) { keys: { options: options, seed: seed } };

// The result of a pretraining run: ELMO_BILM is its folder or its archive.
local from_run(options) = sizes(options) { keys: { pretrained: std.extVar('ELMO_BILM') } };

// The sizes of english-tiny, which its pretraining and its control share.
local english_tiny = {
  lstm: { dim: 512, projection_dim: 256, n_layers: 2, cell_clip: 3, proj_clip: 3, use_skip_connections: true },
  char_cnn: { embedding: { dim: 16 }, filters: [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256]], n_highway: 1 },
};

{
  // English, pretrained (../pretrain/bilm_tiny.jsonnet); it comes with the package.
  english_tiny:: sizes(english_tiny) { keys: { pretrained: 'english-tiny' } },

  // The same sizes, random weights: the control of an experiment.
  random:: random(english_tiny),

  // For tests and demos: very small.
  tiny:: random(english_tiny {
    lstm+: { dim: 64, projection_dim: 16 },
    char_cnn+: { filters: [[1, 16], [2, 16], [3, 32]] },
  }),

  // The biLMs of ../systems/, each pretrained on the text of its task.
  ag_news_words:: from_run({ lstm: english_tiny.lstm { dim: 256, projection_dim: 128 } }),
  ag_news_characters:: from_run(self.ag_news_words.options {
    char_cnn: english_tiny.char_cnn { filters: [[1, 32], [2, 32], [3, 64], [4, 128], [5, 128]] },
  }),
  imdb_characters:: from_run({
    lstm: english_tiny.lstm { dim: 128, projection_dim: 64 },
    char_cnn: english_tiny.char_cnn { filters: [[1, 2], [2, 2], [3, 4], [4, 8], [5, 16], [6, 32], [7, 64]] },
  }),

  // A file of yours, in any format: ELMO_BILM is its path, ELMO_BILM_LAYERS its LSTM layers, ELMO_BILM_PROJECTION P.
  from_environment:: {
    keys: { pretrained: std.extVar('ELMO_BILM') },
    num_layers: std.parseInt(std.extVar('ELMO_BILM_LAYERS')) + 1,
    layer_dim: 2 * std.parseInt(std.extVar('ELMO_BILM_PROJECTION')),
  },

  default:: self.english_tiny,
}
