#!/usr/bin/env bash
# The units: systemd must accept them, with an exposure of at most 2.0 (systemd-analyze security),
# and the files for systemd-sysusers and systemd-tmpfiles must make users and folders. vipd must
# take the service manager's socket, report that it is ready and its status, feed the watchdog in
# its turns, and run without capabilities with udp.
# usage: systemd.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
if ! command -v systemd-analyze >/dev/null || ! command -v systemd-socket-activate >/dev/null; then
    echo "skipped: systemd-analyze and systemd-socket-activate (package systemd) are not installed"
    exit 77
fi
. scripts/daemons.sh
. tests/lib/capabilities.sh
VIPD=$build/vipd/vipd
bad=0
daemons_begin
trap daemons_end EXIT
trap 'exit 130' INT TERM

wrong() {
    echo "FAILED: $*"
    bad=1
}

# ---- the texts ------------------------------------------------------------------------------------

units=$WORK/units
mkdir -p "$units/user"
sed "s#@VIPD_SBIN@/vipd#$VIPD#; s#@VIPD_BIN@/vipctl#$build/tools/vipctl#" systemd/vipd.service.in >"$units/vipd.service"
sed "s#@VIPD_SBIN@/vipd#$VIPD#; s#@VIPD_BIN@/vipctl#$build/tools/vipctl#" systemd/vipd@.service.in >"$units/vipd@.service"
sed "s#@VIPD_SBIN@/vipd#$VIPD#; s#@VIPD_BIN@/vipctl#$build/tools/vipctl#" systemd/user/vipd.service.in >"$units/user/vipd.service"
cp systemd/vipd.socket "$units/"
# The colon at the end makes systemd also read this machine's units, to which our units refer.
# --man=no: our manual pages may not be installed here.
verify() {
    SYSTEMD_UNIT_PATH=$units: systemd-analyze verify --man=no "$@" >"$WORK/verify" 2>&1 || wrong "verify $*: $(cat "$WORK/verify")"
    grep -v '^$' "$WORK/verify" | grep "$units" && wrong "systemd complains about the lines above"
}
verify "$units/vipd.service" "$units/vipd.socket"
verify "$units/vipd@one.service"
sed "s#@VIPD_BIN@/vipd-exporter#$build/tools/vipd-exporter#" systemd/vipd-exporter.service.in >"$units/vipd-exporter.service"
verify "$units/vipd-exporter.service"
SYSTEMD_UNIT_PATH=$units/user: systemd-analyze verify --man=no --user "$units/user/vipd.service" >"$WORK/verify" 2>&1
grep "$units" "$WORK/verify" && wrong "systemd complains about the user's unit"
for unit in vipd.service vipd@one.service vipd-exporter.service; do
    cp "$units/vipd@.service" "$units/vipd@one.service"
    systemd-analyze security --offline=true --threshold=20 "$units/$unit" >"$WORK/security" 2>&1 ||
        wrong "$unit is exposed more than 2.0: $(tail -n 2 "$WORK/security")"
    tail -n 1 "$WORK/security"
done
for drop_in in raw-ethernet xdp realtime; do
    mkdir -p "$units/$drop_in/vipd.service.d"
    cp "$units/vipd.service" "$units/vipd.socket" "$units/$drop_in/"
    cp systemd/drop-ins/$drop_in.conf "$units/$drop_in/vipd.service.d/"
    SYSTEMD_UNIT_PATH=$units/$drop_in: systemd-analyze verify --man=no "$units/$drop_in/vipd.service" >"$WORK/verify" 2>&1 ||
        wrong "drop-in $drop_in: $(cat "$WORK/verify")"
    grep "$units" "$WORK/verify" && wrong "systemd complains about the drop-in $drop_in"
done
if [ "$(id -u)" -eq 0 ]; then
    mkdir -p "$WORK/root/etc"
    systemd-sysusers --root="$WORK/root" "$PWD/systemd/sysusers.conf" >/dev/null 2>"$WORK/err" ||
        wrong "sysusers: $(cat "$WORK/err")"
    grep -q '^via-admin:' "$WORK/root/etc/group" || wrong "sysusers makes no group via-admin"
    systemd-tmpfiles --root="$WORK/root" --create "$PWD/systemd/tmpfiles.conf" 2>"$WORK/err" ||
        wrong "tmpfiles: $(cat "$WORK/err")"
    [ -d "$WORK/root/run/vipd" ] || wrong "tmpfiles makes no /run/vipd"
fi

# ---- the protocol ---------------------------------------------------------------------------------

cat >"$WORK/manager.py" <<'PY'
"""Collects what a service says to its manager, one message per line, until killed."""
import socket
import sys

sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
sock.bind(sys.argv[1])
print("bound", flush=True)
while True:
    print(sock.recv(4096).decode().replace("\n", " "), flush=True)
PY
python3 "$WORK/manager.py" "$WORK/notify" >"$WORK/told" &
track $!
wait_for() { # wait_for TEXT FILE: wait until it is true; fails after 60 s or more
    for _ in $(seq 600); do
        grep -q -- "$1" "$2" && return 0
        sleep 0.1
    done
    wrong "no \"$1\" in: $(cat "$2")"
}
wait_for bound "$WORK/told"
printf '[nic:vip0]\nlink = loop\n' >"$WORK/s.conf"
mkdir "$WORK/S"
# Without WATCHDOG_PID the variable is valid for every process that has it.
NOTIFY_SOCKET=$WORK/notify WATCHDOG_USEC=600000 systemd-socket-activate --seqpacket -l "$WORK/S/vipd.sock" \
    -E NOTIFY_SOCKET -E WATCHDOG_USEC "$VIPD" --config "$WORK/s.conf" --runtime-dir "$WORK/S" >"$WORK/S.log" 2>&1 </dev/null &
service=$!
track $service
for _ in $(seq 1200); do
    [ -S "$WORK/S/vipd.sock" ] && break
    sleep 0.05
done
export VIPD_RUNTIME_DIR=$WORK/S
"$build/tools/vipctl" show summary >"$WORK/out" 2>&1 || wrong "no answer on the manager's socket: $(cat "$WORK/out" "$WORK/S.log")"
wait_for "READY=1 STATUS=vip0 up; 0 NIC handles open" "$WORK/told"
wait_for "WATCHDOG=1" "$WORK/told"
capabilities_dropped "/proc/$service/status" || wrong "capabilities: $(grep ^Cap /proc/$service/status)"
kill -TERM $service
wait $service || wrong "vipd ended with $?: $(cat "$WORK/S.log")"
wait_for "STOPPING=1" "$WORK/told"
[ -S "$WORK/S/vipd.sock" ] || wrong "vipd removed a socket that is not its own"

[ $bad -eq 0 ] && echo "systemd: units, users, folders, socket, readiness, watchdog, no capability"
exit $bad
