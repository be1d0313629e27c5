#!/usr/bin/env bash
# Makes build/root-ARCH: Debian's packages of another architecture, to compile with them and to run
# them under qemu-user. apt uses only folders of this tree, so the system does not change. Scripts
# of packages do not run, so the script does not need root.
# usage: root.sh ARCH
set -u
cd "$(dirname "$0")/../.." || exit 1
arch=${1:?usage: root.sh ARCH}
root=$PWD/build/root-$arch
# The libraries of a build (PACKAGES_BUILD of scripts/common.sh without its programs), and cmocka.
packages="libc6-dev libgcc-12-dev libprotobuf-c-dev libev-dev libeconf-dev libisal-dev libpcap-dev libbpf-dev libsodium-dev libsystemd-dev
    libsmartcols-dev libncurses-dev libmicrohttpd-dev libpmix-dev systemtap-sdt-dev libcmocka-dev"

if [ -e "$root/complete" ] && [ "$(cat "$root/complete")" = "$packages" ]; then
    exit 0
fi
rm -rf "$root"
# As in Debian, /lib, /bin and /sbin are links to folders of /usr.
mkdir -p "$root"/apt/{lists,cache/archives}/partial "$root"/usr/{lib,bin,sbin} || exit 1
for folder in lib bin sbin; do
    ln -s usr/$folder "$root/$folder"
done
touch "$root/apt/status"
. /etc/os-release
# The Debian mirror of this system; only the URL is used.
mirror=$(apt-get indextargets --format '$(SITE) $(CREATED_BY)' 2>/dev/null |
    sed -nE 's|^([a-z]+://[^ ]*/debian/?) Packages$|\1|p' | head -n 1)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian} $VERSION_CODENAME main" \
    >"$root/apt/sources.list"
apt=(apt-get -q -o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o "Dir::State=$root/apt"
    -o "Dir::State::status=$root/apt/status" -o "Dir::State::lists=$root/apt/lists" -o "Dir::Cache=$root/apt/cache"
    -o "Dir::Etc::sourcelist=$root/apt/sources.list" -o Dir::Etc::sourceparts=/nonexistent
    -o APT::Install-Recommends=0 -o Debug::NoLocking=1 -o APT::Sandbox::User=)
# shellcheck disable=SC2086
if ! { "${apt[@]}" update && "${apt[@]}" -y --download-only install $packages; } >"$root/apt/log" 2>&1; then
    tail -n 20 "$root/apt/log"
    echo "root.sh: the packages for $arch could not be fetched"
    exit 1
fi
for package in "$root"/apt/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root" --keep-directory-symlink --no-same-owner || exit 1
done
# Make absolute links relative, because absolute links lead to this system's files.
find "$root/usr" -type l -lname '/*' | while read -r link; do
    target=$root$(readlink "$link")
    [ ! -e "$target" ] || ln -sfr "$target" "$link"
done
rm -rf "$root/apt"
echo "$packages" >"$root/complete"
