#!/usr/bin/env bash
# VIPD_AUTOSTART=1: a program that finds no vipd starts one, two at once start one, it serves both and ends
# by itself when it is unused; without the variable the error tells of it.
# usage: autostart.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh
VIPD=$build/vipd/vipd
vipctl=$build/tools/vipctl
vipperf=$build/tools/vipperf
bad=0
pid=""
daemons_begin
stop() {
    [ -z "$pid" ] || kill "$pid" 2>/dev/null
    daemons_end
}
trap stop EXIT
trap 'exit 130' INT TERM

wrong() {
    echo "FAILED: $*"
    bad=1
}

# A vipd of this build, found by PATH, which reads a configuration that does not meet other tests' ports.
mkdir "$WORK/bin" "$WORK/run"
printf '[nic:vip0]\nlink = loop\n' >"$WORK/u.conf"
cat >"$WORK/bin/vipd" <<SH
#!/bin/sh
echo started >>$WORK/starts
exec $VIPD --config $WORK/u.conf "\$@" --idle-exit 1s
SH
chmod +x "$WORK/bin/vipd"
export VIPD_RUNTIME_DIR=$WORK/run PATH=$WORK/bin:$PATH

"$vipperf" lat 00:00:00:00:00:01 --size 64 --duration 1 >"$WORK/out" 2>&1 && wrong "a NIC without a vipd"
grep -q "VIPD_AUTOSTART=1" "$WORK/out" || wrong "the error does not tell of VIPD_AUTOSTART: $(cat "$WORK/out")"
[ ! -e "$WORK/starts" ] || wrong "started without being wished"

export VIPD_AUTOSTART=1
"$vipperf" serve >"$WORK/serve.log" 2>&1 </dev/null &
server=$!
track $server
"$vipperf" lat localhost --size 64 --duration 1 >"$WORK/out" 2>&1 </dev/null ||
    wrong "vipperf with VIPD_AUTOSTART=1: $(cat "$WORK/out" "$WORK/serve.log")"
pid=$(cat "$WORK/run/vipd.lock")
"$vipctl" show clients >"$WORK/out" 2>&1 || wrong "vipctl: $(cat "$WORK/out")"
grep -q "vipperf" "$WORK/out" || wrong "the server is not on the vipd that was started: $(cat "$WORK/out")"
[ -s "$WORK/run/vipd.log" ] || wrong "no log beside the socket"
kill $server
wait $server 2>/dev/null
for _ in $(seq 300); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
done
kill -0 "$pid" 2>/dev/null && wrong "vipd stays although nobody uses it"
[ ! -e "$WORK/run/vipd.sock" ] || wrong "it left its socket behind"
[ $bad -eq 0 ] && pid=""

[ $bad -eq 0 ] && echo "autostart: wished only, one for two programs, gone when unused"
exit $bad
