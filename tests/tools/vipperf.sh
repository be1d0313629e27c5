#!/usr/bin/env bash
# vipperf between two vipd on loopback addresses: every operation, level and kind of waiting with
# verified data; wrong usage; a client without a server or a vipd; the end of the other program.
# usage: vipperf.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh
vipperf=$build/tools/vipperf
port_take || exit 1
bad=0
VIPD=$build/vipd/vipd
daemons_begin
trap daemons_end EXIT
trap 'exit 130' INT TERM

wrong() {
    echo "FAILED: $*"
    bad=1
}

# expect CODE TEXT ARGUMENTS...: the exit code, and TEXT in the last line of stderr (code > 0) or in stdout
expect() {
    local code=$1 text=$2 got
    shift 2
    timeout 600 "$vipperf" "$@" >"$WORK/out" 2>"$WORK/err" </dev/null
    got=$?
    if [ $got -ne "$code" ]; then
        wrong "vipperf $* ended with $got instead of $code: $(cat "$WORK/out" "$WORK/err")"
    elif [ "$code" -ne 0 ]; then
        tail -n 1 "$WORK/err" | grep -qF -- "$text" ||
            wrong "vipperf $* does not say \"$text\" but: $(tail -n 1 "$WORK/err")"
    else
        grep -qF -- "$text" "$WORK/out" ||
            wrong "vipperf $* does not print \"$text\" but: $(cat "$WORK/out")"
    fi
}

# measured FILTER ARGUMENTS...: vipperf must succeed, and its JSON must pass the filter
measured() {
    local filter=$1
    shift
    rm -f "$WORK/result.json"
    expect 0 "" "$@" --json "$WORK/result.json"
    command -v jq >/dev/null || return 0
    [ "$(jq "$filter" "$WORK/result.json" 2>&1)" = true ] ||
        wrong "vipperf $*: $filter does not hold: $(cat "$WORK/result.json" 2>&1)"
}

# regions COUNT BYTES OPTIONS...: vipd must have COUNT regions of BYTES while 64 + 64 buffers are in use
regions() {
    local count=$1 bytes=$2 seen=""
    shift 2
    "$vipperf" lat 127.0.0.2 --size 8000 --buffers 64 "$@" --duration 10s >"$WORK/out" 2>&1 </dev/null &
    client=$!
    track $client
    for _ in $(seq 600); do
        seen=$("$build/tools/vipctl" show mem --json)
        [ "$(grep -c "\"size_bytes\": $bytes," <<<"$seen")" -eq "$count" ] && break
        sleep 0.1
    done
    [ "$(grep -c "\"size_bytes\": $bytes," <<<"$seen")" -eq "$count" ] ||
        wrong "--buffers 64 $*: not $count regions of $bytes bytes but: $seen"
    kill $client
    wait $client 2>/dev/null
}

expect 0 "vipperf serve" help
expect 0 "vipperf " --version
expect 2 "see vipperf help" dance
expect 2 "HOST" lat
expect 2 "HOST" lat 127.0.0.2 127.0.0.3
expect 2 "--size" lat 127.0.0.2 --size many
expect 2 "--size" lat 127.0.0.2 --size -1
expect 2 "--sizes" lat 127.0.0.2 --sizes 8:4
expect 2 "--op" lat 127.0.0.2 --op dance
expect 2 "--wait" lat 127.0.0.2 --wait never
expect 2 "--reliability" bw 127.0.0.2 --reliability maybe
expect 2 "polled" lat 127.0.0.2 --op write --wait block
expect 2 "--vis" lat 127.0.0.2 --vis 0
expect 2 "reliable" lat 127.0.0.2 --op read --reliability ud
expect 2 "reliable" bw 127.0.0.2 --op write --reliability ud --verify
expect 2 "lat only" bw 127.0.0.2 --every 1ms
expect 2 "from 1ms to 1s" lat 127.0.0.2 --every 2s
expect 2 "bw only" lat 127.0.0.2 --both-ways
expect 2 "no second direction" bw 127.0.0.2 --both-ways --op read
expect 2 "1 or more" lat 127.0.0.2 --segments 0
expect 2 "has at most 8" lat 127.0.0.2 --size 8 --segments 9
expect 2 "has at most 8" bw 127.0.0.2 --sizes 8:1K --segments 16
expect 2 "from 1 to 4096" lat 127.0.0.2 --buffers 4097
expect 2 "from 1 to 4096" lat 127.0.0.2 --buffers 0
expect 2 "neither one nor each" lat 127.0.0.2 --buffers 4 --register both
expect 2 "needs --buffers" lat 127.0.0.2 --register each
expect 2 "more than 128" lat 127.0.0.2 --buffers 129 --register each
expect 2 "less than --window" bw 127.0.0.2 --buffers 4 --window 5 --verify
expect 2 "--verify" bw 127.0.0.2 --buffers 4 --reliability ud --verify
expect 2 "--verify" bw 127.0.0.2 --buffers 4 --both-ways --verify
expect 2 "serve takes no" serve 127.0.0.2
expect 2 "cost takes no" cost 127.0.0.2
expect 2 "--iters" cost --iters 0

export VIPD_RUNTIME_DIR=$WORK/nobody
expect 1 "$WORK/nobody/vipd.sock" lat 127.0.0.2

daemon_start A 127.0.0.1 $port || exit 1
daemon_start B 127.0.0.2 $port || exit 1
export VIPD_RUNTIME_DIR=$WORK/A
expect 1 "no vipperf serve on 127.0.0.2" lat 127.0.0.2
expect 1 "no-such-host.invalid" lat no-such-host.invalid
expect 1 "nosuchnic" lat 127.0.0.2 --nic nosuchnic

serve() {
    VIPD_RUNTIME_DIR=$WORK/B "$vipperf" serve "$@" >"$WORK/serve.log" 2>&1 </dev/null &
    server=$!
    track $server
}
serve
verified='[.results[].verified] | length > 0 and all(. == true)'
for op in send write write-imm; do
    for wait in adaptive poll block; do
        [ $op-$wait = write-block ] ||
            measured "$verified" lat 127.0.0.2 --op $op --wait $wait --iters 60 --verify --sizes 1:4096
        measured "$verified" bw 127.0.0.2 --op $op --wait $wait --bytes 8M --size 100000 --verify
    done
    measured "$verified" bw 127.0.0.2 --op $op --cq --bytes 4M --size 65536 --verify
    measured "$verified" lat 127.0.0.2 --op $op --cq --iters 100 --size 512 --verify
    measured "$verified" bw 127.0.0.2 --op $op --random-sizes --size 300000 --iters 200 --verify
    measured ".results[0].messages == 5000" rate 127.0.0.2 --op $op --iters 5000
done
for wait in adaptive poll block; do
    measured "$verified" lat 127.0.0.2 --op read --wait $wait --iters 60 --verify --sizes 1:4096
    measured "$verified" bw 127.0.0.2 --op read --wait $wait --bytes 8M --size 100000 --verify
done
measured "$verified" bw 127.0.0.2 --op read --cq --bytes 4M --size 65536 --verify
measured ".results[0].messages == 5000" rate 127.0.0.2 --op read --iters 5000
both='(.results | length > 0 and all(.messages_out > 0 and .messages_back > 0 and .messages == .messages_out + .messages_back))'
for wait in adaptive poll block; do
    for op in send write; do
        measured "($verified) and $both" bw 127.0.0.2 --both-ways --op $op --wait $wait --bytes 4M --sizes 25000:100000 --verify
    done
done
measured "($verified) and $both" bw 127.0.0.2 --both-ways --op write-imm --cq --bytes 4M --size 65536 --verify
measured "($verified) and $both" bw 127.0.0.2 --both-ways --cq --wait block --random-sizes --size 100000 --iters 200 --verify
for level in ud rr; do
    measured "($verified) and $both" bw 127.0.0.2 --both-ways --reliability $level --iters 3000 --size 1000 --verify
done
measured "($verified) and $both" bw 127.0.0.2 --both-ways --size 0 --iters 1000 --window 1 --verify
# The client must send --iters messages. The rates must count both directions, over the same time.
measured ".results[0] | .messages_out == 5000 and .messages_back > 100 and
    (.bytes_per_s * .elapsed_s / .size / .messages - 1 | fabs) < 0.01" bw 127.0.0.2 --both-ways --iters 5000 --size 4096
expect 1 "window" bw 127.0.0.2 --both-ways --window 100000 --iters 1
for op in send write write-imm read; do
    measured "($verified) and .parameters.segments == 7" lat 127.0.0.2 --op $op --segments 7 --iters 100 --size 16384 --verify
    measured "$verified" bw 127.0.0.2 --op $op --segments 64 --iters 100 --size 65537 --verify
    measured ".results[0].messages == 3000" rate 127.0.0.2 --op $op --segments 8 --size 8 --iters 3000
    for register in one each; do
        for buffers in 1 64; do
            measured "($verified) and .parameters.buffers == $buffers and .parameters.register == \"$register\"" \
                lat 127.0.0.2 --op $op --buffers $buffers --register $register --iters 150 --size 5000 --verify
        done
        measured "$verified" bw 127.0.0.2 --op $op --buffers 5 --register $register --iters 300 --size 5000 --verify
        measured ".results[0].messages == 300" bw 127.0.0.2 --op $op --buffers 1 --register $register --iters 300 --size 5000
    done
done
regions 128 8192 --register each
regions 1 $((4096 + 128 * 8192)) --register one
# vipperf knows by the last byte that a write has arrived, so this byte must change for each write.
measured ".results[0].half_rtt_ns.p50 > 1000" lat 127.0.0.2 --op write --buffers 255 --iters 600 --size 8
measured "$verified" lat 127.0.0.2 --segments 5 --random-sizes --size 5000 --iters 200 --verify
measured "$verified" lat 127.0.0.2 --segments 252 --sizes 252:1008 --iters 100 --verify
measured "$verified" lat 127.0.0.2 --segments 16 --size 0 --iters 100 --verify
measured "$verified" bw 127.0.0.2 --segments 16 --buffers 128 --register each --iters 300 --size 5000 --verify
measured "($verified) and $both" bw 127.0.0.2 --segments 16 --both-ways --iters 300 --size 5000 --verify
expect 1 "has room for 252" lat 127.0.0.2 --segments 253 --size 1K --iters 1
expect 1 "has room for 251" lat 127.0.0.2 --op write --segments 252 --size 1K --iters 1
measured "($verified) and .parameters.vis == 60 and .parameters.connect_ns > 0" lat 127.0.0.2 --vis 60 --iters 120 --verify
measured "$verified" bw 127.0.0.2 --vis 3 --sizes 4096:16384 --bytes 1M --verify
measured "$verified" lat 127.0.0.2 --size 0 --iters 200 --verify
measured "$verified" bw 127.0.0.2 --size 0 --iters 1000 --window 1 --verify
measured "$verified" bw 127.0.0.2 --size 1000 --iters 3000 --window 7 --verify --cq --wait block
measured "$verified" lat 127.0.0.2 --reliability ud --iters 300 --size 1000 --verify
measured "$verified" bw 127.0.0.2 --reliability ud --iters 1000 --size 1000 --verify
measured '.results[0] | .half_rtt_ns.p50 > 0 and .half_rtt_ns.max >= .half_rtt_ns.p999 and
    .cpu_s >= 0 and .verified == null' lat 127.0.0.2 --iters 500
measured '.parameters.wait == "block" and .parameters.op == "write" and .tool == "vipperf" and
    .results[0].bytes_per_s > 0 and .results[0].half_rtt_ns == null' \
    bw 127.0.0.2 --op write --wait block --duration 300ms
# --every: 20 messages take 19 pauses at least.
for op in send read; do
    measured '.parameters.every_ms == 5 and .results[0].messages == 20 and .results[0].elapsed_s >= 0.095' \
        lat 127.0.0.2 --op $op --every 5ms --iters 20
done
# --duration counts from the end of the warm-up, even if the warm-up takes longer.
measured '.results[0].messages > 0' lat 127.0.0.2 --size 65536 --duration 1ms
if command -v jq >/dev/null; then # standard output must be the document and nothing else
    "$vipperf" lat 127.0.0.2 --iters 100 --json - 2>/dev/null </dev/null | jq -e .results >/dev/null ||
        wrong "--json - is not one document"
fi
measured '[.results[].ns.p50 > 0] | length == 24 and all' cost --iters 20
expect 1 "MaxTransferSize" lat 127.0.0.2 --size 1G --iters 1
expect 1 "VIs" lat 127.0.0.2 --vis 65000 --iters 1
expect 1 "window" bw 127.0.0.2 --window 100000 --iters 1

# Two clients at once.
"$vipperf" lat 127.0.0.2 --iters 2000 --verify >"$WORK/one" 2>&1 </dev/null &
one=$!
track $one
measured "$verified" bw 127.0.0.2 --bytes 16M --size 65536 --verify
wait $one || wrong "a second client at the same time: $(cat "$WORK/one")"

# The server dies during the run: the client must fail soon, with a reason.
"$vipperf" bw 127.0.0.2 --duration 60 >"$WORK/out" 2>"$WORK/err" </dev/null &
client=$!
track $client
sleep 1
kill -KILL $server
wait $server 2>/dev/null
wait $client && wrong "a client whose server died ended well"
tail -n 1 "$WORK/err" | grep -q "FAILED: .*connection" || wrong "a dead server: $(cat "$WORK/err")"

# With --once the server must end by itself.
serve --once
measured "$verified" lat 127.0.0.2 --iters 100 --verify
wait $server || wrong "serve --once: $(cat "$WORK/serve.log")"

[ $bad -eq 0 ] && echo "vipperf: every operation, level and way of waiting"
exit $bad
