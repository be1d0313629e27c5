#!/usr/bin/env bash
# VIPD_AUTOSTART=1: a program that finds no vipd starts a vipd. Two programs that start at the same
# time start only one vipd, which serves both and ends when no program uses it. Without the variable
# the error message names it. A line in the user's configuration has the same effect.
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

# Wait until the started vipd has ended (--idle-exit 1s).
gone() {
    for _ in $(seq 600); do
        kill -0 "$pid" 2>/dev/null || return
        sleep 0.1
    done
    wrong "vipd stays although nobody uses it"
}

# PATH leads to a vipd of this build. Its configuration has no port, so no other test is disturbed.
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

# A line in the user's own configuration has the same effect, but VIPD_AUTOSTART=0 wins.
mkdir -p "$WORK/home/.config/vipd"
printf '# mine\n[daemon]\nautostart = yes  # wished\n' >"$WORK/home/.config/vipd/vipd.conf"
"$VIPD" --check-config --config "$WORK/home/.config/vipd/vipd.conf" >"$WORK/out" 2>&1 || wrong "autostart = yes: $(cat "$WORK/out")"
unset XDG_CONFIG_HOME
HOME=$WORK/home VIPD_AUTOSTART=0 "$vipperf" cost --iters 1 >"$WORK/out" 2>&1 && wrong "started in spite of VIPD_AUTOSTART=0"
printf '[engine]\nautostart = yes\n[daemon]\n#autostart = yes\n' >"$WORK/home/.config/vipd/other.conf"
mv "$WORK/home/.config/vipd/vipd.conf" "$WORK/yes.conf"
mv "$WORK/home/.config/vipd/other.conf" "$WORK/home/.config/vipd/vipd.conf"
HOME=$WORK/home "$vipperf" cost --iters 1 >"$WORK/out" 2>&1 && wrong "started by a line that does not say so"
[ ! -e "$WORK/starts" ] || wrong "started without being wished"
mv "$WORK/yes.conf" "$WORK/home/.config/vipd/vipd.conf"
HOME=$WORK/home "$vipperf" cost --iters 1 >"$WORK/out" 2>&1 || wrong "autostart = yes in vipd.conf: $(cat "$WORK/out")"
pid=$(cat "$WORK/run/vipd.lock")
gone # vipd ends by itself, because no program uses it

export VIPD_AUTOSTART=1
# The program and the started vipd have a limit of file sizes (ulimit -f). The error must name it.
(ulimit -f 1048576 && exec "$vipperf" cost --iters 1) >"$WORK/out" 2>&1 && wrong "a file of any size under ulimit -f"
grep -q "RLIMIT_FSIZE" "$WORK/out" || wrong "ulimit -f: $(cat "$WORK/out")"
pid=$(cat "$WORK/run/vipd.lock")
gone

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
gone
[ ! -e "$WORK/run/vipd.sock" ] || wrong "it left its socket behind"
[ $bad -eq 0 ] && pid=""

[ $bad -eq 0 ] && echo "autostart: wished only, one for two programs, gone when unused"
exit $bad
