// With the biLM of the package.
(import 'elmo.jsonnet') { bilm:: (import '../../lib/bilms.libsonnet').english_tiny }
