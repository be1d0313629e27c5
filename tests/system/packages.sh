#!/usr/bin/env bash
# The long form of installation: builds the Debian packages, lets lintian judge them, installs them into a
# fresh Debian 12 root and works there with what they have brought: a vipd without privileges as its unit
# describes it, check, ping, a transfer that survives a reload with a good and with a broken file, and
# the orderly end. Not part of ./check: it needs root, a mirror, and a quarter of an hour.
# usage: packages.sh [MIRROR]      packages end up in build/packages
set -u
cd "$(dirname "$0")/../.." || exit 1
source=$PWD
mirror=${1:-http://deb.debian.org/debian}
out=$source/build/packages
for tool in debootstrap dpkg-buildpackage lintian; do
    command -v $tool >/dev/null || { echo "$tool is missing: apt-get install debootstrap devscripts debhelper lintian"; exit 1; }
done
[ "$(id -u)" -eq 0 ] || { echo "this needs root, for chroot"; exit 1; }
work=$(mktemp -d)
root=$work/root
bad=0

wrong() {
    echo "FAILED: $*"
    bad=1
}

pids=()
cleanup() {
    local pid
    for pid in ${pids+"${pids[@]}"}; do
        kill "$pid" 2>/dev/null
    done
    for pid in ${pids+"${pids[@]}"}; do
        wait "$pid" 2>/dev/null
    done
    umount "$root/proc" "$root/dev" 2>/dev/null
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# ---- build and judge ----------------------------------------------------------------------------------

if [ -z "${PACKAGES_BUILT-}" ]; then
    mkdir -p "$work/vipd" "$out"
    git ls-files -z | xargs -0 cp --parents -t "$work/vipd" 2>/dev/null
    (cd "$work/vipd" && dpkg-buildpackage -us -uc -b) >"$work/build.log" 2>&1 || { tail -n 30 "$work/build.log"; exit 1; }
    rm -f "$out"/*
    mv "$work"/*.deb "$work"/*.changes "$work"/*.buildinfo "$out/"
fi
lintian --fail-on error --allow-root "$out"/*.changes || wrong "lintian"
ls "$out"

# ---- a fresh machine ----------------------------------------------------------------------------------

debootstrap --variant=minbase bookworm "$root" "$mirror" >"$work/bootstrap.log" 2>&1 || { tail -n 20 "$work/bootstrap.log"; exit 1; }
mount -t proc proc "$root/proc" && mount --bind /dev "$root/dev" || exit 1
cp /etc/resolv.conf "$root/etc/" 2>/dev/null
mkdir "$root/packages"
cp "$out"/vipd_*.deb "$out"/vipd-tools_*.deb "$out"/libvipl1_*.deb "$out"/libvipl-dev_*.deb "$root/packages/"
in_root() { chroot "$root" "$@"; }
in_root sh -c 'apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends /packages/*.deb' \
    >"$work/install.log" 2>&1 || { tail -n 20 "$work/install.log"; exit 1; }
in_root getent passwd vipd >/dev/null || wrong "there is no user vipd"
in_root getent group via-admin >/dev/null || wrong "there is no group via-admin"

# ---- what the units describe, by hand ------------------------------------------------------------------

port=$((20000 + $$ % 12000))
mkdir -p "$root/etc/vipd/vipd.conf.d"
printf '[nic:vip0]\naddress = 127.0.0.1\nport = %s\n' $port >"$root/etc/vipd/vipd.conf"
start() { # start DIR ARGUMENTS...: as User=vipd, without capabilities
    local dir=$1
    shift
    in_root install -d -o vipd -g vipd "$dir"
    # Not through in_root: the number must be that of vipd, not of a shell around it.
    chroot "$root" setpriv --reuid=vipd --regid=vipd --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs \
        env RUNTIME_DIRECTORY="$dir" HOME=/nonexistent /usr/sbin/vipd "$@" >"$work/$(basename "$dir").log" 2>&1 </dev/null &
    pids+=($!)
    for _ in $(seq 200); do
        [ -S "$root$dir/vipd.sock" ] && return 0
        sleep 0.1
    done
    cat "$work/$(basename "$dir").log"
    wrong "vipd in $dir does not start"
}
start /run/vipd
vipd=${pids[0]}
printf '[nic:vip0]\naddress = 127.0.0.2\nport = %s\n' $port >"$root/etc/vipd/b.conf"
start /run/vipd-b --config /etc/vipd/b.conf
grep -qE '^CapEff:[[:space:]]*0+$' "/proc/$vipd/status" || wrong "vipd has capabilities"
[ "$(stat -c %u "/proc/$vipd")" != 0 ] || wrong "vipd runs as root"

in_root vipctl check --peer 127.0.0.2:$port
code=$?
[ $code -eq 0 ] || [ $code -eq 7 ] || wrong "vipctl check ends with $code"
in_root vipctl ping 127.0.0.2:$port || wrong "ping"
chroot "$root" env VIPD_RUNTIME_DIR=/run/vipd-b vipperf serve >"$work/serve.log" 2>&1 </dev/null &
pids+=($!)
chroot "$root" vipperf bw 127.0.0.2:$port --size 64K --duration 15s --verify >"$work/bw.log" 2>&1 </dev/null &
transfer=$!
for _ in $(seq 100); do
    in_root vipctl -rn show vi state=connected | grep -q . && break
    sleep 0.1
done
printf '[engine]\nspin = 70us\n' >"$root/etc/vipd/vipd.conf.d/10-spin.conf"
in_root vipctl reload || wrong "a reload with a good file"
in_root vipctl -rn show config key=spin value=70us | grep -q . || wrong "the reload changed nothing"
echo 'spun = fast' >>"$root/etc/vipd/vipd.conf.d/10-spin.conf"
in_root vipctl reload && wrong "a reload with a broken file succeeds"
in_root vipctl -rn show config key=spin value=70us | grep -q . || wrong "a broken file changed something"
wait $transfer || wrong "the transfer did not survive: $(cat "$work/bw.log")"
cat "$work/bw.log"
in_root sh -c 'man=/usr/share/man; ls $man/man8/vipd.8.gz $man/man1/vipctl.1.gz $man/man3/vipl_vi.3.gz' >/dev/null || wrong "manual pages"
kill -TERM "$vipd"
wait "$vipd" || wrong "vipd ended with $?: $(tail -n 5 "$work/vipd.log")"
[ ! -e "$root/run/vipd/vipd.sock" ] || wrong "the socket stays"
in_root sh -c 'DEBIAN_FRONTEND=noninteractive apt-get purge -y vipd vipd-tools' >"$work/purge.log" 2>&1 ||
    wrong "purge: $(tail -n 5 "$work/purge.log")"

[ $bad -eq 0 ] && echo "packages: built, judged, installed, used, removed"
exit $bad
