// The biLM that comes with the package.
(import 'elmo.jsonnet') { bilm:: (import '../../lib/bilms.libsonnet').english_tiny }
