# Jobs that run while the vipd of both hosts are ended again and again. Source this file with bash,
# after scripts/daemons.sh.
#   restarts_begin BUILD_DIR              two vipd with [reliability] outlive: VIPD_RUNTIME_DIR_A and _B
#   restarted TIMES COMMAND...            run the job: it says "at N" in each round, and ends when the file $STOP
#                                         exists. Each vipd ends TIMES times meanwhile, by SIGKILL, SIGTERM and
#                                         takeover in turn. Fails with the output of the job if the job fails

restarts_begin() {
    local host
    local -A address=([A]=127.0.0.1 [B]=127.0.0.2)
    daemons_begin "$1/vipd"
    port_take || return
    for host in A B; do
        daemon_start $host "${address[$host]}" "$port" "[reliability]" "outlive = 30s" || return
    done
    export VIPD_RUNTIME_DIR_A=$WORK/A VIPD_RUNTIME_DIR_B=$WORK/B VIPD_RUNTIME_DIR=$WORK/A STOP=$WORK/stop
}

# restarts_at: the number of the round in which the job is; -1: it is in no round.
restarts_at() { sed -n 's/^at \([0-9]*\)$/\1/p' "$WORK/job.log" | tail -n 1 | grep . || echo -1; }

# restarts_await ROUND: wait until the job is in this round
restarts_await() {
    for _ in $(seq 6000); do
        [ "$(restarts_at)" -lt "$1" ] || return 0
        kill -0 "$RESTARTS_JOB" 2>/dev/null || return 1
        sleep 0.05
    done
    return 1
}

restarts_run() {
    local times=$1 ways=(SIGKILL SIGTERM takeover) n host way
    restarts_await 3 || { echo "the job does not begin"; return 1; }
    for ((n = 0; n < times; n++)); do
        way=${ways[n % 3]}
        for host in A B; do
            daemon_again $host "$way" || return 1
            restarts_await $(($(restarts_at) + 3)) || { echo "no more rounds after $way of $host"; return 1; }
        done
    done
    touch "$STOP"
    wait "$RESTARTS_JOB"
}

restarted() {
    local times=$1 result
    shift
    rm -f "$STOP" "$STOP".*
    "$@" >"$WORK/job.log" 2>&1 </dev/null &
    RESTARTS_JOB=$!
    track $RESTARTS_JOB
    restarts_run "$times"
    result=$?
    [ $result -eq 0 ] || tail -n 40 "$WORK/job.log" "$WORK"/[AB].log
    return $result
}
