#!/usr/bin/env bash
# libfabric's fi_pingpong between two hosts, with checked data: on the provider's connected
# endpoints (msg), on endpoints that ofi_rxm builds on them (rdm), also if the provider keeps no
# registrations, and on the provider's own rdm endpoints.
# usage: two_vipd.sh BUILD udp pingpong.sh BUILD_DIR
set -u
export FI_PROVIDER_PATH=$1/ofi
export ASAN_OPTIONS=detect_leaks=0 # of fi_pingpong and libfabric, which keep what they have to the end
bad=0
preload=""
sanitizer=$(readelf -d "$FI_PROVIDER_PATH/libvipl-fi.so" | sed -n 's/.*NEEDED.*\[\(lib[at]san.*\)\]/\1/p')
[ -z "$sanitizer" ] || preload=$(gcc -print-file-name="${sanitizer%%.so*}.so")
# The two fi_pingpong connect to each other on a TCP port; own.sh chooses it.
# shellcheck source=/dev/null
. "$(dirname "$0")/../../scripts/own.sh"

on() { # on HOST COMMAND...
    local dir="VIPD_RUNTIME_DIR_$1"
    shift
    env VIPD_RUNTIME_DIR="${!dir}" ${preload:+LD_PRELOAD="$preload"} timeout 600 "$@"
}

both() { # both ENDPOINT PROVIDER: sets server, and rc to the client's exit status
    port_take || exit 1
    on A fi_pingpong -e "$1" -p "$2" -I 100 -c -B "$port" >"$VIP_WORK/server.log" 2>&1 </dev/null &
    server=$!
    # The client ends at once if the server does not listen yet.
    for _ in $(seq 600); do
        ss -ltn "sport = :$port" | grep -q LISTEN && break
        sleep 0.1
    done
    on B env ${client_ring:+FI_VIA_RING="$client_ring"} fi_pingpong -e "$1" -p "$2" -I 100 -c -P "$port" 127.0.0.1 \
        >"$VIP_WORK/client.log" 2>&1
    rc=$?
}

pingpong() { # pingpong WHAT ENDPOINT PROVIDER
    both "$2" "$3"
    if wait "$server" && [ $rc -eq 0 ] && [ "$(grep -c '100 ' "$VIP_WORK/client.log")" -ge 6 ]; then
        echo "   passed: $1"
    else
        echo "   FAILED ($rc): $1"
        tail -n 20 "$VIP_WORK/server.log" "$VIP_WORK/client.log"
        bad=1
    fi
}

on A fi_info -e | grep -aq FI_VIA_REFUSE_EVERY || {
    echo "FAILED: fi_info -e does not show the settings FI_VIA_..."
    bad=1
}
pingpong "fi_pingpong, msg endpoints" msg via
pingpong "fi_pingpong, rdm endpoints by ofi_rxm" rdm "via;ofi_rxm"
FI_VIA_MR_CACHE=0 pingpong "fi_pingpong, rdm endpoints, no registration kept" rdm "via;ofi_rxm"

# libfabric lists the endpoints of ofi_rxm before those of `via`, so exclude ofi_rxm.
export FI_PROVIDER=^ofi_rxm
pingpong "fi_pingpong, rdm endpoints of our own" rdm via
# If the sizes of the two rings differ, the client must get an error.
client_ring=65536 both rdm via
# $server is a shell that waits for `timeout`. Kill `timeout`, which ends fi_pingpong.
pgrep -P "$server" | xargs -r kill
wait "$server"
if [ $rc -ne 0 ] && [ $rc -ne 124 ] && grep -q 'No route to host' "$VIP_WORK/client.log"; then
    echo "   passed: rings of different sizes are refused"
else
    echo "   FAILED ($rc): rings of different sizes"
    tail -n 20 "$VIP_WORK/server.log" "$VIP_WORK/client.log"
    bad=1
fi
exit $bad
