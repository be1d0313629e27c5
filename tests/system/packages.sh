#!/usr/bin/env bash
# Builds the Debian packages, checks them with lintian, and installs them into a fresh Debian 12
# root. There it starts a vipd without privileges, as the unit does, and uses check, ping, and a
# transfer. The transfer must survive a reload with a good and with a broken file. Then vipd is
# stopped. The same again under the systemd of that root, booted in namespaces: there a transfer
# must also survive restarts and an upgrade of vipd. Needs root, a mirror, and a quarter of an hour.
# usage: packages.sh [MIRROR]      packages end up in build/packages
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/capabilities.sh
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
    [ -n "${booting-}" ] && kill -KILL "$booting" 2>/dev/null && wait "$booting" 2>/dev/null
    umount "$root/proc" "$root/dev" 2>/dev/null
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# ---- build and check ----------------------------------------------------------------------------------

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
in_root getent group via-admin via-stat >/dev/null || wrong "there is no group via-admin or via-stat"

# ---- the units' work by hand, as on a machine without systemd -----------------------------------------------

. scripts/own.sh
port_take || exit 1
mkdir -p "$root/etc/vipd/vipd.conf.d"
printf '[nic:vip0]\naddress = 127.0.0.1\nport = %s\n' $port >"$root/etc/vipd/vipd.conf"
start() { # start DIR ARGUMENTS...: as user vipd with its groups, without capabilities
    local dir=$1
    shift
    in_root install -d -o vipd -g vipd "$dir"
    # Not through in_root: $! must be the number of vipd, not of a shell around it.
    chroot "$root" setpriv --reuid=vipd --regid=vipd --init-groups --bounding-set=-all --inh-caps=-all --no-new-privs \
        env RUNTIME_DIRECTORY="$dir" HOME=/nonexistent /usr/sbin/vipd "$@" >"$work/$(basename "$dir").log" 2>&1 </dev/null &
    pids+=($!)
    for _ in $(seq 600); do
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
capabilities_dropped "/proc/$vipd/status" || wrong "vipd has capabilities"
[ "$(stat -c %u "/proc/$vipd")" != 0 ] || wrong "vipd runs as root"
[ "$(in_root stat -c '%U %G %a' /run/vipd/vipd.stats)" = "vipd via-stat 640" ] ||
    wrong "vipd.stats: $(in_root stat -c '%U %G %a' /run/vipd/vipd.stats)"

in_root vipctl check --peer 127.0.0.2:$port
code=$?
[ $code -eq 0 ] || [ $code -eq 7 ] || wrong "vipctl check ends with $code"
in_root vipctl ping 127.0.0.2:$port || wrong "ping"
chroot "$root" env VIPD_RUNTIME_DIR=/run/vipd-b vipperf serve >"$work/serve.log" 2>&1 </dev/null &
pids+=($!)
chroot "$root" vipperf bw 127.0.0.2:$port --size 64K --duration 15s --verify >"$work/bw.log" 2>&1 </dev/null &
transfer=$!
for _ in $(seq 600); do
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
# Stop the peer and its server, too, because their addresses are needed again.
for pid in "${pids[@]:1}"; do
    kill "$pid" && wait "$pid"
done
pids=()

# ---- a booted systemd ---------------------------------------------------------------------------------------

# The system boots like a container, with its own namespaces except for the network. If this is not
# possible here, the script says so, and tests only the part above.
boot() {
    : >"$root/etc/machine-id"
    unshare --pid --fork --mount --uts --ipc --cgroup --kill-child bash -c "
        mount --make-rprivate / && mount --bind '$root' '$root' && mount -t proc proc '$root/proc' &&
        { mount -t sysfs -o ro sysfs '$root/sys' || mount --rbind /sys '$root/sys'; } &&
        mount -t tmpfs tmpfs '$root/run' && mount -t tmpfs tmpfs '$root/tmp' && mount --bind /dev '$root/dev' || exit 1
        if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
            mount -t cgroup2 cgroup2 '$root/sys/fs/cgroup' || exit 1
        else
            mount -t tmpfs tmpfs '$root/sys/fs/cgroup' && mkdir '$root/sys/fs/cgroup/systemd' &&
                mount -t cgroup -o none,name=systemd cgroup '$root/sys/fs/cgroup/systemd' || exit 1
        fi
        exec env container=other chroot '$root' /lib/systemd/systemd --system --log-target=console --show-status=no" \
        >"$work/boot.log" 2>&1 </dev/null &
    booting=$!
    for _ in $(seq 60); do
        # The first child of unshare is number 1 inside.
        init=$(ps -o pid= --ppid "$booting" | tr -d ' ')
        [ -n "$init" ] && case $(inside systemctl is-system-running 2>/dev/null) in
        running | degraded | starting) return 0 ;;
        esac
        kill -0 $booting 2>/dev/null || break
        sleep 1
    done
    return 1
}
inside() { nsenter -t "$init" -m -p -u -i -r -w timeout 600 "$@"; }
# journal UNIT TEXT: true if the unit's log contains TEXT
journal() { inside journalctl --no-pager -q -u "$1" 2>/dev/null | grep -qF -- "$2"; }

# transfer_begin LOG SECONDS: start a transfer to the vipd b; $transfer is its process
transfer_begin() {
    nsenter -t "$init" -m -p -u -i -r -w vipperf bw 127.0.0.2:$port --size 64K --duration "$2" --verify >"$1" 2>&1 </dev/null &
    transfer=$!
    for _ in $(seq 600); do
        inside vipctl -rn show vi state=connected | grep -q . && break
        sleep 0.1
    done
}

# A transfer must survive that vipd is restarted, killed and upgraded at either end.
restart_story() {
    local transfer
    rm -f "$root/etc/vipd/vipd.conf.d/10-spin.conf"
    printf '[reliability]\noutlive = 60s\n' | tee -a "$root/etc/vipd/vipd.conf" >>"$root/etc/vipd/b.conf"
    inside systemctl stop serve
    inside systemctl restart vipd vipd@b || wrong "systemctl restart"
    inside systemd-run -q --unit=serve -E VIPD_RUNTIME_DIR=/run/vipd-b vipperf serve || wrong "vipperf serve, again"
    transfer_begin "$work/bw3.log" 20s
    inside vipctl restart || wrong "vipctl restart under a transfer"
    inside systemctl restart vipd@b || wrong "systemctl restart vipd@b under a transfer"
    inside systemctl kill --signal=KILL vipd || wrong "systemctl kill"
    inside sh -c 'DEBIAN_FRONTEND=noninteractive dpkg -i /packages/vipd_*.deb' >"$work/upgrade.log" 2>&1 ||
        wrong "an upgrade under a transfer: $(tail -n 5 "$work/upgrade.log")"
    kill -0 $transfer || wrong "the transfer was over before the upgrade"
    wait $transfer || {
        inside journalctl --no-pager -q -n 40 -u vipd -u vipd@b
        wrong "the transfer did not survive restarts: $(cat "$work/bw3.log")"
    }
    cat "$work/bw3.log"
}

service_story() {
    local pid code transfer
    printf '[nic:vip0]\naddress = 127.0.0.1\nport = %s\n' $port >"$root/etc/vipd/vipd.conf"
    rm -f "$root/etc/vipd/vipd.conf.d/10-spin.conf"
    inside systemctl start vipd.socket vipd vipd@b || { inside systemctl --no-pager status vipd vipd@b; wrong "systemctl start"; return; }
    pid=$(inside systemctl show -p MainPID --value vipd)
    inside cat "/proc/$pid/status" | capabilities_dropped /dev/stdin || wrong "vipd has capabilities under systemd"
    [ "$(inside stat -c '%U %G %a' /run/vipd/vipd.stats)" = "vipd via-stat 640" ] ||
        wrong "vipd.stats: $(inside stat -c '%U %G %a' /run/vipd/vipd.stats)"
    inside setpriv --reuid=nobody --regid=nogroup --clear-groups vipctl --mapped show stats >/dev/null 2>&1 && wrong "nobody reads vipd.stats"
    inside setpriv --reuid=nobody --regid=nogroup --groups "$(in_root getent group via-stat | cut -d: -f3)" \
        vipctl --mapped show stats name=turns || wrong "a member of via-stat cannot read vipd.stats"
    inside systemctl --no-pager status vipd | grep "Status:" || wrong "no status line"
    inside vipctl check --peer 127.0.0.2:$port
    code=$?
    [ $code -eq 0 ] || [ $code -eq 7 ] || wrong "vipctl check under systemd ends with $code"
    inside vipctl ping 127.0.0.2:$port || wrong "ping under systemd"
    inside systemd-run -q --unit=serve -E VIPD_RUNTIME_DIR=/run/vipd-b vipperf serve || wrong "vipperf serve as a unit"
    transfer_begin "$work/bw2.log" 15s
    printf '[engine]\nspin = 70us\n' >"$root/etc/vipd/vipd.conf.d/10-spin.conf"
    inside systemctl reload vipd || wrong "systemctl reload with a good file"
    inside vipctl -rn show config key=spin value=70us | grep -q . || wrong "systemctl reload changed nothing"
    echo 'spun = fast' >>"$root/etc/vipd/vipd.conf.d/10-spin.conf"
    inside systemctl reload vipd && wrong "systemctl reload with a broken file succeeds"
    journal vipd "10-spin.conf:3" || wrong "the journal does not say what is wrong with the file"
    inside vipctl -rn show config key=spin value=70us | grep -q . || wrong "a broken file changed something under systemd"
    [ "$(inside systemctl show -p MainPID --value vipd)" = "$pid" ] || wrong "vipd was restarted meanwhile"
    wait $transfer || wrong "the transfer did not survive: $(cat "$work/bw2.log")"
    cat "$work/bw2.log"
    restart_story
    inside systemctl stop vipd.socket vipd vipd@b serve || wrong "systemctl stop"
    [ "$(inside systemctl show -p Result --value vipd)" = success ] || wrong "vipd's end: $(inside systemctl --no-pager status vipd)"
    inside test ! -e /run/vipd/vipd.sock || wrong "the socket stays"
    echo "packages: the same under a booted systemd"
}

booting=
init=
if in_root sh -c 'DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends systemd systemd-sysv dbus' \
    >"$work/systemd.log" 2>&1 && boot; then
    service_story
else
    echo "packages: systemd does not boot here ($(tail -n 1 "$work/boot.log" 2>/dev/null)); started by hand only"
fi
# When process 1 of the namespaces ends, the kernel kills all processes inside.
[ -n "$booting" ] && kill -KILL "$booting" && wait "$booting" 2>/dev/null

in_root sh -c 'DEBIAN_FRONTEND=noninteractive apt-get purge -y vipd vipd-tools' >"$work/purge.log" 2>&1 ||
    wrong "purge: $(tail -n 5 "$work/purge.log")"

[ $bad -eq 0 ] && echo "packages: built, judged, installed, used, removed"
exit $bad
