#!/usr/bin/env bash
# A stranger, as another user, calls endpoints that match tags: it is rejected, and they go on. As root the stranger is
# another user; otherwise it is the same one.
# usage: two_vipd.sh BUILD LINK strangers.sh BUILD_DIR RDMTEST STRANGER
set -u
export FI_PROVIDER_PATH=$1/ofi VIPD_RUNTIME_DIR=$VIPD_RUNTIME_DIR_A
export ASAN_OPTIONS=detect_leaks=0 # of libfabric, which keeps what it has to the end
chmod 711 "$VIP_WORK"
cp "$3" "$VIP_WORK/stranger" && chmod 755 "$VIP_WORK/stranger" || exit 1
stranger=()
if [ "$(id -u)" = 0 ]; then
    stranger=(setpriv --reuid=2002 --regid=2002 --clear-groups)
else
    echo "strangers: not root, so the stranger is the same user"
fi
coproc JOB { exec "$2" strangers; }
# Bash forgets these when the process ends.
from=${JOB[0]} to=${JOB[1]} pid=$JOB_PID
read -r -t 60 word a b c <&"$from"
[ "$word" = ports ] || { echo "strangers: no ports: $word"; exit 1; }
bad=0
"${stranger[@]}" "$VIP_WORK/stranger" "$a" "$b" "$c" || bad=1
exec {to}>&-
cat <&"$from"
wait "$pid"
status=$?
[ $status -eq 0 ] || { echo "strangers: the endpoints ended with status $status"; bad=1; }
exit $bad
