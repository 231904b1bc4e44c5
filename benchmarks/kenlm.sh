#!/usr/bin/env bash
# Perplexity of a modified Kneser-Ney 5-gram model (KenLM), forward and backward, over the vocabulary of a biLM, to
# compare with english-tiny. As in `elmo-plugin evaluate`, <UNK> is a word like any other, and </s> is predicted.
#
#   benchmarks/kenlm.sh FOLDER VOCABULARY KENLM OUT
#
#   FOLDER      train-*.txt and heldout.txt, one tokenized sentence per line
#   VOCABULARY  bilm-tf's file; `elmo-plugin convert-elmo english-tiny FOLDER` writes one
#   KENLM       a folder with lmplz, build_binary and query. KenLM is built from its source package:
#                 apt-get install libboost-all-dev libbz2-dev liblzma-dev zlib1g-dev cmake g++
#                 pip download --no-binary kenlm --no-deps kenlm==0.3.0
#                 tar xzf kenlm-0.3.0.tar.gz && mkdir kenlm-0.3.0/build && cd kenlm-0.3.0/build
#                 cmake .. -DCMAKE_BUILD_TYPE=Release && make lmplz query build_binary
#   OUT         a folder for about 5 GB of texts and models
set -euo pipefail
folder=$1 vocabulary=$2 kenlm=$3 out=$4
mkdir -p "$out"

mapped() {  # text on standard input, words out of the vocabulary replaced
    awk 'NR == FNR { known[$0]; next }
         { for (i = 1; i <= NF; i++) if (!($i in known)) $i = "UNKNOWN-WORD"; $1 = $1; if (NF) print }' "$vocabulary" -
}
backward() {
    awk '{ for (i = NF; i > 0; i--) printf "%s%s", $i, (i > 1 ? " " : "\n") }'
}

cat "$folder"/train-*.txt | mapped > "$out/train.forward"
mapped < "$folder/heldout.txt" > "$out/heldout.forward"
for text in train heldout; do backward < "$out/$text.forward" > "$out/$text.backward"; done
for direction in forward backward; do
    "$kenlm/lmplz" -o 5 -S 6G --discount_fallback -T "$out" --text "$out/train.$direction" --arpa "$out/$direction.arpa" 2> "$out/$direction.log"
    "$kenlm/build_binary" -T "$out/" probing "$out/$direction.arpa" "$out/$direction.bin" >> "$out/$direction.log" 2>&1
    echo "$direction"
    "$kenlm/query" -v summary "$out/$direction.bin" < "$out/heldout.$direction" 2>> "$out/$direction.log"
done
