#!/usr/bin/env bash
# A week of work, which docs/reference/week.md explains. Its variables are your files:
# src=text.fi tgt=text.sv valid_src=… bash week.sh, in a new folder.
set -euo pipefail
src=${src:-text.de}               tgt=${tgt:-text.en}               # pairs (plain or .gz)
valid_src=${valid_src:-valid.de}  valid_tgt=${valid_tgt:-valid.en}
test_src=${test_src:-test.de}     test_tgt=${test_tgt:-test.en}
mono=${mono:-mono.en}             # more sentences in the target language
run=${run:-run.yaml}              # sizes and schedule, such as `preset: base`
first=${first:-}                  # a model to start from, such as one of OPUS-MT
reverse=${reverse:-}              # a model from the target language to the source

prepare() { # a folder, and what goes into it
    tnb_prepare "$@" --config "$run" --valid_src "$valid_src" --valid_tgt "$valid_tgt" \
        --held_out "$test_src" "$test_tgt" --drop_duplicates --drop_leaks
}
best() { # of two files, $5 in 100 pairs, which the first model likes best, as $3 and $4
    tnb_score "$first" "$1" "$2" | awk '{ print $2 "\t" NR }' | sort -gr > scored.tsv
    head -n $(($(wc -l < scored.tsv) * $5 / 100)) scored.tsv | cut -f2 > kept # lines
    gzip -cdf "$1" | awk 'NR == FNR { kept[$1]; next } FNR in kept' kept - > "$3"
    gzip -cdf "$2" | awk 'NR == FNR { kept[$1]; next } FNR in kept' kept - > "$4"
}

# Monday: what is in the text?
prepare data --src "$src" --tgt "$tgt" ${first:+--tokenizer "$first"}

# Tuesday: two models
[ "$first" ] || tnb_train --out first --config "$run" --data data
[ "$reverse" ] || tnb_train --out reverse --config "$run" --src "$tgt" --tgt "$src" \
    --valid_src "$valid_tgt" --valid_tgt "$valid_src" \
    --held_out "$test_tgt" "$test_src" --drop_duplicates --drop_leaks
first=${first:-first} reverse=${reverse:-reverse}

# Wednesday: the model reads its own text
best "$src" "$tgt" clean.src clean.tgt 90
prepare filtered.data --src clean.src --tgt clean.tgt --tokenizer "$first"

# Thursday: text from the other side
tnb_translate "$reverse" "$mono" --sample --temperature 0.7 --seed 1 --no_split --exact > back.src
best back.src "$mono" good.src good.tgt 80
prepare mixed.data --src clean.src good.src --tgt clean.tgt good.tgt --tag none '<bt>' \
    --tokenizer "$first"

# Friday: does any of it help?
tnb_train --out control --init "$first" --weights last --data data
tnb_train --out filtered --init "$first" --weights last --data filtered.data
tnb_train --out mixed --init "$first" --weights last --data mixed.data
tnb_evaluate control --src "$test_src" --ref "$test_tgt" --out control.txt > control.json
tnb_evaluate filtered --src "$test_src" --ref "$test_tgt" --baseline control.txt > filtered.json
tnb_evaluate mixed --src "$test_src" --ref "$test_tgt" --baseline control.txt > mixed.json
tnb_export mixed hub --format transformers
