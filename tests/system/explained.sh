#!/usr/bin/env bash
# Five faults, and what the tools say about them: a rejected registration, a refused connection, a
# broken VI, a missing capability, a full quota. Each message must name the cause or the limit, the
# request that failed, and the remedy. doc/operations.md shows these commands with their output
# (with `show` this script prints them).
# usage: explained.sh BUILD_DIR [show]
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
show=${2-}
. scripts/daemons.sh
VIPD=$build/vipd/vipd
PATH=$build/tools:$build/vipd:$PATH
bad=0
daemons_begin
trap daemons_end EXIT
trap 'exit 130' INT TERM

wrong() {
    echo "FAILED: $*"
    bad=1
}

# says TEXT COMMAND...: the command must print TEXT; its exit code does not matter
says() {
    local text=$1
    shift
    "$@" >"$WORK/out" 2>&1 </dev/null
    if [ -n "$show" ]; then
        echo "    \$ $*"
        sed 's/^/    /' "$WORK/out"
    fi
    grep -qF -- "$text" "$WORK/out" || wrong "$* does not say \"$text\": $(cat "$WORK/out")"
}

until_true() { # wait until it is true; fails after 60 s or more
    for _ in $(seq 600); do
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.1
    done
    wrong "in vain: $*"
}

port_take || exit 1
daemon_start A 127.0.0.1 $port "[limits]" "register_bytes_per_uid = 12M" "vis_per_uid = 2" "[names]" "node2 = 127.0.0.2:$port" &&
    daemon_start B 127.0.0.2 $port || exit 1
export VIPD_RUNTIME_DIR=$WORK/A
VIPD_RUNTIME_DIR=$WORK/B vipperf serve >"$WORK/serve.log" 2>&1 </dev/null &
server=$!
track $server
until_true sh -c "VIPD_RUNTIME_DIR=$WORK/B vipctl -rn show listen | grep -q ."

[ -z "$show" ] || echo "A rejected registration"
says "register_bytes_per_uid" vipperf bw 127.0.0.2:$port --size 1M --window 16
says "[limits] register_bytes_per_uid" vipctl -o count,key,program,text show errors 'key~register_mem'
says "vipctl reload" vipctl explain error ERROR_RESOURCE
says "once, at " vipctl explain error ERROR_RESOURCE

[ -z "$show" ] || echo "A full quota"
says "vis_per_uid" vipperf lat 127.0.0.2:$port --vis 8
says "vis_per_uid" vipctl -o count,key,program,text show errors 'key~create_vi'
says "vis_per_uid" vipctl show limits limit=vis_per_uid
[ "$(vipctl -rn -o value show stats name=refused_quota)" -ge 2 ] || wrong "refused_quota does not count"

[ -z "$show" ] || echo "A broken VI"
vipperf bw 127.0.0.2:$port --size 4096 --duration 600 >"$WORK/client.log" 2>&1 </dev/null &
client=$!
track $client
until_true sh -c "vipctl -rn -o vi show vi state=connected 'tx_messages>100' | grep -q ."
kill -STOP $client # so that it does not destroy the VI before the test looks at it
kill -KILL $server
until_true sh -c "vipctl -rn -o vi show vi state=error | grep -q ."
vi=$(vipctl -rn -o client,vi show vi state=error | head -n 1 | tr '\t' :)
says "application at the other end is gone" vipctl -o vi,state,peer,program,error show vi state=error
says "its exit code" vipctl explain vi "$vi"
kill -CONT $client
kill $client
wait $client 2>/dev/null

[ -z "$show" ] || echo "A refused connection"
says "start it there" vipperf lat 127.0.0.2:$port --size 64
says "VIP_NO_MATCH" vipctl -o count,kind,key,program,text show errors key=VIP_NO_MATCH
says "start the server first" vipctl explain error NO_MATCH

if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
    [ -z "$show" ] || echo "A missing capability"
    DAEMON_NIC=$(printf 'link = ether\ninterface = eth9')
    DAEMON_AS="setpriv --bounding-set=-net_raw --inh-caps=-net_raw"
    daemon_start C - - || exit 1
    export VIPD_RUNTIME_DIR=$WORK/C
    says "CAP_NET_RAW is missing" vipctl -o nic,state,link show nic
    says "raw-ethernet.conf" vipctl explain nic vip0
    says "FAIL" vipctl check
else
    echo "(without root no capability can be taken away: that part was left out)"
fi

[ $bad -eq 0 ] && echo "explained: five failures, each with its cause and its remedy"
exit $bad
