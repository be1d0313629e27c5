#!/usr/bin/env bash
# A vipd that root starts changes to [daemon] user when it listens. Then it has no capability, can
# get none, and has the user's groups. It must still reload, serve root and other users, clean up,
# and start again in the same directory.
# usage: privilege.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh
vipctl=$build/tools/vipctl
bad=0
failed() { echo "FAILED: $*"; bad=1; }
trap daemons_end EXIT
trap 'exit 130' INT TERM

if [ "$(id -u)" -ne 0 ]; then
    echo "skipped: only root can start a vipd that becomes another user"
    exit 77
fi
port_take || exit 1
daemons_begin "$build/vipd"
for_others "$build" "$vipctl" "$build/tools/vipperf" || exit 1

# Check every thread, because one thread with a privilege is enough to use the privilege. vipd keeps
# only CAP_LINUX_IMMUTABLE (0x200), if this script has it, for attributes of vipd's files.
had=0
[ $((16#$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status) & 0x200)) -eq 0 ] || had=200
gave_up() { # gave_up UID
    local task line
    for task in "/proc/${DAEMON_PID[A]}/task"/*; do
        for line in "Uid: $1 $1 $1 $1" "CapInh: 0" "CapPrm: $had" "CapEff: $had" "CapBnd: 0" "CapAmb: 0" "NoNewPrivs: 1"; do
            sed 's/\t0*\([0-9]\)/ \1/g; s/\t/ /g' "$task/status" | grep -qx "$line" ||
                failed "$(cat "$task/comm"): want '$line', have '$(grep "^${line%%:*}:" "$task/status")'"
        done
    done
}

for threads in 1 2; do
    daemon_start A 127.0.0.1 $port "[nic:vip1]" "link = loop" "[engine]" "threads = $threads" "[daemon]" "user = nobody" \
        "log_level = info" "[names]" "one = 127.0.0.1:$port" || exit 1
    uid=$(id -u nobody)
    gave_up "$uid"
    [ "$(sed -n 's/^Groups:[[:space:]]*//p' "/proc/${DAEMON_PID[A]}/status" | xargs)" = "$(id -G nobody)" ] ||
        failed "groups: $(grep ^Groups "/proc/${DAEMON_PID[A]}/status")"
    [ "$(stat -c %U "$WORK/A" "$WORK/A/vipd.lock" "$WORK/A/vipd.sock" "$WORK/A/vipd.stats" | sort -u)" = nobody ] ||
        failed "files of the runtime directory: $(ls -la "$WORK/A")"
    # Root may administer vipd, although vipd runs as a user. Another user may only use vipd.
    echo "two = 127.0.0.1:$port" >>"$WORK/A.conf"
    in_host A "$vipctl" reload >"$WORK/out" 2>&1 || failed "reload by root: $(cat "$WORK/out")"
    in_host A setpriv --reuid=54321 --regid=54321 --clear-groups "$OTHERS/vipctl" reload >"$WORK/out" 2>&1 &&
        failed "a stranger may reload"
    start_in A "$WORK/serve.log" setpriv --reuid=54321 --regid=54321 --clear-groups "$OTHERS/vipperf" serve --once
    for _ in $(seq 600); do
        grep -q ready "$WORK/serve.log" && break
        sleep 0.1
    done
    in_host A timeout 600 "$build/tools/vipperf" lat two --iters 100 >"$WORK/out" 2>&1 ||
        failed "a transfer between two users: $(cat "$WORK/out" "$WORK/serve.log")"
    kill $STARTED 2>/dev/null
    wait $STARTED
    daemon_stop A || failed "it ended badly"
    [ ! -e "$WORK/A/vipd.sock" ] || failed "the socket is left"
done

# A vipd that stays root must refuse a runtime directory that belongs to the user nobody.
daemon_start A 127.0.0.1 $port "[daemon]" "user = root" 2>"$WORK/err" && failed "root trusts a directory of nobody"
grep -q 'belongs to uid' "$WORK/err" || failed "no reason: $(cat "$WORK/err")"
chown root "$WORK/A"
daemon_start A 127.0.0.1 $port "[daemon]" "user = root" || exit 1
gave_up 0
daemon_stop A
# The default user is vipd. If there is no such user, vipd stays root and reports it.
daemon_start A 127.0.0.1 $port || exit 1
if getent passwd vipd >"$WORK/out"; then
    gave_up "$(id -u vipd)"
else
    gave_up 0
    grep -q "running as root, without privileges: there is no user 'vipd'" "$WORK/A.log" || failed "it does not say that it stays root"
fi
daemon_stop A
daemon_start A 127.0.0.1 $port "[daemon]" "user = no-such-user" 2>"$WORK/err" && failed "it runs as a user that does not exist"
grep -q 'user = no-such-user: there is no such user' "$WORK/err" || failed "no reason: $(cat "$WORK/err")"
[ $bad -eq 0 ] && echo "privilege: user, groups, capabilities, bounding set, files, reload, second start"
exit $bad
