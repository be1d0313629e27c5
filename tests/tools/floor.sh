#!/usr/bin/env bash
# vipperf floor: each kind and each measure with its JSON, polling and blocking, network namespaces
# (as root), wrong usage. After a signal no process may remain.
# usage: floor.sh BUILD_DIR
set -u
build=$(realpath "${1:?build directory}")
vipperf=$build/tools/vipperf
. "$(dirname "$0")/../lib/namespaces.sh"
work=$(mktemp -d)
printf %s "$work/mark" >"$work/pattern"
bad=0

cleanup() {
    namespaces_end
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

wrong() {
    echo "FAILED: $*"
    bad=1
}

# Prints the number of processes with our mark in their command line. pgrep may be missing, so read
# /proc. The pattern is in a file, because grep would find its own command line otherwise.
marked() {
    grep -lzxF -f "$work/pattern" /proc/[0-9]*/cmdline 2>/dev/null | wc -l
}

# measured FILTER ARGUMENTS...: the run must succeed, and its JSON must pass the filter
measured() {
    local filter=$1
    shift
    rm -f "$work/json"
    if ! timeout 600 "$vipperf" floor "$@" --json "$work/json" >"$work/out" 2>&1; then
        wrong "floor $*: $(cat "$work/out")"
        return
    fi
    command -v jq >/dev/null || return
    [ "$(jq "$filter" "$work/json" 2>&1)" = true ] ||
        wrong "floor $*: $filter does not hold: $(cat "$work/json")"
}

# refused CODE TEXT ARGUMENTS...: the run must end with CODE and print TEXT
refused() {
    local code=$1 text=$2 got
    shift 2
    timeout 600 "$vipperf" floor "$@" >/dev/null 2>"$work/err"
    got=$?
    [ $got -eq "$code" ] || wrong "floor $* ended with $got instead of $code"
    tail -n 1 "$work/err" | grep -qF -- "$text" ||
        wrong "floor $* does not say \"$text\" but: $(tail -n 1 "$work/err")"
}

lat='.results[0] | .messages == 300 and .half_rtt_ns.p50 > 0 and .half_rtt_ns.p50 <= .half_rtt_ns.p99
    and .half_rtt_ns.p999 <= .half_rtt_ns.max and .elapsed_s > 0 and .cpu_s > 0 and .verified == null'
stream='.results[0] | .messages == 3000 and .bytes_per_s > 0 and .messages_per_s > 0
    and .half_rtt_ns == null'

for kind in udp tcp relay; do
    for wait in block poll; do
        measured "$lat" $kind lat --iters 300 --wait $wait --address 127.0.0.1,127.0.0.2
    done
    measured '[.results[].size] == [1, 2, 4]' $kind lat --iters 10 --sizes 1:4
    measured "$lat" $kind lat --iters 300 --size 100K
    measured '.results[0] | .bytes_per_s > 0 and .elapsed_s > 0.19' $kind bw --duration 200ms
    measured '.results[0].messages_per_s > 0' $kind rate --duration 200ms
done
measured "$lat" memory lat --iters 300
# --every: 20 messages take 19 pauses at least.
measured '.parameters.every_ms == 5 and .results[0].messages == 20 and .results[0].elapsed_s >= 0.095' \
    udp lat --every 5ms --iters 20
measured "$stream" memory bw --iters 3000 --size 10000
measured "$stream" memory rate --iters 3000
measured '.results[0] | .bytes_per_s > 0 and .elapsed_s > 0.19' gso bw --duration 200ms
measured '.results[0].messages_per_s > 0' gso rate --duration 200ms --size 8
measured '.results[0].messages > 0' gso bw --iters 10 --size 1000
refused 2 "latency of one" gso lat
# --both-ways: the JSON has the messages of each direction.
measured '.parameters.both_ways == 1 and (.results[0] | .messages_out > 0 and .messages_back > 0 and
    .messages == .messages_out + .messages_back and .elapsed_s > 0.19)' \
    tcp bw --both-ways --duration 200ms --size 8K
measured '.results[0].bytes_per_s > 0' tcp bw --both-ways --duration 200ms --wait poll
refused 2 "tcp bw and --duration only" udp bw --both-ways
refused 2 "tcp bw and --duration only" tcp bw --both-ways --iters 100
# Kinds with flow control lose nothing; plain UDP may lose packets.
measured "$stream" tcp bw --iters 3000 --size 10000
measured "$stream" relay bw --iters 3000 --size 10000
measured "$stream" relay rate --iters 3000 --wait yield
measured '.results[0].messages > 0' udp rate --iters 3000
[ "$("$vipperf" floor udp lat --iters 10 --json - 2>/dev/null | head -c 1)" = "{" ] ||
    wrong "--json - does not write only JSON to standard output"

refused 2 "see vipperf floor --help"
refused 2 "see vipperf floor --help" udp
refused 2 "see vipperf floor --help" udp dance
refused 2 "see vipperf floor --help" udp lat --dance
refused 2 "--size" udp lat --size 17M
refused 2 "--size" tcp lat --size 0
refused 2 "--sizes" udp lat --sizes 8:4
refused 2 "--iters" udp lat --iters 0
refused 2 "--duration" udp lat --duration 1e9
refused 2 "--every" udp lat --every 2s
refused 2 "lat only" udp rate --every 1ms
refused 2 "--wait" udp lat --wait never
refused 2 "--address" udp lat --address 127.0.0.1
refused 2 "--address" udp lat --netns a,b
refused 2 "--netns" udp lat --netns ../a,b --address 127.0.0.1,127.0.0.2
refused 1 "Cannot assign" udp lat --address 198.51.100.7,127.0.0.1
refused 1 "/nonexistent/x" udp lat --iters 10 --json /nonexistent/x

# After a signal the children must end, too. Their command lines have the mark.
for signal in INT TERM KILL; do
    "$vipperf" floor relay bw --duration 30 --json "$work/mark" >/dev/null 2>&1 &
    pid=$!
    for _ in $(seq 1200); do
        [ "$(marked)" -ge 5 ] && break
        sleep 0.05
    done
    kill -$signal $pid
    wait $pid 2>/dev/null
    [ $? -ne 0 ] || wrong "SIG$signal: floor ended with 0"
    for _ in $(seq 1200); do
        [ "$(marked)" -eq 0 ] && break
        sleep 0.05
    done
    [ "$(marked)" -eq 0 ] || wrong "SIG$signal: processes are left"
done

namespaces_begin
case $? in
0)
    for kind in udp tcp relay; do
        measured "$lat" $kind lat --iters 300 --netns "$NS_A,$NS_B" --address 10.77.0.1,10.77.0.2
    done
    refused 1 "/run/netns/vip-none" udp lat --netns "$NS_A,vip-none" --address 10.77.0.1,10.77.0.2
    ;;
77) ;; # namespaces_begin has printed the reason
*) wrong "the network namespaces could not be made" ;;
esac

[ $bad = 0 ] && echo "floor: all passed"
exit $bad
