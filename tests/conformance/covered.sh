#!/usr/bin/env bash
# Compares codes.txt (the codes that tests of each call must show) with the codes that passing tests
# expected and got. Checks that the tests of each row in rows.txt have passed. No call may return a
# code that codes.txt excludes or does not list, even if no test expected it. Input: the files
# DIR/*.codes, which the conformance programs write with VIP_CONF_CODES (record.c). Prints both
# tables as Markdown; prints missing and unlisted codes on standard error. Exit status 1 if there is
# such a code. tests/am has its own lists; their codes have whole names.
# usage: covered.sh DIR [LISTS [PREFIX]]     LISTS: the folder of codes.txt and rows.txt; PREFIX of their codes (VIP_)
set -u
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:?directory with .codes files}
lists=${2:-$here}
prefix=${3-VIP_}
files=("$dir"/*.codes)
[ -e "${files[0]}" ] || { echo "covered.sh: no .codes file in $dir" >&2; exit 1; }
awk -v rules="$lists/codes.txt" -v rows="$lists/rows.txt" -v prefix="$prefix" '
    BEGIN {
        FS = "\t"
        while ((getline line < rules) > 0) {
            n = split(line, word, " ")
            if (line ~ /^#/ || !n)
                continue
            if (word[1] == "never" || word[1] == "also") {
                pair = word[2] SUBSEP prefix word[3]
                text = line
                sub(/^[^ ]+ [^ ]+ [^ ]+ /, "", text)
                if (word[1] == "never") never[pair] = text
                else { also[pair] = text; more[word[2]] = more[word[2]] " " prefix word[3] }
                continue
            }
            if (n < 3 || word[1] in section)
                bad_rules = bad_rules "\n" line
            order[++count] = word[1]
            section[word[1]] = word[2]
            for (i = 3; i <= n; i++)
                codes[word[1]] = codes[word[1]] " " prefix word[i]
        }
    }
    $1 == "passed" { passed[$3] = 1; next }
    $1 == "came" { came[$2, $4] = $3; next }
    { # the first test of a pair; a test of conf_codes wins
        pair = $1 SUBSEP $2
        if (!(pair in test) || ($3 ~ /^conf_codes:/ && test[pair] !~ /^conf_codes:/))
            test[pair] = $3
    }
    function wrong(text) { print "covered.sh: " text > "/dev/stderr"; bad = 1 }
    END {
        if (bad_rules != "" || !count)
            wrong("codes.txt: no rules, or lines that are none:" bad_rules)
        print "| call | section | code | test |\n| --- | --- | --- | --- |"
        for (i = 1; i <= count; i++) {
            n = split(codes[order[i]] more[order[i]], word, " ")
            for (k = 1; k <= n; k++) {
                pair = order[i] SUBSEP word[k]
                listed[pair] = 1
                if (pair in never) {
                    if (pair in came)
                        wrong(order[i] " gave " word[k] " in " came[pair] ", which codes.txt says never comes")
                    cell = "never: " never[pair]
                } else if (pair in test)
                    cell = "`" test[pair] "`" (pair in also ? " (" also[pair] ")" : "")
                else {
                    wrong("no passing test asks " order[i] " for " word[k])
                    cell = "**none**"
                }
                printf "| %s | %s | %s | %s |\n", order[i], section[order[i]], word[k], cell
            }
        }
        for (pair in test)
            if (!(pair in listed)) {
                split(pair, word, SUBSEP)
                wrong(word[1] " gave " word[2] " in " test[pair] ", which codes.txt does not know")
            }
        for (pair in came)
            if (!(pair in listed) && !(pair in test)) {
                split(pair, word, SUBSEP)
                wrong(word[1] " gave " word[2] " in " came[pair] ", which codes.txt does not know")
            }
        row_table()
        exit bad
    }
    # Puts the names of the tests that a word of rows.txt names into `names`; returns their number.
    function expand(word, names) {
        if (word ~ /@2$/) {
            sub(/@2$/, "", word)
            return split(word "_rd " word "_rr", names, " ")
        }
        if (word ~ /@$/) {
            sub(/@$/, "", word)
            return split(word "_ud " word "_rd " word "_rr", names, " ")
        }
        names[1] = word
        return 1
    }
    function row_table(    line, part, word, names, n, m, i, k, cell) {
        print "\n| section | row | tests |\n| --- | --- | --- |"
        while ((getline line < rows) > 0) {
            if (line ~ /^#/ || line == "")
                continue
            if (split(line, part, / \| /) != 3 || part[3] !~ /[^ ]/) {
                wrong("rows.txt: this is no row: " line)
                continue
            }
            rows_read++
            cell = ""
            n = split(part[3], word, " ")
            for (i = 1; i <= n; i++) {
                m = expand(word[i], names)
                for (k = 1; k <= m; k++)
                    if (!(names[k] in passed))
                        wrong(names[k] " of row \"" part[2] "\" (" part[1] ") has not passed")
                cell = cell (i > 1 ? ", " : "") "`" word[i] "`"
            }
            printf "| %s | %s | %s |\n", part[1], part[2], cell
        }
        if (!rows_read)
            wrong("rows.txt has no rows, or cannot be read")
    }' "${files[@]}"
