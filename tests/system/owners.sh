#!/usr/bin/env bash
# A program waits on a discriminator, and vipd ends (SIGKILL, SIGTERM, vipd --takeover). Until the
# program waits again at the next vipd, no other user may take the discriminator. Meanwhile the
# request of a client waits for the program. vipd ignores a bad file of owners. Needs root.
# usage: owners.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh
. tests/lib/failed.sh
trap daemons_end EXIT
trap 'exit 130' INT TERM
[ "$(id -u)" -eq 0 ] || {
    echo "skipped: not root, so there are no two users"
    exit 77
}

# These are arrays and not functions, so that a signal reaches the program and not a shell.
as_owner=(setpriv --reuid=2001 --regid=2001 --clear-groups)
as_thief=(setpriv --reuid=2002 --regid=2002 --clear-groups)

# True if the owner waits on the discriminator, within a minute.
waits() {
    for _ in $(seq 1200); do
        in_host A "$build/tools/vipctl" show listen --raw | cut -f 3 | grep -qx wait && return 0
        sleep 0.05
    done
    return 1
}

# True if the client's request still waits at each of ten successive looks.
asks() {
    local looks=0
    for _ in $(seq 1200); do
        if in_host A "$build/tools/vipctl" show conn --raw | cut -f 4 | grep -qx requested; then
            looks=$((looks + 1))
            [ $looks -lt 10 ] || return 0
        elif [ $looks -gt 0 ]; then
            return 1
        fi
        sleep 0.05
    done
    return 1
}

daemons_begin "$build/vipd"
port_take || exit 1
for_others "$build" "$build/tests/system/outlive" || exit 1
daemon_start A 127.0.0.1 "$port" "[daemon]" "socket_mode = 0666" "[reliability]" "outlive = 60s" ||
    exit 1
chmod 755 "$WORK/A"
for way in SIGKILL SIGTERM takeover; do
    rm -f "$WORK/stop"
    start_in A "$WORK/owner.log" "${as_owner[@]}" "$OTHERS/outlive" server
    owner=$STARTED
    waits || failed "$way: the owner does not wait"
    kill -STOP "$owner"
    daemon_again A $way || exit 1
    in_host A "${as_thief[@]}" timeout 120 "$OTHERS/outlive" server \
        >"$WORK/thief.log" 2>&1 </dev/null &&
        failed "$way: another user waits at the discriminator"
    grep -q 'belongs to another user' "$WORK/thief.log" ||
        failed "$way: the other user was not refused for that"
    touch "$WORK/stop" # at once: one round is enough
    start_in A "$WORK/client.log" "${as_owner[@]}" timeout 120 "$OTHERS/outlive" client 127.0.0.1 \
        "$WORK/stop"
    client=$STARTED
    asks || failed "$way: the client does not wait for the owner: $(cat "$WORK/client.log")"
    kill -CONT "$owner"
    wait "$client" || failed "$way: the owner does not get its client"
    wait "$owner" || failed "$way: the owner"
done
[ "$(stat -c '%a' "$WORK/A/owners")" = 600 ] || failed "others may open the file"
daemon_stop A
head -c 100000 /dev/urandom >"$WORK/A/owners"
daemon_run A || failed "a bad file of owners"
daemon_stop A
: >"$WORK/A/owners"
chmod 666 "$WORK/A/owners"
daemon_run A || failed "a file of owners that others may write"
echo "owners: kept over three ends of vipd"
