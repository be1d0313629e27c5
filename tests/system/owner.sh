#!/usr/bin/env bash
# The owner of a discriminator (a "name"): vipd refuses a second user. [listen] reserves names for
# users. A program that accepts learns the user of a request. vipctl shows a user only the user's
# own names. The requests of one user leave room for those of other users.
# usage: owner.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh
owner=$build/tests/system/owner
vipctl=$build/tools/vipctl
bad=0
failed() { echo "FAILED: $*"; bad=1; }
trap daemons_end EXIT
trap 'exit 130' INT TERM

if [ "$(id -u)" -ne 0 ]; then
    echo "skipped: only root can be two users"
    exit 77
fi
port_take || exit 1
own=54321
thief=54322
third=54323
as_in() { # as_in HOST UID COMMAND...
    in_host "$1" setpriv --reuid="$2" --regid="$2" --clear-groups timeout 120 "${@:3}"
}
until_said() { # until_said FILE TEXT
    for _ in $(seq 1200); do
        grep -q "$2" "$1" && return
        sleep 0.1
    done
    failed "never '$2': $(cat "$1")"
}

daemons_begin "$build/vipd"
vipperf=$build/tools/vipperf
for_others "$build" "$owner" "$vipctl" "$vipperf" || exit 1
vipperf=$OTHERS/vipperf
owner=$OTHERS/owner
vipctl=$OTHERS/vipctl
daemon_start A 127.0.0.1 $port "[daemon]" "user = nobody" "[listen]" "db-* = $own" || exit 1
daemon_start B 127.0.0.2 $port "[daemon]" "user = nobody" || exit 1

start_in A "$WORK/serve.log" setpriv --reuid=$own --regid=$own --clear-groups "$owner" listen svc
server=$STARTED
until_said "$WORK/serve.log" ready

# The user whose program waits first owns the name.
as_in A $thief "$owner" try svc >"$WORK/try" 2>&1
[ "$(grep -c 'belongs to another user' "$WORK/try")" = 3 ] || failed "a second user: $(cat "$WORK/try")"
as_in A $own "$owner" try svc >"$WORK/try" 2>&1
grep -q 'another user' "$WORK/try" && failed "the same user: $(cat "$WORK/try")"

# [listen]: names that are reserved for a user.
as_in A $thief "$owner" try db-1 >"$WORK/try" 2>&1
[ "$(grep -c '\[listen\] db-\* = '$own "$WORK/try")" = 3 ] || failed "a kept name: $(cat "$WORK/try")"
as_in A $own "$owner" try db-1 >"$WORK/try" 2>&1
grep -q '^listen 0' "$WORK/try" || failed "a name kept for this user: $(cat "$WORK/try")"
in_host A "$owner" try db-2 >"$WORK/try" 2>&1
grep -q '^listen 0' "$WORK/try" || failed "root: $(cat "$WORK/try")"

# The user of a request.
as_in A $thief "$owner" connect 127.0.0.1 svc >"$WORK/connect" 2>&1
until_said "$WORK/serve.log" "^user $thief$"
as_in B $thief "$owner" connect 127.0.0.1:$port svc >"$WORK/connect" 2>&1
until_said "$WORK/serve.log" "^user unknown"

# vipctl shows the owner's name to the owner and to root, not to another user.
for who in $own 0 $thief; do
    as_in A $who "$vipctl" show listen >"$WORK/show" 2>&1 || failed "show listen: $(cat "$WORK/show")"
    if [ "$who" = $thief ]; then
        grep -Eq "svc|owner|$server" "$WORK/show" && failed "another user is shown: $(cat "$WORK/show")"
    else
        grep -q svc "$WORK/show" || failed "not shown to uid $who: $(cat "$WORK/show")"
    fi
done

# vipctl shows a peer to the user whose program is connected to it.
as_own=(setpriv --reuid=$own --regid=$own --clear-groups "$vipperf")
start_in A "$WORK/perf.log" "${as_own[@]}" serve --once
until_said "$WORK/perf.log" ready
start_in B "$WORK/lat.log" "${as_own[@]}" lat "127.0.0.1:$port" --iters 100000000
lat=$STARTED
for _ in $(seq 600); do
    as_in A $own "$vipctl" show peers >"$WORK/show" 2>&1
    grep -q 127.0.0.2 "$WORK/show" && break
    sleep 0.1
done
grep -q 127.0.0.2 "$WORK/show" || failed "its own peer is not shown: $(cat "$WORK/show" "$WORK/lat.log")"
as_in A 0 "$vipctl" show peers >"$WORK/show" 2>&1
grep -q 127.0.0.2 "$WORK/show" || failed "root sees no peer: $(cat "$WORK/show")"
as_in A $thief "$vipctl" show peers >"$WORK/show" 2>&1 || failed "show peers: $(cat "$WORK/show")"
grep -q 127.0.0.2 "$WORK/show" && failed "another user's peer is shown: $(cat "$WORK/show")"
kill "$lat"
wait "$lat"

# A user makes 5,000 requests to itself and answers none. vipd must keep only 512 of them (an eighth
# of its pending requests), and the server of another user must get a request of a third user.
pending() { in_host A "$vipctl" -rn -o value show stats name=cm_pending; }
as_thief=(setpriv --reuid=$thief --regid=$thief --clear-groups "$owner")
start_in A "$WORK/hold.log" "${as_thief[@]}" hold held
until_said "$WORK/hold.log" ready
for i in 1 2 3 4 5; do
    start_in A "$WORK/fill$i.log" "${as_thief[@]}" fill 127.0.0.1 held 1000
done
for i in 1 2 3 4 5; do
    until_said "$WORK/fill$i.log" filled
done
for _ in $(seq 600); do
    [ "$(pending)" = 512 ] && break
    sleep 0.1
done
as_in A $third "$owner" connect 127.0.0.1 svc >"$WORK/connect" 2>&1
until_said "$WORK/serve.log" "^user $third$"
[ "$(pending)" = 512 ] || failed "$(pending) requests of one user wait, not 512"

# A reload reserves the name for another user and so ends the listener. Then that user can listen.
sed -i "s/^db-\* = .*/svc = $thief/" "$WORK/A.conf"
in_host A "$vipctl" reload >"$WORK/reload" 2>&1 || failed "reload: $(cat "$WORK/reload")"
for _ in $(seq 100); do
    as_in A $thief "$owner" try svc >"$WORK/try" 2>&1
    grep -q '^listen 0' "$WORK/try" && break
    sleep 0.1
done
grep -q '^listen 0' "$WORK/try" || failed "after the reload: $(cat "$WORK/try")"
# Do not read the log instead: vipd leaves out lines about clients if there are many such lines.
[ "$(in_host A "$vipctl" show stats | awk '$2 == "ended_listen_reloaded" { print $3 }')" = 1 ] ||
    failed "the session is not counted as ended by the reload"
daemon_stop A || failed "A ended badly"
daemon_stop B || failed "B ended badly"
[ "$bad" = 0 ] && echo "discriminators belong to their users"
exit $bad
