# Functions for faults.sh: start two vipd and their programs, and compare vipd's state before and
# after a fault. Sourced by bash. Owns the processes, $bad, $sanitized (not empty in a build with
# sanitizers), and $small (not empty: $WORK/small is a file system of 256 KiB and 64 inodes).

PROGRAMS=4     # 0 and 2: server on B, client on A; 1 and 3 the other way round
LIMIT_S=120    # seconds; ends a test that hangs. Work goes on much earlier: vipd notices silence after 2 s
PROGRAM_PID=()
LOG_LINES=()
bad=0
sanitized=""
small=""

failed() {
    echo "FAILED $current: $*"
    bad=1
}

# ---- daemons and programs ---------------------------------------------------------------------

faults_daemon() { # faults_daemon HOST
    local address=$address_a
    [ "$1" = A ] || address=$address_b
    daemon_start "$1" "$address" $port "${settings[@]}" || exit 1
}

faults_begin() {
    current="set-up"
    VIPD=$build/vipd/vipd
    grep -q '^VIP_SANITIZE:STRING=.' "$build/CMakeCache.txt" && sanitized=yes
    port_take || exit 1
    namespaces_begin
    case $? in
    0)
        NETNS_A=$NS_A
        NETNS_B=$NS_B
        address_a=10.77.0.1
        address_b=10.77.0.2
        ;;
    77)
        address_a=127.0.0.1
        address_b=127.0.0.2
        echo "(left out: link_down, address_removed)"
        ;;
    *) exit 1 ;;
    esac
    daemons_begin
    mkdir "$WORK/small"
    if mount -t tmpfs -o size=256k,nr_inodes=64 tmpfs "$WORK/small" 2>"$WORK/mount.log"; then
        small=yes
        ln -s "$WORK/small/B.log" "$WORK/B.log"
    else
        echo "(left out: log_full, runtime_full: $(cat "$WORK/mount.log"))"
    fi
    [ -z "$sanitized" ] ||
        echo "(left out: limits of memory, which the sanitizer's own does not survive)"
    faults_daemon A
    faults_daemon B
    # Run everything once before the state is recorded, because a first use fills allocator caches.
    programs_start
    goes_on
    sleep 1
    programs_stop
    sleep 0.5
    for host in A B; do
        gauges $host >"$WORK/$host.gauges"
        memory $host >"$WORK/$host.memory"
    done
}

faults_end() {
    local pid
    [ "$BASHPID" = $$ ] || return
    for pid in "${PROGRAM_PID[@]}"; do
        kill -CONT "$pid" 2>/dev/null
        kill -KILL "$pid" 2>/dev/null
    done
    [ -z "${DAEMON_PID[B]-}" ] || kill -CONT "${DAEMON_PID[B]}"
    for pid in "${!DAEMON_PID[@]}"; do
        daemon_stop "$pid"
    done
    [ -z "$small" ] || umount "$WORK/small"
    daemons_end
}

program_host() { [ $(($1 % 2)) -eq $(($1 / 2)) ] && echo B || echo A; }

program_start() { # program_start NUMBER; PROGRAM_PREFIX is put in front of the command
    local host peer=$address_b name=pair$(($1 % 2)) what
    host=$(program_host "$1")
    [ "$host" = A ] || peer=$address_a
    what=(client "$name" "$peer")
    [ "$1" -ge 2 ] || what=(serve "$name")
    # shellcheck disable=SC2046,SC2086
    VIPD_RUNTIME_DIR=$WORK/$host $(host_prefix "$host") ${PROGRAM_PREFIX-} \
        "$build/tests/system/churn" "${what[@]}" $((RANDOM * 32768 + RANDOM)) \
        >>"$WORK/program$1.log" 2>&1 </dev/null &
    PROGRAM_PID[$1]=$!
}

program_stop() { # program_stop NUMBER: the program must end by itself and must have found no error
    local status pid=${PROGRAM_PID[$1]}
    kill -TERM "$pid"
    for _ in $(seq 1200); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.05
    done
    kill -KILL "$pid" 2>/dev/null
    wait "$pid"
    status=$?
    unset "PROGRAM_PID[$1]"
    [ $status -eq 0 ] && ! grep -qa WRONG "$WORK/program$1.log" && return
    failed "program $1 ended with status $status:"
    grep -a -v '^round' "$WORK/program$1.log" | uniq -c | tail -n 8
    : >"$WORK/program$1.log"
}

programs_start() {
    local i
    for ((i = 0; i < PROGRAMS; i++)); do
        : >"$WORK/program$i.log"
        program_start $i
    done
}

programs_stop() {
    local i
    for ((i = 0; i < PROGRAMS; i++)); do
        program_stop $i
    done
}

# ---- output of the programs -------------------------------------------------------------------

count_lines() { grep -acE "$2" "$1"; } # count_lines FILE PATTERN

await_line() { # await_line FILE PATTERN
    for _ in $(seq $((LIMIT_S * 20))); do
        grep -qaE "$2" "$1" 2>/dev/null && return 0
        sleep 0.05
    done
    failed "no line /$2/ in $1:"
    tail -n 10 "$1"
    return 1
}

# Wait until every program has completed three more connections (the first may have begun earlier).
goes_on() {
    local i deadline=$((SECONDS + LIMIT_S)) before=()
    for ((i = 0; i < PROGRAMS; i++)); do
        before[i]=$(count_lines "$WORK/program$i.log" '^round')
    done
    for ((i = 0; i < PROGRAMS; i++)); do
        until [ $(($(count_lines "$WORK/program$i.log" '^round') - before[i])) -ge 3 ]; do
            if [ $SECONDS -gt $deadline ] || ! kill -0 "${PROGRAM_PID[$i]}" 2>/dev/null; then
                failed "program $i does not go on:"
                grep -a -v '^round' "$WORK/program$i.log" | uniq -c | tail -n 8
                break
            fi
            sleep 0.03
        done
    done
}

cuts_begin() {
    local i
    for ((i = 0; i < PROGRAMS; i++)); do
        LOG_LINES[i]=$(wc -l <"$WORK/program$i.log")
    done
}

news_of() { tail -n +$((LOG_LINES[$1] + 1)) "$WORK/program$1.log"; }

no_cuts() {
    local i
    for ((i = 0; i < PROGRAMS; i++)); do
        news_of $i | grep -aE '^(cut|gone)' >"$WORK/cuts" && failed "program $i: $(cat "$WORK/cuts")"
    done
}

# Each of these clients must report the end of its connection, or a failed attempt to connect. In
# one of sixteen rounds a client opens its NIC again. If its vipd is killed at that moment, the
# client reports that VipOpenNic has failed.
told() { # told CLIENT...
    local i deadline=$((SECONDS + LIMIT_S))
    for i in "$@"; do
        until news_of $i | grep -qaE '^(cut|gone|refused Vip(ConnectRequest|OpenNic))'; do
            if [ $SECONDS -gt $deadline ]; then
                failed "client $i was not told that its connection is over:"
                news_of $i | tail -n 5
                break
            fi
            sleep 0.05
        done
    done
}

# ---- an idle connection --------------------------------------------------------------------------

pair_hold() {
    programs_stop
    : >"$WORK/holds.log"
    : >"$WORK/held.log"
    start_in B "$WORK/holds.log" "$build/tests/system/vipstate" serve hold rd 4
    holds=$STARTED
    await_line "$WORK/holds.log" '^waiting'
    start_in A "$WORK/held.log" "$build/tests/system/vipstate" watch hold rd "$address_b" 1
    held=$STARTED
    await_line "$WORK/holds.log" '^connected'
    await_line "$WORK/held.log" '^connected'
}

pair_holds() {
    if grep -q '^state' "$WORK/holds.log" "$WORK/held.log"; then
        failed "the connection that was there is gone: $(cat "$WORK/holds.log" "$WORK/held.log")"
    fi
}

pair_leaves() { # the client dies, the server gets the error
    kill -KILL $held
    wait $held 2>/dev/null
    await_line "$WORK/holds.log" '^close 0'
    wait $holds
    programs_start
}

# ---- opening under limits -------------------------------------------------------------------------

opens_refused() { # opens_refused HOST PATTERN: the reason must name the missing resource
    local i
    for i in 1 2 3; do
        in_host "$1" timeout 60 "$build/tests/system/vipstate" block t rd 0 >"$WORK/open.log" 2>&1
        [ $? -eq 1 ] && grep -qE "^failed VipOpenNic code 3: .*($2)" "$WORK/open.log" && continue
        failed "VipOpenNic: $(cat "$WORK/open.log")"
    done
}

opens_or_says_why() { # opens_or_says_why WHAT PREFIX...
    local what=$1 pid status
    shift
    start_in A "$WORK/open.log" "$@" "$build/tests/system/vipstate" block t rd 0
    pid=$STARTED
    for _ in $(seq 1200); do
        grep -q '^blocked' "$WORK/open.log" && break
        kill -0 $pid 2>/dev/null || break
        sleep 0.05
    done
    kill -TERM $pid 2>/dev/null
    wait $pid 2>/dev/null
    status=$?
    grep -q '^blocked' "$WORK/open.log" && return
    # The dynamic loader has its own message if it gets no memory or no descriptor.
    [ $status -eq 127 ] && grep -q 'loading shared libraries' "$WORK/open.log" && return
    [ $status -eq 1 ] && grep -qE '^failed Vip[A-Za-z]+ code 3: .{10,}' "$WORK/open.log" && return
    failed "a program $what ended with status $status: $(cat "$WORK/open.log")"
}

processor_ms() { awk '{print ($14 + $15) * 10}' "/proc/$1/stat"; } # ticks are 10 ms

# ---- gauges ---------------------------------------------------------------------------------------

# Prints all gauges that must be as before. (The view `clients` would contain vipctl itself.)
gauges() { # gauges HOST
    in_host "$1" "$build/tools/vipctl" show stats --json |
        jq -r '.counters[] | select(.kind == "gauge") |
            select(.name | test("^(memory_|cm_bytes|rx_spare_bytes)|_(p50|p90|p99|p999|max)$") | not) | "\(.scope) \(.name) \(.value)"'
}

memory_of() { # memory_of HOST NAME
    in_host "$1" "$build/tools/vipctl" show stats --json |
        jq "[.counters[] | select(.name == \"$2\") | .value] | add"
}

counter() { in_host "$1" "$build/tools/vipctl" show stats | awk -v name="$2" '$2 == name { print $3 }'; } # counter HOST NAME

# Prints vipd's heap in use, mapped and resident memory. The heap does not count the connection
# manager, which keeps ended connections for a time, and a link's free packet buffers.
memory() { # memory HOST
    echo $(($(memory_of "$1" memory_heap) - $(memory_of "$1" cm_bytes) - $(memory_of "$1" rx_spare_bytes))) \
        "$(memory_of "$1" memory_mapped)" "$(memory_of "$1" memory_resident)"
}

# Compares with the recorded memory. Limits: 128 KiB more heap (tables grow with use), 16 MiB more
# mapped, 8 MiB more resident memory. Looks several times, because the look itself uses memory.
memory_back() { # memory_back HOST
    local was now
    [ -z "$sanitized" ] || return 0
    read -r -a was <"$WORK/$1.memory"
    for _ in $(seq 600); do
        read -r -a now <<<"$(memory "$1")"
        [ $((now[0] - was[0])) -le $((128 << 10)) ] && [ $((now[1] - was[1])) -le $((16 << 20)) ] &&
            [ $((now[2] - was[2])) -le $((8 << 20)) ] && return
        sleep 0.1
    done
    failed "memory of vipd $1 (heap, mapped, resident) was ${was[*]} and is ${now[*]}"
}

back_to_baseline() {
    local host
    for host in A B; do
        for _ in $(seq 600); do
            gauges $host >"$WORK/now"
            cmp -s "$WORK/$host.gauges" "$WORK/now" && break
            sleep 0.1
        done
        if ! cmp -s "$WORK/$host.gauges" "$WORK/now"; then
            failed "vipd $host is not what it was:"
            diff "$WORK/$host.gauges" "$WORK/now"
        fi
        memory_back $host
    done
}

fault() { # fault NAME: run this case, and compare the state before and after
    local started=$SECONDS
    current=$1
    programs_start
    goes_on
    "$1"
    programs_stop
    back_to_baseline
    kill -0 "${DAEMON_PID[A]}" "${DAEMON_PID[B]}" || failed "a vipd has died"
    if [ $bad -ne 0 ]; then
        for host in A B; do
            echo "--- log of vipd $host"
            grep -av ' opened ' "$WORK/$host.log" | tail -n 15
        done
        exit 1
    fi
    echo "$1: good, $((SECONDS - started)) s"
}

# Wait until the connection managers keep no ended connection (to a dead peer they CLOSE for 20 s).
everything_forgotten() {
    local host left
    current="the end"
    for host in A B; do
        for _ in $(seq 600); do
            left=$(memory_of $host cm_bytes)
            [ "$left" -eq 0 ] && break
            sleep 0.1
        done
        [ "$left" -eq 0 ] || failed "the connection manager of $host keeps $left bytes"
    done
}
