// A biLM of your own: ELMO_BILM, ELMO_BILM_LAYERS, ELMO_BILM_PROJECTION.
(import '../lib/task.libsonnet') { bilm:: (import '../lib/bilms.libsonnet').from_environment }
