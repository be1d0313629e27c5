# Start and stop vipd for ./demo and for tests. Sourced by bash.
#
#   daemons_begin [BIN]            a working folder ($WORK); BIN has vipd, vipperf, vipctl (or build tree)
#   daemon_start NAME ADDRESS PORT [CONFIG LINES...]   vipd with runtime dir $WORK/NAME; waits for it
#   daemon_stop NAME [SIGNAL]      stop it and wait for its end; the result is its exit status
#   daemon_again NAME WAY [PAUSE]  replace it by another vipd. WAY is takeover, or SIGKILL or SIGTERM (then the other one
#                                  starts PAUSE seconds later). With tests/lib/supervisor.py in DAEMON_AS, WAY is
#                                  `supervised` (the supervisor ends vipd in order) or `crashed` (vipd is killed)
#   daemon_takeover NAME           start another vipd in its place (vipd --takeover); waits for both
#   in_host NAME COMMAND...        run a command as a program of that host (VIPD_RUNTIME_DIR, namespace)
#   start_in NAME LOG COMMAND...   the same in the background, tracked; the command's own pid is in $STARTED
#   track PID                      stop this process at the end too
#   for_others BUILD PROGRAM...    copy the programs to $OTHERS: other users may have no access to the build tree
#   daemons_end                    stop everything that was started, by process id; remove $WORK
#
# Variables: NETNS_<NAME>: the network namespace of a host; DAEMON_NIC: the lines of the NIC, instead of UDP at ADDRESS
# and PORT; DAEMON_AS: a command in front of vipd; VIP_THREADS: [engine] threads of every vipd, which overrides the
# CONFIG LINES.

# shellcheck source=/dev/null
. "$(dirname "${BASH_SOURCE[0]}")/own.sh"

WORK=""
declare -A DAEMON_PID=()
TRACKED=()

# The CONFIG LINES of daemon_start belong to the NIC until one of them begins another section. Give
# all hosts the same port: then peers find a host by its address alone.
daemons_begin() {
    WORK=$(mktemp -d)
    VIPD=${VIPD:-$1/vipd}
}

host_prefix() {
    local var="NETNS_$1"
    if [ -n "${!var-}" ]; then
        printf "nsenter --net=/run/netns/%s" "${!var}"
    fi
}

in_host() {
    local name=$1
    shift
    # shellcheck disable=SC2046
    VIPD_RUNTIME_DIR=$WORK/$name $(host_prefix "$name") "$@"
}

# Not `in_host ... &`: $! would be the pid of a shell, which does not pass signals on to the command.
start_in() {
    local name=$1 log=$2
    shift 2
    : >"$log" # the caller must not read an older log of this name
    # shellcheck disable=SC2046
    VIPD_RUNTIME_DIR=$WORK/$name $(host_prefix "$name") "$@" >"$log" 2>&1 </dev/null &
    STARTED=$!
    track $STARTED
}

# How many vipd of NAME have been ready so far. Only the log shows when the next vipd is ready: a killed vipd leaves
# its socket behind, and a supervisor always listens.
daemon_lives() {
    touch "$WORK/$1.log"
    grep -c ' ready on ' "$WORK/$1.log"
}

# daemon_await NAME LIVES: wait until daemon_lives prints more than LIVES
daemon_await() {
    for _ in $(seq 1200); do
        [ "$(daemon_lives "$1")" -gt "$2" ] && return 0
        kill -0 "${DAEMON_PID[$1]}" 2>/dev/null || return 1
        sleep 0.05
    done
    return 1
}

# daemon_run NAME [OPTION...]: start the vipd of NAME with its configuration and these options.
daemon_run() {
    local name=$1 lives
    shift
    lives=$(daemon_lives "$name")
    # shellcheck disable=SC2046
    $(host_prefix "$name") ${DAEMON_AS-} "$VIPD" --config "$WORK/$name.conf" --runtime-dir "$WORK/$name" "$@" \
        >>"$WORK/$name.log" 2>&1 </dev/null &
    DAEMON_PID[$name]=$!
    daemon_await "$name" "$lives"
}

daemon_again() {
    local lives
    lives=$(daemon_lives "$1")
    case $2 in
    takeover)
        daemon_takeover "$1"
        return
        ;;
    supervised) kill -HUP "${DAEMON_PID[$1]}" && daemon_await "$1" "$lives" && return ;;
    crashed) kill -KILL "$(cat "$WORK/$1/vipd.lock")" && daemon_await "$1" "$lives" && return ;;
    *)
        daemon_stop "$1" "${2#SIG}"
        sleep "${3:-0}"
        daemon_run "$1" && return
        ;;
    esac
    echo "vipd $1 did not start again:" >&2
    cat "$WORK/$1.log" >&2
    return 1
}

daemon_takeover() {
    local before=${DAEMON_PID[$1]} answers
    for _ in $(seq 60); do
        answers=$(grep -c ' within 1 s' "$WORK/$1.log")
        if daemon_run "$1" --takeover; then
            wait "$before"
            return 0
        fi
        wait "${DAEMON_PID[$1]}"
        DAEMON_PID[$1]=$before
        # On a very busy machine the running vipd may not answer in time and goes on. Then try again.
        [ "$(grep -c ' within 1 s' "$WORK/$1.log")" -gt "$answers" ] || break
    done
    echo "no vipd took over from that of $1:" >&2
    cat "$WORK/$1.log" >&2
    return 1
}

daemon_start() {
    local name=$1 address=$2 port=$3 line
    shift 3
    mkdir -p "$WORK/$name"
    {
        if [ -n "${DAEMON_NIC-}" ]; then
            printf '[nic:vip0]\n%s\n' "$DAEMON_NIC"
        else
            printf '[nic:vip0]\nlink = udp\naddress = %s\nport = %s\n' "$address" "$port"
        fi
        for line in "$@"; do
            printf '%s\n' "$line"
        done
    } >"$WORK/$name.conf"
    if [ -n "${VIP_THREADS-}" ]; then # a drop-in, because the lines may have that section already
        mkdir -p "$WORK/$name.conf.d"
        printf '[engine]\nthreads = %s\n' "$VIP_THREADS" >"$WORK/$name.conf.d/threads.conf"
    fi
    # If vipd's packages are installed, a vipd that root starts would become user vipd, which cannot read $WORK.
    if [ "$(id -u)" -eq 0 ] && getent passwd vipd >/dev/null && ! grep -q '^user *=' "$WORK/$name.conf"; then
        mkdir -p "$WORK/$name.conf.d"
        printf '[daemon]\nuser = root\n' >"$WORK/$name.conf.d/user.conf"
    fi
    daemon_run "$name" && return 0
    echo "vipd $name on $address did not start:" >&2
    cat "$WORK/$name.log" >&2
    return 1
}

daemon_stop() {
    local pid=${DAEMON_PID[$1]-} status
    [ -n "$pid" ] || return 0
    # A test that fails may have left the process stopped. Continue it before the other signal, because a leak check at
    # the end of the process stops its threads.
    kill -CONT "$pid" 2>/dev/null
    kill -"${2:-TERM}" "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    status=$?
    unset "DAEMON_PID[$1]"
    return $status
}

# Copies our libraries, too; the copied programs find these first.
for_others() {
    local build=$1
    shift
    chmod 755 "$WORK"
    OTHERS=$WORK/others
    mkdir -p "$OTHERS"
    cp "$@" "$build"/libvipl/libvipl.so* "$OTHERS/" && chmod -R a+rX "$OTHERS" || return 1
    export LD_LIBRARY_PATH=$OTHERS${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

track() { TRACKED+=("$1"); }

daemons_end() {
    local pid name
    # A child of bash that has not started its program yet may run its parent's traps.
    [ "$BASHPID" = $$ ] || return
    for pid in ${TRACKED+"${TRACKED[@]}"}; do
        kill -CONT "$pid" 2>/dev/null # a test may have stopped it
        kill "$pid" 2>/dev/null
    done
    for pid in ${TRACKED+"${TRACKED[@]}"}; do
        wait "$pid" 2>/dev/null
    done
    TRACKED=()
    for name in "${!DAEMON_PID[@]}"; do
        daemon_stop "$name"
    done
    if [ -n "$WORK" ]; then
        rm -rf "$WORK"
        WORK=""
    fi
}
