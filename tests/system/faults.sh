#!/usr/bin/env bash
# Real faults while checked programs (tests/lib/churn.c) run: programs and vipd are killed at random
# points, or stopped and continued; vipd is restarted; the link goes down, its address is removed;
# vipd or programs reach limits of descriptors and memory; a disk is full.
#
# The programs themselves check bytes, codes, states and progress. This script checks that work goes
# on within LIMIT_S after each fault. When the programs have ended, all gauges of vipctl must have
# their old values: sessions, VIs, CQs, regions, connections, held packets, descriptors, memory.
# usage: faults.sh BUILD_DIR [ROUNDS [SEED [CASE...]]]      long form: faults.sh build/dev 50
# With VIP_LOANS=eager, the programs run the data paths of their connections themselves (loans).
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
rounds=${2:-1}
. scripts/daemons.sh
seed=${3:-$(own_seed faults)}
. tests/lib/namespaces.sh
. tests/system/faults_lib.sh

trap 'faults_end; namespaces_end' EXIT
trap 'exit 130' INT TERM
echo "seed $seed"
RANDOM=$seed

# vipd ends a connection after 2 s of silence. So an outage of 0.6 s (short_s) must end none.
settings=("[reliability]" "peer_dead = 2s" "keepalive = 500ms" "conn_timeout = 2s"
    "accept_timeout = 1500ms" "[daemon]" "log_level = debug")
if [ -n "${VIP_LOANS-}" ]; then
    settings+=("[engine]" "loan = auto")
    export VIPL_LOAN=$VIP_LOANS
fi
short_s=0.6
long_s=2.8

faults_begin

# ---- programs ---------------------------------------------------------------------------------

programs_killed() {
    local i which
    for ((i = 0; i < 8; i++)); do
        which=$((RANDOM % 4))
        sleep ".$((RANDOM % 3))$((RANDOM % 10))"
        kill -KILL "${PROGRAM_PID[$which]}"
        wait "${PROGRAM_PID[$which]}" 2>/dev/null
        program_start $which
    done
    goes_on
}

programs_stopped() {
    local which
    cuts_begin
    for which in 0 3; do
        kill -STOP "${PROGRAM_PID[$which]}"
        sleep $short_s
        kill -CONT "${PROGRAM_PID[$which]}"
        goes_on
    done
    no_cuts
    # The stop is longer than every limit. The stopped program may lose its connection, if vipd
    # needs the program to place bytes in memory. Nothing else may fail.
    kill -STOP "${PROGRAM_PID[1]}"
    sleep $long_s
    kill -CONT "${PROGRAM_PID[1]}"
    goes_on
}

# ---- daemons ----------------------------------------------------------------------------------

vipd_stopped() {
    cuts_begin
    kill -STOP "${DAEMON_PID[B]}"
    sleep $short_s
    kill -CONT "${DAEMON_PID[B]}"
    goes_on
    no_cuts
    kill -STOP "${DAEMON_PID[B]}"
    sleep $long_s
    told 2 # programs on B itself only waited longer
    kill -CONT "${DAEMON_PID[B]}"
    goes_on
}

vipd_killed() { # at a random point; the next vipd has another epoch
    local host
    for host in B A; do
        cuts_begin
        sleep ".$((RANDOM % 3))$((RANDOM % 10))"
        daemon_stop $host KILL
        told 2 3
        faults_daemon $host
        goes_on
    done
}

vipd_terminated() {
    cuts_begin
    daemon_stop B TERM
    told 2 3
    faults_daemon B
    goes_on
}

everything_killed() {
    local i
    for ((i = 0; i < PROGRAMS; i++)); do
        kill -KILL "${PROGRAM_PID[$i]}"
        [ $i -ne $((RANDOM % PROGRAMS)) ] || daemon_stop A KILL
    done
    daemon_stop B KILL
    daemon_stop A KILL
    for ((i = 0; i < PROGRAMS; i++)); do
        wait "${PROGRAM_PID[$i]}" 2>/dev/null
    done
    faults_daemon A
    faults_daemon B
    for ((i = 0; i < PROGRAMS; i++)); do
        program_start $i
    done
    goes_on
}

# ---- network ----------------------------------------------------------------------------------

link_down() {
    cuts_begin
    in_namespace "$NS_A" ip link set "va$$" down
    sleep $short_s
    in_namespace "$NS_A" ip link set "va$$" up
    goes_on
    no_cuts
    in_namespace "$NS_A" ip link set "va$$" down
    sleep $long_s
    told 2 3
    in_namespace "$NS_A" ip link set "va$$" up
    goes_on
}

address_removed() {
    cuts_begin
    in_namespace "$NS_A" ip addr del 10.77.0.1/24 dev "va$$"
    sleep $short_s
    in_namespace "$NS_A" ip addr add 10.77.0.1/24 dev "va$$"
    goes_on
    no_cuts
    in_namespace "$NS_A" ip addr del 10.77.0.1/24 dev "va$$"
    sleep $long_s
    told 2 3
    in_namespace "$NS_A" ip addr add 10.77.0.1/24 dev "va$$"
    goes_on
}

# ---- limits -----------------------------------------------------------------------------------

# vipd may open no more descriptors. Connections must stay, and new programs must get the reason.
vipd_descriptors() {
    local have used
    pair_hold
    have=$(find "/proc/${DAEMON_PID[B]}/fd" -mindepth 1 | wc -l)
    prlimit --pid "${DAEMON_PID[B]}" --nofile="$have:"
    used=$(processor_ms "${DAEMON_PID[B]}")
    opens_refused B 'descriptor|open files|closed the connection'
    sleep 0.5
    used=$(($(processor_ms "${DAEMON_PID[B]}") - used))
    [ $used -lt 400 ] || failed "vipd used $used ms of processor time without descriptors"
    pair_holds
    prlimit --pid "${DAEMON_PID[B]}" --nofile="$(ulimit -Hn):"
    pair_leaves
    # The same while programs start, end and work.
    have=$(find "/proc/${DAEMON_PID[B]}/fd" -mindepth 1 | wc -l)
    prlimit --pid "${DAEMON_PID[B]}" --nofile="$have:"
    sleep 1
    prlimit --pid "${DAEMON_PID[B]}" --nofile="$(ulimit -Hn):"
    goes_on
}

# The kernel counts descriptors that a user has sent and no process has received. If there are more
# of them than vipd may open, vipd can send no descriptor. Then new programs must get the reason.
descriptors_unread() {
    local have flood
    pair_hold
    have=$(find "/proc/${DAEMON_PID[B]}/fd" -mindepth 1 | wc -l)
    start_in B "$WORK/unread.log" "$build/tests/system/unread" $((have + 400))
    flood=$STARTED
    await_line "$WORK/unread.log" '^unread'
    prlimit --pid "${DAEMON_PID[B]}" --nofile="$((have + 100)):"
    opens_refused B 'unread in sockets'
    kill $flood
    wait $flood 2>/dev/null
    opens_or_says_why "after descriptors were unread" env VIPD_RUNTIME_DIR="$WORK/B"
    grep -q '^blocked' "$WORK/open.log" || failed "nothing is unread any more: $(cat "$WORK/open.log")"
    pair_holds
    prlimit --pid "${DAEMON_PID[B]}" --nofile="$(ulimit -Hn):"
    pair_leaves
    goes_on
}

program_descriptors() {
    local n
    for n in 3 4 5 6 8 10 12 16; do
        opens_or_says_why "with $n descriptors" prlimit --nofile=$n
    done
}

# vipd and libvipl lock no memory, so everything must work with a limit of 0 for locked memory.
memory_locked() {
    local was
    was=$(prlimit --pid "${DAEMON_PID[B]}" --memlock --output SOFT --noheadings)
    prlimit --pid "${DAEMON_PID[B]}" --memlock=0:
    program_stop 0
    PROGRAM_PREFIX="prlimit --memlock=0:0" program_start 0
    goes_on
    prlimit --pid "${DAEMON_PID[B]}" --memlock="$was:"
}

# vipd can get no more memory, first with an idle connection, then while programs work.
vipd_memory() {
    local have
    pair_hold
    have=$(memory_of B memory_mapped)
    prlimit --pid "${DAEMON_PID[B]}" --as="$have:"
    opens_refused B 'cannot|memory'
    pair_holds
    prlimit --pid "${DAEMON_PID[B]}" --as=unlimited:
    pair_leaves
    goes_on
    prlimit --pid "${DAEMON_PID[B]}" --as="$(memory_of B memory_mapped):"
    sleep 1
    prlimit --pid "${DAEMON_PID[B]}" --as=unlimited:
    goes_on
}

program_memory() {
    local mib
    for mib in 16 64 300 5000; do
        opens_or_says_why "with $mib MiB of address space" prlimit --as=$((mib << 20))
    done
}

# ---- disks ------------------------------------------------------------------------------------

log_full() {
    head -c 10M /dev/zero >"$WORK/small/fill" 2>/dev/null
    goes_on
    program_stop 1
    program_start 1
    goes_on
    rm "$WORK/small/fill"
    program_stop 1
    program_start 1
    goes_on
    await_line "$WORK/small/B.log" ' opened vip0'
}

# A vipd that starts in a directory without room must report this and end. With room vipd must
# start. A later vipd in the same directory needs no more room.
runtime_full() {
    local dir=$WORK/small/run config=$WORK/small.conf what
    printf '[nic:vip0]\nlink = loop\n' >"$config"
    for what in bytes inodes; do
        if [ $what = bytes ]; then
            mkdir -p "$dir"
            head -c 10M /dev/zero >"$WORK/small/fill" 2>/dev/null
        else
            rm -rf "$dir"
            seq -f "$WORK/small/inode-%g" 1000 | xargs touch 2>/dev/null
        fi
        timeout 60 "$VIPD" --config "$config" --runtime-dir "$dir" >"$WORK/run.log" 2>&1
        [ $? -eq 1 ] && grep -q "$dir.*No space left" "$WORK/run.log" ||
            failed "vipd without room for $what in its runtime directory: $(cat "$WORK/run.log")"
        rm -f "$WORK/small/fill" "$WORK"/small/inode-*
    done
    for _ in empty full; do
        : >"$WORK/run.log" # await_line must not find the line of the vipd before
        "$VIPD" --config "$config" --runtime-dir "$dir" >"$WORK/run.log" 2>&1 &
        what=$!
        track $what
        await_line "$WORK/run.log" ' ready on '
        kill $what
        wait $what || failed "vipd ended with status $?"
        head -c 10M /dev/zero >"$WORK/small/fill" 2>/dev/null
    done
    rm -rf "$dir" "$WORK/small/fill"
}

# After a vipd is killed, the other vipd repeats its CLOSE messages for 20 s, and keeps memory for
# this. The cases that kill a vipd come first, so at the end this memory is free.
cases=(vipd_killed everything_killed vipd_terminated programs_killed programs_stopped vipd_stopped
    link_down address_removed vipd_descriptors descriptors_unread program_descriptors memory_locked
    vipd_memory program_memory log_full runtime_full)
[ $# -le 3 ] || cases=("${@:4}")
for ((round = 1; round <= rounds; round++)); do
    for name in "${cases[@]}"; do
        case $name in
        link_down | address_removed) [ -n "${NETNS_A-}" ] || continue ;;
        vipd_memory | program_memory) [ -z "$sanitized" ] || continue ;;
        log_full | runtime_full) [ -n "$small" ] || continue ;;
        esac
        fault "$name"
    done
done
everything_forgotten
if [ -n "${VIP_LOANS-}" ]; then
    current="loans"
    for host in A B; do
        [ "$(counter $host loans_lent)" -gt 0 ] || failed "vipd $host has lent no connection"
    done
fi
[ $bad -eq 0 ] && echo "faults: every case came back to where it began"
exit $bad
