# shellcheck shell=bash disable=SC2034,SC2154
# Checked traffic (tests/lib/outlive.c) between hosts A and B, or on one host, while a vipd ends and
# is started anew. Sourced by bash, after scripts/daemons.sh and daemons_begin; the caller sets
#   outlive         the program; outlive_server: another one for the server
#   server_host     where the server runs, if not on B; direct: VIPL_DIRECT of both programs, if not 1
#   address         the hosts' addresses
#   VIPD            the program of the next vipd
#
#   outlive_begin SERVER'S WORDS CLIENT'S WORDS    start both programs, and wait for the first messages
#   outlive_again HOST WAY [PAUSE]                 end the vipd of HOST and start the next one (daemon_again), and wait
#                                                  for more messages; $GAP is the longest time (ms) without a message
#   outlive_finish                                 end both programs; no message may be lost
# Each fails with a reason in $WRONG.

GAP=""
WRONG=""

outlive_wrong() {
    WRONG=$*
    return 1
}

# outlive_come: the number in the client's last report.
outlive_come() { sed -n 's/^at \([0-9]*\) .*/\1/p' "$WORK/client.log" | tail -n 1; }

# outlive_await COUNT: wait until the client has got COUNT messages back.
outlive_await() {
    local at
    for _ in $(seq 1200); do
        at=$(outlive_come)
        [ "${at:-0}" -ge "$1" ] && return 0
        kill -0 "$OUTLIVE_CLIENT" 2>/dev/null || return 1
        sleep 0.05
    done
    return 1
}

outlive_begin() {
    rm -f "$WORK/stop"
    # shellcheck disable=SC2086
    start_in "${server_host:-B}" "$WORK/server.log" env VIPL_DIRECT="${direct:-1}" "${outlive_server:-$outlive}" server $1
    OUTLIVE_SERVER=$STARTED
    for _ in $(seq 600); do
        grep -q ready "$WORK/server.log" && break
        sleep 0.05
    done
    # shellcheck disable=SC2086
    start_in A "$WORK/client.log" env VIPL_DIRECT="${direct:-1}" "$outlive" client "${address[${server_host:-B}]}" \
        "$WORK/stop" $2
    OUTLIVE_CLIENT=$STARTED
    outlive_await 100 || outlive_wrong "no messages"
}

# outlive_gap LINES: longest time (ms) without a message, in the reports after LINES lines of the
# log.
outlive_gap() { tail -n +$(($1 + 1)) "$WORK/client.log" | sed -n 's/^at .* gap //p' | sort -n | tail -n 1; }

outlive_again() {
    local host=$1 way=$2 lines at
    lines=$(wc -l <"$WORK/client.log")
    daemon_again "$host" "$way" "${3:-0}" || outlive_wrong "no next vipd $host" || return 1
    at=$(outlive_come)
    outlive_await $((at + 500)) || outlive_wrong "no messages after $way of vipd $host" || return 1
    GAP=$(outlive_gap "$lines")
}

outlive_finish() {
    touch "$WORK/stop"
    wait "$OUTLIVE_CLIENT" || outlive_wrong "the client: status $?" || return 1
    wait "$OUTLIVE_SERVER" || outlive_wrong "the server: status $?" || return 1
    ! grep -h FAILED "$WORK/client.log" "$WORK/server.log" || outlive_wrong "an error"
}
