#!/usr/bin/env bash
# A job with processes on two hosts: two network namespaces with a vipd each, joined by a veth pair.
# usage: hosts.sh BUILD_DIR PROGRAM
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
build=$(realpath "${1:?build directory}")
program=${2:?program}
. "$here/scripts/daemons.sh"
. "$here/tests/lib/namespaces.sh"

end() {
    daemons_end
    namespaces_end
}
trap end EXIT
trap 'exit 130' INT TERM
daemons_begin "$build/vipd"
namespaces_begin || exit
# daemons.sh reads these two.
# shellcheck disable=SC2034
NETNS_A=$NS_A NETNS_B=$NS_B
daemon_start A 10.77.0.1 4794 && daemon_start B 10.77.0.2 4794 || exit 1

cat >"$WORK/host" <<SH
#!/bin/sh
if [ \$((PMI_RANK % 2)) = 0 ]; then
    VIPD_RUNTIME_DIR=$WORK/A exec nsenter --net=/run/netns/$NS_A "\$@"
fi
VIPD_RUNTIME_DIR=$WORK/B exec nsenter --net=/run/netns/$NS_B "\$@"
SH
chmod +x "$WORK/host"
for mode in poll block; do
    if ! timeout 600 "$build/tools/amrun" -n 4 "$WORK/host" "$program" "$mode"; then
        tail -n 20 "$WORK"/*.log
        exit 1
    fi
done
echo "hosts: jobs of 4 processes in two namespaces: good"
