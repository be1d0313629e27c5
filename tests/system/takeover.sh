#!/usr/bin/env bash
# vipd --takeover: a running vipd hands over only to a next vipd that may take over and is ready. If
# the next vipd fails, the running vipd continues. outlive.sh tests takeovers under traffic.
# usage: takeover.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh
. tests/lib/failed.sh
VIPD=$build/vipd/vipd
vipctl=$build/tools/vipctl
trap daemons_end EXIT
trap 'exit 130' INT TERM

# refused TEXT ENVIRONMENT...: the next vipd must end with TEXT in its log; the first must continue
refused() {
    local text=$1
    shift
    timeout 60 env "$@" "$VIPD" --takeover --config "$WORK/next.conf" --runtime-dir "$WORK/A" >"$WORK/next.log" 2>&1 &&
        failed "a vipd took over, in spite of: $text"
    grep -q "$text" "$WORK/next.log" || failed "no '$text'"
    runs
}

# Check that the first vipd still runs and answers.
runs() {
    [ "$(in_host A "$vipctl" show summary --json | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p')" = "${DAEMON_PID[A]}" ] ||
        failed "vipd $1 does not run any more"
}

daemons_begin
port_take || exit 1
printf '[reliability]\noutlive = 20s\n' >"$WORK/next.conf"
mkdir "$WORK/A"
timeout 60 "$VIPD" --takeover --config "$WORK/next.conf" --runtime-dir "$WORK/A" >"$WORK/next.log" 2>&1 &&
    failed "a vipd took over from none"
grep -q 'no vipd runs in .*; start this one without --takeover' "$WORK/next.log" || failed "no clear reason"

daemon_start A 127.0.0.1 "$port" "[nic:lo]" "link = loop" "[reliability]" "outlive = 0" || exit 1
cp "$WORK/A.conf" "$WORK/next.conf"
refused 'outlive is 0 in the configuration'
sed -i 's/^outlive.*/outlive = 20s/' "$WORK/next.conf"
refused 'its connections would end: set \[reliability\] outlive first'
cp "$WORK/next.conf" "$WORK/A.conf"
in_host A "$vipctl" reload >/dev/null || failed "no reload"
refused 'use vipctl restart' NOTIFY_SOCKET=/nonexistent
sed 's/^link = udp/link = xdp\ninterface = lo/; /^address/d; /^port/d' "$WORK/A.conf" >"$WORK/next.conf"
refused 'a NIC with link = xdp cannot be opened'
sed "s/^address.*/address = 127.0.0.3/" "$WORK/A.conf" >"$WORK/next.conf"
refused 'NIC vip0 of the vipd that runs has another address or port'
sed 's/^\[nic:vip0\]/[nic:vip7]/' "$WORK/A.conf" >"$WORK/next.conf"
refused 'NIC vip0 of the vipd that runs is missing'
sed 's/^\[nic:lo\]/[nic:other]/' "$WORK/A.conf" >"$WORK/next.conf"
refused 'NIC lo loop of the vipd that runs is missing'
cp "$WORK/A.conf" "$WORK/next.conf"

# A stopped vipd (SIGSTOP) hands nothing over, and works again after SIGCONT.
kill -STOP "${DAEMON_PID[A]}"
timeout 60 "$VIPD" --takeover --config "$WORK/next.conf" --runtime-dir "$WORK/A" >"$WORK/next.log" 2>&1 &&
    failed "a vipd took over from one that stands still"
kill -CONT "${DAEMON_PID[A]}"
grep -q 'does not answer within 1 s' "$WORK/next.log" || failed "no clear reason"
runs

# A next vipd that closes the connection, that sends a wrong message, or that runs as another user.
python3 -B tests/lib/takeover.py "$WORK/A/vipd.sock" || failed "tests/lib/takeover.py"
runs
if [ "$(id -u)" -eq 0 ]; then
    chmod 755 "$WORK" "$WORK/A"
    chmod 666 "$WORK/A/vipd.sock"
    python3 -B tests/lib/takeover.py "$WORK/A/vipd.sock" stranger || failed "a stranger"
    runs
fi

# If the next vipd does not answer for 10 s, the running vipd continues and allows another takeover.
python3 -B tests/lib/takeover.py "$WORK/A/vipd.sock" still || failed "tests/lib/takeover.py still"
grep -q 'which was to take over, is not ready after 10 s; this one goes on' "$WORK/A.log" || failed "no line in the log"
runs

# If the running vipd gets SIGTERM before the next vipd is ready, it must end with status 0.
python3 -B tests/lib/takeover.py "$WORK/A/vipd.sock" ends "${DAEMON_PID[A]}" || failed "tests/lib/takeover.py ends"
wait "${DAEMON_PID[A]}" || failed "the vipd that ended has failed"
daemon_run A || failed "no next vipd"
runs

# `draining` must be the same in the next vipd as in the first vipd.
drains() {
    in_host A "$vipctl" show summary --json | grep -q "\"draining\": *$1" || failed "not \"draining\": $1"
}
in_host A "$vipctl" drain >/dev/null || failed "no drain"
drains true
before=${DAEMON_PID[A]}
daemon_takeover A || exit 1
[ "${DAEMON_PID[A]}" != "$before" ] && ! kill -0 "$before" 2>/dev/null || failed "vipd $before still runs"
runs
drains true
in_host A "$vipctl" resume >/dev/null || failed "no resume"
daemon_takeover A || exit 1
drains false
[ -S "$WORK/A/vipd.sock" ] && [ -f "$WORK/A/vipd.stats" ] || failed "a file of the runtime directory has gone"
[ "$(cat "$WORK/A/vipd.lock")" = "${DAEMON_PID[A]}" ] || failed "the lock has another pid"
"$VIPD" --config "$WORK/next.conf" --runtime-dir "$WORK/A" >"$WORK/next.log" 2>&1 && failed "two vipd have one lock"
grep -q "another vipd (pid ${DAEMON_PID[A]}) uses" "$WORK/next.log" || failed "no clear reason of the lock"
daemon_stop A
[ -z "$(ls "$WORK/A" | grep -v -e vipd.lock -e ticket.key -e owners)" ] ||
    failed "left behind: $(ls "$WORK/A")"
echo "takeover: all good"
