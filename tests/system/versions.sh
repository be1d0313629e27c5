#!/usr/bin/env bash
# Upgrade and downgrade of vipd under traffic. At both ends of a connection vipd is ended by SIGKILL
# or SIGTERM. The next vipd is by turns the vipd of an earlier commit and the present vipd. No
# message may be lost, come twice or out of order. The programs use the present libvipl. In a second
# part the server uses the libvipl of the earlier commit, as a program that runs during an upgrade
# does. The earlier vipd knows no loans: after a vipd that was killed while a connection was on loan,
# it cannot go on. So in these parts the programs do not ask for loans. In a third part they do, and
# only SIGTERM ends a vipd that the earlier one follows (doc/operations.md, Upgrades). The script
# builds the earlier commit from this repository.
# usage: versions.sh BUILD_DIR [COMMIT [TIMES]]
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
# The first commit whose connections outlive both ends of vipd, with shared-memory ABI 4.
commit=${2:-0d1154f}
times=${3:-3}
. scripts/daemons.sh
. tests/lib/failed.sh
. tests/lib/outlive.sh
outlive=$build/tests/system/outlive
present=$build/vipd/vipd
VIPD=$present
if ! git rev-parse --verify --quiet "$commit^{commit}" >/dev/null 2>&1; then
    echo "skipped: commit $commit is not in the history here (no repository, or a shallow one)"
    exit 77
fi
trap daemons_end EXIT
trap 'exit 130' INT TERM
daemons_begin

mkdir "$WORK/source"
git archive "$commit" | tar -x -C "$WORK/source" || failed "git archive $commit"
cmake -S "$WORK/source" -B "$WORK/built" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DVIP_TESTS=OFF \
    >"$WORK/build.log" 2>&1 &&
    cmake --build "$WORK/built" --target vipd/vipd libvipl/libvipl.so >>"$WORK/build.log" 2>&1 ||
    failed "vipd of $commit cannot be built"
earlier=$WORK/built/vipd/vipd
cat >"$WORK/with_earlier" <<END
#!/bin/sh
LD_LIBRARY_PATH=$WORK/built/libvipl exec "$outlive" "\$@"
END
chmod +x "$WORK/with_earlier"

runs() { [ "$(readlink "/proc/${DAEMON_PID[$1]}/exe")" = "$(realpath "$2")" ]; }

# one NAME [WORDS]: while one connection works, each host changes its version many times. In a round
# each version of one host meets each version of the other host. WORDS: of both programs; then no
# earlier vipd follows one that was killed.
one() {
    local name=$1 words=${2-} i way how next host
    outlive_begin "$words" "$words" || failed "$name: $WRONG"
    for i in $(seq "$times"); do
        for way in SIGKILL SIGTERM; do
            for next in "$earlier" "$present"; do
                for host in A B; do
                    VIPD=$next
                    how=$way
                    [ -z "$words" ] || [ "$next" = "$present" ] || how=SIGTERM
                    outlive_again $host $how || failed "$name, $i: ${next#"$WORK/"}: $WRONG"
                    runs $host "$next" || failed "$name: host $host does not run $next"
                done
            done
        done
    done
}

port_take || exit 1
declare -A address=([A]=127.0.0.1 [B]=127.0.0.2)
settings=("[reliability]" "outlive = 20s")
for host in A B; do
    daemon_start $host "${address[$host]}" "$port" "${settings[@]}" || exit 1
done
export VIPL_LOAN=0
one "the present libvipl"
outlive_finish || failed "the present libvipl: $WRONG"
echo "the present libvipl: $(tail -n 1 "$WORK/client.log")"
outlive_server=$WORK/with_earlier
one "a server with the earlier libvipl"
grep -q "$WORK/built/libvipl" "/proc/$OUTLIVE_SERVER/maps" || failed "the server has not loaded the earlier libvipl"
outlive_finish || failed "a server with the earlier libvipl: $WRONG"
echo "a server with the earlier libvipl: $(tail -n 1 "$WORK/client.log")"
unset outlive_server VIPL_LOAN
one "loans" poll
loans_lent() {
    VIPD_RUNTIME_DIR=$WORK/A "$build/tools/vipctl" show stats name~loans_lent |
        awk '$2 == "loans_lent" { print $3 }'
}
for _ in $(seq 1200); do
    [ "$(loans_lent)" -gt 0 ] && break
    sleep 0.05
done
[ "$(loans_lent)" -gt 0 ] || failed "loans: the present vipd lends nothing"
outlive_finish || failed "loans: $WRONG"
echo "loans: $(tail -n 1 "$WORK/client.log")"
echo "versions: vipd of $commit and the present one took turns under traffic; all messages arrived, once and in order"
