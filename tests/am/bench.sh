#!/usr/bin/env bash
# A short run of am_contend (bench/am). Every kind of server must answer every client, also when
# clients share one connection. `bench/run am` must be able to read the output. Run by two_vipd.sh.
# usage: bench.sh BUILD_DIR
set -u
build=$1
bad=0
names="answers connects jain least live_max most "

for server in one own threads; do
    for limit in 512 1; do
        # shellcheck disable=SC2016
        said=$(timeout 600 "$build/tools/amrun" -n 4 sh -c '[ "$PMI_RANK" != 0 ] || export VIPAM_CONNECTIONS='$limit'
            exec "$@"' sh "$build/bench/am/am_contend" $server 0.1) || bad=1
        if [ "$(cut -d' ' -f1 <<<"$said" | sort | tr '\n' ' ')" != "$names" ] ||
            ! awk '$1 == "live_max" && $2 > '$limit' { exit 1 }' <<<"$said"; then
            echo "FAILED: $server, at most $limit connections: $said"
            bad=1
        fi
    done
done
exit $bad
