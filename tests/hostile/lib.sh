# For the scripts of tests/hostile: one vipd or two, a checked victim, and what must be as before.
# Sourced by bash after scripts/daemons.sh; $build is the build tree.

# The victim: verified bulk data from here to the server at ADDRESS, for SECONDS; prints bytes per second, or
# nothing if a byte was wrong or it failed.
victim() { # victim HOST ADDRESS SECONDS
    in_host "$1" timeout 60 "$build/tools/vipperf" bw "$2" --verify --size 16K --duration "$3s" \
        --json "$WORK/victim.json" >"$WORK/victim.log" 2>&1 || return
    grep -q '"verified": true' "$WORK/victim.json" || return
    # As a whole number: the file may say 1.2e+09.
    jq '.results[0].bytes_per_s | floor' "$WORK/victim.json"
}

# The median of three or more numbers.
median() { printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"; }

stat_of() { # stat_of HOST COUNTER: of all scopes
    in_host "$1" "$build/tools/vipctl" show stats --json | tr -d ' \n' |
        grep -o "\"name\":\"$2\",\"value\":[0-9]*" | awk -F: '{sum += $NF} END {print sum + 0}'
}

# Descriptors, sessions, and gauges of a vipd, one per line. What a session leaves behind would show.
inventory() { # inventory HOST
    echo "descriptors $(find "/proc/${DAEMON_PID[$1]}/fd" -mindepth 1 | wc -l)"
    in_host "$1" "$build/tools/vipctl" show stats --json | tr -d ' \n' |
        grep -oE '"name":"(cm_waiters|cm_pending|cm_peers|kept_packets|kept_bytes|cq_backlogs)","value":[0-9]+'
    in_host "$1" "$build/tools/vipctl" show nic --json | tr -d ' \n' |
        grep -oE '"(vis|clients|regions|region_bytes)":[0-9]+'
}

# Wait until the inventory is the one in FILE.
inventory_back() { # inventory_back HOST FILE
    for _ in $(seq 100); do
        inventory "$1" >"$WORK/now"
        cmp -s "$WORK/now" "$2" && return 0
        sleep 0.1
    done
    echo "vipd $1 is not what it was before:"
    diff "$2" "$WORK/now"
    return 1
}

memory_kb() { sed -n 's/^RssAnon:[^0-9]*\([0-9]*\).*/\1/p' "/proc/${DAEMON_PID[$1]}/status"; }
