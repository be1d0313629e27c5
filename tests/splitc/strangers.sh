#!/usr/bin/env bash
# The processes of a job must reject false calls, and the job must end well. The calls come from a
# program of another user, which knows the job's name and the discriminators, and from a process of
# the job that lies about itself. When all processes are connected, the job must no longer listen.
# If root runs the script, the job and the stranger are two users.
# usage: strangers.sh BUILD_DIR
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "${1:?build directory}")
if [ -z "${STRANGERS_INSIDE-}" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    flags=()
    sanitize=$(sed -n 's/^VIP_SANITIZE:STRING=//p' "$build/CMakeCache.txt")
    [ -z "$sanitize" ] || flags=("-fsanitize=$sanitize")
    "$build/splitc/splitcc" -w -O1 "${flags[@]}" -o "$work/job" "$here/strangers.sc" || exit 1
    # Copy the programs: the other users may have no access to the build folder.
    cp "$build/tools/amrun" "$build/tests/splitc/stranger" "$work/" || exit 1
    chmod 1777 "$work"
    STRANGERS_INSIDE=$work "$here/../lib/two_vipd.sh" "$build" udp "$here/strangers.sh" "$build"
    exit
fi
chmod 711 "$VIP_WORK"
cd "$STRANGERS_INSIDE" || exit 1
if [ "$(id -u)" = 0 ]; then
    owner=(setpriv --reuid=2001 --regid=2001 --clear-groups)
    stranger=(setpriv --reuid=2002 --regid=2002 --clear-groups)
else
    echo "strangers: not root, so the stranger is the same user"
    owner=()
    stranger=()
fi
bad=0

# Put the discriminators of all listeners into `numbers`.
listening() {
    mapfile -t numbers < <("$build/tools/vipctl" show listen --raw | awk '$3 == "listener" {print $4}')
}

# ended NAME PID: wait for a job, which must end with status 0.
ended() {
    wait "$2"
    local status=$?
    cat "$1.out"
    [ $status -eq 0 ] || {
        echo "$1: exit status $status"
        bad=1
    }
}

# 1. A stranger that knows the job's name and the discriminators calls a job of three processes.
first=$(date +%s)
"${owner[@]}" ./amrun -n 3 ./job "$PWD/go" 3 "$PWD/over" >alone.out 2>&1 </dev/null &
job=$!
for _ in $(seq 600); do
    listening
    [ ${#numbers[@]} -eq 3 ] && break
    kill -0 $job 2>/dev/null || break
    sleep 0.05
done
[ ${#numbers[@]} -eq 3 ] || echo "strangers: no job of three listens: ${numbers[*]}"
"${stranger[@]}" ./stranger $job "$first" "$(date +%s)" 3 "${numbers[@]}" || bad=1
touch go
for _ in $(seq 600); do
    listening
    [ ${#numbers[@]} -eq 0 ] && break
    sleep 0.05
done
[ ${#numbers[@]} -eq 0 ] || {
    echo "strangers: all processes are connected, and ${#numbers[@]} still listen"
    bad=1
}
touch over
ended alone $job

# 2. In a job of three processes the last process, which is on host B, lies about itself.
cat >member <<'END'
#!/bin/sh
if [ "$PMI_RANK" = 2 ]; then
    export VIPD_RUNTIME_DIR="$VIPD_RUNTIME_DIR_B"
    exec ./stranger member "$1"
fi
exec ./job "$1" 2
END
chmod +x member
"${owner[@]}" ./amrun -n 3 ./member "$PWD/lied" >member.out 2>&1 </dev/null &
ended member $!
[ $bad -eq 0 ] && echo "strangers: all rejected"
exit $bad
