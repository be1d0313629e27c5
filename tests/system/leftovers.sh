#!/usr/bin/env bash
# A killed run of ./check leaves processes, namespaces, mounted file systems and files. The next run
# must remove them, and must not touch those of a run that has not ended (scripts/own.sh). No two
# tests may get the same port or seed.
# usage: leftovers.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh
trap daemons_end EXIT
trap 'exit 130' INT TERM
daemons_begin "$build/vipd"
bad=0
wrong() {
    echo "FAILED: $*"
    bad=1
}
until_there() { # until_there FILE
    for _ in $(seq 1200); do
        [ -s "$1" ] && return 0
        sleep 0.05
    done
    wrong "nothing in $1"
    return 1
}
export VIP_RUNS=$WORK/runs
mkdir "$VIP_RUNS"

# A run, as of ./check, with a vipd and, if this user may make them, a namespace and a file system.
cat >"$WORK/run.sh" <<'RUN'
. scripts/daemons.sh
. tests/lib/namespaces.sh
run_begin >"$2.said" || exit 1
namespaces_begin >/dev/null 9>&-
daemons_begin "$1/vipd" 9>&-
DAEMON_NIC="link = loop" daemon_start A - - 9>&- || exit 1
mkdir "$VIP_RUN/small"
mount -t tmpfs tmpfs "$VIP_RUN/small" 2>/dev/null
printf '%s\n' "$VIP_RUN" "${DAEMON_PID[A]}" "$NS_A" >"$2.new"
mv "$2.new" "$2"
read -r _ <"$3"
daemons_end
namespaces_end
run_end
RUN
run() { # run NAME: sets pid
    mkfifo "$WORK/$1.go"
    # `<>` opens the fifo for reading and writing. With `<` the open itself would wait for a writer.
    env -u VIP_RUN bash "$WORK/run.sh" "$build" "$WORK/$1" "$WORK/$1.go" 2>"$WORK/$1.err" <>"$WORK/$1.go" &
    pid=$!
    track $pid
    until_there "$WORK/$1" || { cat "$WORK/$1.err"; exit 1; }
}
read_of() { mapfile -t "$1" <"$WORK/$1"; }
alive() { [ "$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -c 1 | tr -d Z)" ]; } # a zombie counts as dead
there() { # there DIR VIPD NAMESPACE
    [ -d "$1" ] && alive "$2" && { [ $namespaces = no ] || [ -e "/run/netns/$3" ]; }
}
gone() { [ ! -e "$1" ] && ! alive "$2" && [ ! -e "/run/netns/$3" ] && ! grep -q " $1/" /proc/mounts; }

run killed
namespaces=no # yes if this user may make namespaces here
[ ! -e "/run/netns/$(sed -n 3p "$WORK/killed")" ] || namespaces=yes
read_of killed
kill -KILL "$pid"
wait "$pid" 2>/dev/null
there "${killed[@]}" || wrong "the killed run has left nothing: ${killed[*]}"
run next
next_pid=$pid
read_of next
grep -qF "Removing what an interrupted run left: ${killed[0]}" "$WORK/next.said" || wrong "the next run says: $(cat "$WORK/next.said")"
gone "${killed[@]}" || wrong "something of the killed run is left: ${killed[*]}: $(ls "${killed[0]}" 2>&1)"
run beside
read_of beside
there "${next[@]}" || wrong "a run that is alive has lost something: ${next[*]}"
[ -s "$WORK/beside.said" ] && wrong "beside it another one says: $(cat "$WORK/beside.said")"
echo >"$WORK/next.go"
wait $next_pid || wrong "the run ended with status $?"
gone "${next[@]}" || wrong "a run that ended has left something: ${next[*]}"
there "${beside[@]}" || wrong "the end of a run has taken something from another: ${beside[*]}"
echo >"$WORK/beside.go"
wait "$pid" || wrong "the run beside it ended with status $?"

# No two processes have one port at the same time. When a process has ended, its port is free again.
ports() { bash -c '. scripts/own.sh; port_take && echo "$port"; read -r _' <"$1"; }
mkfifo "$WORK/hold"
for i in 1 2 3; do
    ports "$WORK/hold" >"$WORK/port.$i" &
    track $!
done
exec 8<>"$WORK/hold"
for i in 1 2 3; do
    until_there "$WORK/port.$i"
done
[ "$(cat "$WORK"/port.? | sort -u | wc -l)" -eq 3 ] || wrong "ports are taken twice: $(cat "$WORK"/port.?)"
printf '\n\n\n' >&8

# A test has the same seed each time in one run. Other tests and other runs have other seeds.
[ "$(VIP_SEED=5 own_seed a)" = "$(VIP_SEED=5 own_seed a)" ] || wrong "a seed does not repeat"
[ "$(VIP_SEED=5 own_seed a)" != "$(VIP_SEED=5 own_seed b)" ] || wrong "two tests have one seed"
[ "$(VIP_SEED=5 own_seed a)" != "$(VIP_SEED=6 own_seed a)" ] || wrong "two runs have one seed"
[ -n "$(VIP_SEED='' base_seed)" ] && [ "$(VIP_SEED='' base_seed)" = "$(VIP_SEED='' base_seed)" ] || wrong "the tree gives no seed"
[ $bad -eq 0 ] && echo "leftovers: a killed run leaves nothing for the next one"
exit $bad
