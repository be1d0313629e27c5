# Functions for the scripts of tests/hostile. Sourced by bash after scripts/daemons.sh; $build is
# the build tree. The victim is a program with verified data that must work beside an attacker.

# Attackers and controls (share.c) get the last processor for themselves; all other processes share
# the other processors. Otherwise the scheduler would change the result more than vipd does. Write
# ${ATTACK_CPU} in front of an attacker's command.
ATTACK_CPU=""
take_processors() {
    local allowed last
    [ "${VIP_PINNED:-yes}" = yes ] && [ "$(nproc)" -ge 2 ] || { echo "(the scheduler places all processes)"; return; }
    allowed=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
    last=${allowed##*[-,]}
    ATTACK_CPU="taskset -c $last"
    case $allowed in
    *-"$last") taskset -cp "${allowed%"$last"}$((last - 1))" $$ >/dev/null ;;
    *) taskset -cp "${allowed%,*}" $$ >/dev/null ;;
    esac
}

# The victim sends verified bulk data from HOST to the server at ADDRESS for SECONDS. Prints bytes
# per second, or nothing if a byte was wrong or the transfer failed.
victim() { # victim HOST ADDRESS SECONDS; $WORK/victim.pid has its pid while it runs
    local status
    start_in "$1" "$WORK/victim.log" "$build/tools/vipperf" bw "$2" --verify --size 16K \
        --duration "$3s" --json "$WORK/victim.json"
    echo $STARTED >"$WORK/victim.pid"
    wait $STARTED
    status=$?
    rm "$WORK/victim.pid"
    [ $status -eq 0 ] || return
    grep -q '"verified": true' "$WORK/victim.json" || return
    # `floor` makes a whole number, because the file may contain 1.2e+09.
    jq '.results[0].bytes_per_s | floor' "$WORK/victim.json"
}

# The median of the numbers on stdin.
median() { sort -n | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

# Processes that may be stopped (SIGSTOP) when the script ends.
STOPPED=()
hostile_end() {
    local pid
    [ "$BASHPID" = $$ ] || return
    for pid in ${STOPPED+"${STOPPED[@]}"}; do
        kill -CONT "$pid" 2>/dev/null
    done
    daemons_end
}

# End an attacker that may be stopped; returns the attacker's exit status.
attack_ends() {
    kill -TERM "$1"
    kill -CONT "$1"
    wait "$1"
}

# The victim's rate beside ATTACK_PID must be at least PERCENT of its rate beside CONTROL_PID (0:
# beside no process). The vipd of HOST reports the victim's progress. The last two arguments are
# those of `victim`. Compares $pairs pairs of slots of $slot_ms, with $settle_ms before each slot
# (share.c). If the rate is too low, repeats this up to twice.
keeps_share() { # keeps_share WHAT PERCENT HOST CONTROL_PID ATTACK_PID VICTIM_HOST VICTIM_ADDRESS
    local what=$1 percent=$2 host=$3 control=$4 attack=$5 try ratio transfer seconds
    STOPPED+=("$control" "$attack")
    kill -STOP "$control" "$attack"
    : >"$WORK/slots"
    for try in 1 2 3; do
        # The transfer must last longer than the slots.
        seconds=$((pairs * 2 * (slot_ms + settle_ms + 120) / 1000 + 2))
        ! grep -q '^VIP_SANITIZE:STRING=.' "$build/CMakeCache.txt" || seconds=$((seconds * 2))
        victim "$6" "$7" $seconds >"$WORK/rate" &
        transfer=$!
        for _ in $(seq 6000); do
            [ -s "$WORK/victim.pid" ] && break
            sleep 0.01
        done
        in_host "$host" "$build/tests/hostile/share" "$(cat "$WORK/victim.pid")" "$control" "$attack" \
            "$pairs" "$slot_ms" "$settle_ms" >>"$WORK/slots" || { echo "FAILED: nothing to measure"; return 1; }
        wait $transfer
        if ! [ "$(cat "$WORK/rate")" -gt 0 ] 2>/dev/null; then
            echo "FAILED: the victim beside $what:"
            tail -n 20 "$WORK/victim.log" "$WORK/$host.log"
            return 1
        fi
        ratio=$(awk '$1 > 0 {print 100 * $2 / $1}' "$WORK/slots" | median)
        printf '%s: the victim keeps %.0f %% (%s pairs; %.0f of %.0f messages/s of 16 KiB)\n' "$what" \
            "$ratio" "$(wc -l <"$WORK/slots")" "$(awk '{print $2}' "$WORK/slots" | median)" \
            "$(awk '{print $1}' "$WORK/slots" | median)"
        awk -v r="$ratio" -v p="$percent" 'BEGIN {exit !(r >= p)}' && return 0
        if grep -q '^VIP_SANITIZE:STRING=.' "$build/CMakeCache.txt"; then
            echo "(not judged: with sanitizers everything but the attacker is many times slower)"
            return 0
        fi
    done
    echo "FAILED: less than $percent %"
    return 1
}

stat_of() { # stat_of HOST COUNTER: the sum over all scopes
    in_host "$1" "$build/tools/vipctl" show stats --json | tr -d ' \n' |
        grep -o "\"name\":\"$2\",\"value\":[0-9]*" | awk -F: '{sum += $NF} END {print sum + 0}'
}

# Prints descriptors, sessions and gauges of a vipd, which show what a session leaves behind.
inventory() { # inventory HOST
    echo "descriptors $(find "/proc/${DAEMON_PID[$1]}/fd" -mindepth 1 | wc -l)"
    in_host "$1" "$build/tools/vipctl" show stats --json | tr -d ' \n' |
        grep -oE '"name":"(cm_waiters|cm_pending|cm_peers|kept_packets|kept_bytes|cq_backlogs)","value":[0-9]+'
    in_host "$1" "$build/tools/vipctl" show nic --json | tr -d ' \n' |
        grep -oE '"(vis|clients|regions|region_bytes)":[0-9]+'
}

# Wait until the inventory is the same as in FILE.
inventory_back() { # inventory_back HOST FILE
    for _ in $(seq 600); do
        inventory "$1" >"$WORK/now"
        cmp -s "$WORK/now" "$2" && return 0
        sleep 0.1
    done
    echo "vipd $1 is not what it was before:"
    diff "$2" "$WORK/now"
    return 1
}

memory_kb() { sed -n 's/^RssAnon:[^0-9]*\([0-9]*\).*/\1/p' "/proc/${DAEMON_PID[$1]}/status"; }
