#!/usr/bin/env bash
# A stranger calls endpoints that match tags. Its calls must be rejected, and the endpoints must
# still work. As root: the stranger is another user, and a second stranger listens at 12 of the 16
# discriminators of ports that the kernel may choose. The endpoints must find the other 4.
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
job=("$2")
holder=
if [ "$(id -u)" = 0 ] && unshare -n true 2>/dev/null; then
    exec {holds}> >(exec "${stranger[@]}" "$VIP_WORK/stranger" wait 40000 40011 >"$VIP_WORK/holder" 2>&1)
    holder=$!
    for _ in $(seq 600); do
        [ -s "$VIP_WORK/holder" ] && break
        sleep 0.1
    done
    grep -q '^waiting$' "$VIP_WORK/holder" || { echo "strangers: the holder of ports: $(cat "$VIP_WORK/holder")"; exit 1; }
    job=(unshare -n sh -c 'echo 40000 40015 >/proc/sys/net/ipv4/ip_local_port_range && exec "$@"' sh "$2")
else
    echo "strangers: not root in a network namespace, so no discriminators of ports are taken"
fi
coproc JOB { exec "${job[@]}" strangers; }
# Bash unsets JOB and JOB_PID when the process ends.
from=${JOB[0]} to=${JOB[1]} pid=$JOB_PID
read -r -t 60 word a b c <&"$from"
[ "$word" = ports ] || { echo "strangers: no ports: $word"; exit 1; }
bad=0
"${stranger[@]}" "$VIP_WORK/stranger" "$a" "$b" "$c" || bad=1
exec {to}>&-
cat <&"$from"
wait "$pid"
status=$?
if [ -n "$holder" ]; then
    exec {holds}>&-
    wait "$holder" || { echo "strangers: the holder of ports ended with status $?"; bad=1; }
fi
[ $status -eq 0 ] || { echo "strangers: the endpoints ended with status $status"; bad=1; }
exit $bad
