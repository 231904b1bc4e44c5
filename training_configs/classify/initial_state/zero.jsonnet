// What the LSTMs start a sentence from, zero, seen at its clearest: ELMo alone, no x.
(import '../your_bilm/ag_news.jsonnet') { x:: {}, elmo:: { initial_state: 'zero' } }
