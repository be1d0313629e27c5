#!/usr/bin/env bash
# Checks with spin the handshakes of shared memory on processors whose loads and stores are not in order (memory.pml
# describes such a processor). Each model must hold in every execution. Each twin of a model lacks one fence
# (-DNO_FENCE) and must fail. Each of these fences must be in the C code, with the tag [model FENCE].
# usage: run.sh [MODEL...]
set -u
cd "$(dirname "$0")" || exit 1
for tool in spin gcc; do
    command -v $tool >/dev/null || {
        echo "models: $tool is not installed (apt-get install spin gcc)"
        exit 1
    }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
folders="../../libvipl ../../proto ../../vipd ../../tools"
# Words of C that order loads and stores. The line of a tag or the next line must have such a word.
orders='vip_fence_|__atomic_thread_fence|_acquire\(|_release\(|unlock_full|__ATOMIC_(ACQUIRE|RELEASE|SEQ_CST)'
bad=0

complain() {
    echo "models: $*"
    bad=1
}

# verify MODEL SPIN_OPTIONS...: make the verifier and run it; the report is $work/report. Compile
# without optimization: optimizing takes longer than the verifier runs.
verify() {
    local model=$1
    shift
    (
        cd "$work" || exit 1
        cp -- "$OLDPWD"/*.pml . && spin "$@" -a "$model.pml" &&
            gcc -O0 -w -DSAFETY -DMEMLIM=1000 -o pan pan.c && ./pan -m200000 -w20
    ) >"$work/report" 2>&1 || return 1
    grep -q '^State-vector' "$work/report" && ! grep -q 'too small\|out of memory' "$work/report"
}

check_true() {
    local model=$1
    if ! verify "$model" || ! grep -q 'errors: 0$' "$work/report"; then
        complain "$model does not hold"
        cat "$work/report"
    # A line that no execution reaches proves nothing. There are two exceptions. Some lines of the
    # store buffers (cpu) are never reached. A load with acquire order may never see an old value.
    elif awk '/^unreached in/ { model = !/ store_buffer$/ }
        /^\t.*state [0-9]+, / && model && !/cpu\[|"else"|"-end-"/ { found = 1; print }
        END { exit !found }' "$work/report"; then
        complain "$model has lines that are never reached"
        cat "$work/report"
    fi
}

check_twin() {
    local model=$1 fence=$2
    if ! verify "$model" "-DNO_$fence"; then
        complain "$model without $fence could not be run"
        cat "$work/report"
    elif ! grep -qE '^pan:1: (assertion violated|invalid end state)' "$work/report"; then
        complain "$model does not fail without $fence"
    fi
    # shellcheck disable=SC2086
    grep -rhFA1 --include='*.[ch]' "[$model $fence]" $folders >"$work/code" ||
        complain "no line of C has the tag [$model $fence]"
    # A rule is not a fence and needs no word that orders loads and stores; unit tests check rules.
    [[ $fence = RULE_* ]] || grep -qE "$orders" "$work/code" || complain "at [$model $fence] is nothing that orders loads and stores"
}

twins() {
    sed -n 's/^#ifndef NO_//p' "$1.pml"
}

# Complain about tags in the code that no model has.
check_tags() {
    local model fence
    # shellcheck disable=SC2086
    grep -rhoE --include='*.[ch]' '\[[a-z_]+ [A-Z][A-Z_]+\]' $folders | tr -d '[]' | sort -u >"$work/tags"
    while read -r model fence; do
        [ -e "$model.pml" ] && twins "$model" | grep -qx "$fence" ||
            complain "[$model $fence] is in the code; $model.pml has no such fence"
    done <"$work/tags"
}

models=${*:-$(ls ./*.pml | sed 's|^./||; s|\.pml$||' | grep -vxE "memory|futex")}
for model in $models; do
    check_true "$model"
    states=$(sed -nE 's/^ *([0-9.e+]+) states, stored.*/\1/p' "$work/report")
    for fence in $(twins "$model"); do
        check_twin "$model" "$fence"
    done
    echo "models: $model: $states states; without" $(twins "$model")
done
[ $# -gt 0 ] || check_tags
[ $bad -eq 0 ] && echo "models: all hold, and every twin fails"
exit $bad
