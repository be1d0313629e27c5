#!/usr/bin/env bash
# Runs the conformance suite over loop, udp and lossy (udp that loses packets). Writes
# conformance.md: each rule of the specification with its tests and their results, and for each
# return code its tests. Exit status 1 if a test failed or did not run, or if a code has no test.
# Also runs the programs without a table (suite.h); the report has only the names of their tests.
# usage: report.sh BUILD_DIR [OUTPUT]   (OUTPUT: BUILD_DIR/conformance.md)
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(realpath "${1:?build directory}")
output=${2:-$build/conformance.md}
bin=$build/tests/conformance
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
links="loop udp lossy"
started=$SECONDS

run() { # run PROGRAM LINK: print its results as "program name link result reason", tab-separated
    local program=$1 link=$2
    export VIP_CONF_CODES=$work/$program.$link.codes
    case $program in
    *death* | *gone*) export VIP_MAY_DIE=1 ;;
    *silence*)
        export VIP_NIC_LINES=$'[reliability]\nconn_timeout = 800ms\npeer_dead = 2s\nkeepalive = 500ms'
        ;;
    *fault) export VIP_NIC_LINES=$'[reliability]\nlinger = 0s' ;;
    *linger*) export VIP_NIC_LINES=$'[reliability]\nlinger = 60s\nconn_timeout = 60s\npeer_dead = 60s' ;;
    esac
    timeout 300 "$root/tests/lib/two_vipd.sh" "$build" "$link" "$bin/$program" \
        >"$work/$program.$link.log" 2>&1
    local status=$?
    unset VIP_MAY_DIE VIP_NIC_LINES
    awk -v program="$program" -v link="$link" -v OFS='\t' '
        /^\[  REASON  \]/ { reason = substr($0, 14) }
        /^\[ RUN      \]/ { running = $NF; reason = "" }
        /^\[       OK \]/ { print program, $NF, link, "pass", reason; running = "" }
        /^\[  FAILED  \]/ && $NF == running { print program, $NF, link, "FAIL", ""; running = "" }
        /^\[  SKIPPED \]/ && $NF == running { print program, $NF, link, "n/a", reason; running = "" }
        END { if (running != "") print program, running, link, "FAIL", "" }' \
        "$work/$program.$link.log" >"$work/one.$link"
    if [ $status -ne 0 ] && ! grep -q FAIL "$work/one.$link"; then
        printf '%s\t(the program, or a vipd)\t%s\tFAIL\t\n' "$program" "$link" >>"$work/one.$link"
    fi
    if grep -q FAIL "$work/one.$link"; then
        sed "s/^/$program $link: /" "$work/$program.$link.log" | grep -aE 'ERROR|LINE|FAILED' >&2
    fi
}

: >"$work/rules"
: >"$work/results"
for source in "$here"/conf_*.c; do
    program=$(basename "$source" .c)
    [ -x "$bin/$program" ] || { echo "$bin/$program is not built" >&2; exit 1; }
    ! grep -q 'CONF_MAIN' "$source" || "$bin/$program" --list >>"$work/rules"
    # Run over all links at the same time. Each run has its own vipd and mostly waits.
    for link in $links; do
        run "$program" "$link" &
    done
    wait
    for link in $links; do
        cat "$work/one.$link" >>"$work/results"
    done
done
seconds=$((SECONDS - started))

awk -F '\t' -v links="$links" -v seconds="$seconds" '
    function cell(id, link,    r) {
        r = result[id, link]
        return r == "" ? "not run" : r == "FAIL" ? "**FAIL**" : r
    }
    function line(id, sentence, doubt) {
        printf "| %s%s | `%s` | %s | %s | %s |\n", sentence, doubt, id, cell(id, "loop"), \
            cell(id, "udp"), cell(id, "lossy")
    }
    FILENAME ~ /results$/ {
        id = $1 ":" $2
        if (!(id in seen)) { seen[id] = 1; order[++total] = id }
        result[id, $3] = $4
        count[$3, $4]++
        if ($5 != "") why[id] = $5
        next
    }
    {
        id = $1 ":" $2
        ruled[id] = 1
        n++
        ids[n] = id; section[n] = $3; group[n] = $4; doubt[n] = $5; sentence[n] = $6
        if (!($3 in sections)) { sections[$3] = 1; names[++section_count] = $3 }
        groups[$4]++
    }
    END {
        print "# Conformance\n"
        print "Written by `tests/conformance/report.sh`; do not edit. Each row is one named test of one"
        print "sentence of the VIPL reference: over one vipd (loop), between two vipd over UDP (udp), and"
        print "with 5 % of the packets lost and 1 % corrupted in each direction (lossy). (?) marks rules"
        print "that the public sources of the reference did not confirm; they are followed all the same."
        print "\"n/a\" rows say below why a test makes no sense on a link.\n"
        print "| | loop | udp | lossy |\n| --- | --- | --- | --- |"
        split("pass FAIL n/a", kinds, " ")
        for (k = 1; k <= 3; k++)
            printf "| %s | %d | %d | %d |\n", kinds[k], count["loop", kinds[k]], \
                count["udp", kinds[k]], count["lossy", kinds[k]]
        printf "\n%d tests; %d with a rule: Early Adopter %d, Functional %d, Full %d.\n", total, n, \
            groups["E"], groups["F"], groups["L"]
        printf "\nThe three links beside each other took %d s on the machine that wrote this.\n", seconds
        title["E"] = "Early Adopter"; title["F"] = "Functional"; title["L"] = "Full"
        split("E F L", levels, " ")
        for (i = 2; i <= section_count; i++)
            for (j = i; j > 1 && before(names[j], names[j - 1]); j--) {
                t = names[j]; names[j] = names[j - 1]; names[j - 1] = t
            }
        for (s = 1; s <= section_count; s++) {
            printf "\n## Section %s\n", names[s]
            for (g = 1; g <= 3; g++) {
                head = 0
                for (i = 1; i <= n; i++) {
                    if (section[i] != names[s] || group[i] != levels[g])
                        continue
                    if (!head++)
                        printf "\n### %s\n\n| rule | test | loop | udp | lossy |\n| --- | --- | --- | --- | --- |\n", title[levels[g]]
                    line(ids[i], sentence[i], doubt[i] == "unconfirmed" ? " (?)" : "")
                }
            }
        }
        head = 0
        for (i = 1; i <= total; i++) {
            if (order[i] in ruled)
                continue
            if (!head++)
                print "\n## Further tests\n\n| what | test | loop | udp | lossy |\n| --- | --- | --- | --- | --- |"
            text = order[i]
            sub(/.*:/, "", text)
            gsub(/_/, " ", text)
            line(order[i], text, "")
        }
        head = 0
        for (i = 1; i <= total; i++)
            if (order[i] in why) {
                if (!head++)
                    print "\n## Remarks of tests\n"
                printf "- `%s`: %s\n", order[i], why[order[i]]
            }
    }
    function before(a, b,    x, y, i, c) {
        c = split(a, x, "."); split(b, y, ".")
        for (i = 1; i <= c; i++) {
            if (x[i] + 0 != y[i] + 0)
                return x[i] + 0 < y[i] + 0
        }
        return c < length(y)
    }' "$work/results" "$work/rules" >"$work/report" || exit 1
# Only over udp each test can run, so covered.sh gets the codes of the udp runs.
covered=0
{
    echo
    cat "$here/conformance_notes.md"
    printf '\n## Return codes, errors, status bits, and rows of tables\n\n'
    "$here/covered.sh" "$work"
} >>"$work/report" || covered=1
cp "$work/report" "$output"
not_run=$(grep -c '| not run' "$output")
echo "conformance: $(grep -c . "$work/rules") rules, $(wc -l <"$work/results") runs in $seconds s," \
    "$(cut -f4 "$work/results" | grep -c FAIL) failed, $not_run not run; $output"
[ "$covered" -eq 0 ] && [ "$not_run" -eq 0 ] && [ -s "$work/results" ] && ! cut -f4 "$work/results" | grep -q FAIL
