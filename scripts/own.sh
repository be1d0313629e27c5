# Ports, seeds and folders that a test has for itself while other tests run. Sourced by bash.
#
#   port_take          sets $port: this port and the nine after it belong to this process, and to what it starts,
#                      until all of them have ended. Call it in the shell that uses the ports, not in $(...).
#   own_seed NAME      prints the seed of the test NAME. It follows from $VIP_SEED; without that, from the files of the
#                      tree, so that the same commit always gets the same seeds, and another commit other ones.
#   base_seed          prints the number from which these seeds follow: $VIP_SEED, or a number made of the tree
#   run_begin          one folder for a run of ./check: sets and exports $VIP_RUN and $TMPDIR; what is started from
#                      here on belongs to it. First removes what is left of runs that are dead.
#   run_note FILE LINE remembers in the run's folder something that is to be removed if the run dies
#   run_end            removes the folder and all that belongs to it
#
# A run is alive while ./check holds the lock of its folder. What belongs to a run: processes that have its VIP_RUN in
# their environment, namespaces noted in its file `namespaces`, file systems mounted below its folder.

# A daemon that aborts is a failure with a log; its core would be gigabytes of shared memory.
ulimit -c 0

PORTS_FIRST=20000 # to 31,999: below the ports that the kernel chooses itself
PORTS_STEP=10
PORTS_COUNT=1200

# Is a socket bound to one of the ports FIRST to FIRST + 9?
ports_busy() { # ports_busy FIRST
    local n ports=""
    for ((n = $1; n < $1 + PORTS_STEP; n++)); do
        ports+=$(printf '|%04X' $n)
    done
    grep -qE "^ *[0-9]+: [0-9A-F]+:(${ports#|}) " /proc/net/udp /proc/net/udp6 /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

port_take() {
    local dir=/tmp/vip-ports.$(id -u) n
    mkdir -p -m 700 "$dir" || return 1
    for ((n = 0; n < PORTS_COUNT; n++)); do
        port=$((PORTS_FIRST + n * PORTS_STEP))
        exec {PORT_LOCK}>"$dir/$port"
        flock -n "$PORT_LOCK" && ! ports_busy $port && return 0
        exec {PORT_LOCK}>&-
    done
    echo "all ports from $PORTS_FIRST on are taken" >&2
    return 1
}

base_seed() {
    local top tree
    if [ -n "${VIP_SEED-}" ]; then
        echo "$VIP_SEED"
        return
    fi
    top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
    tree=$(git -C "$top" rev-parse -q --verify 'HEAD^{tree}' 2>/dev/null) ||
        tree=$(find "$top" -name build -prune -o -name .git -prune -o -type f -print0 | sort -z |
            xargs -0 cat | sha1sum)
    echo $((16#${tree:0:8}))
}

own_seed() { printf '%s %s' "$(base_seed)" "$1" | cksum | cut -d ' ' -f 1; }

# Kill the processes of the run in FOLDER, but not this shell, until there is none.
run_kill() { # run_kill FOLDER
    local file pid found try
    for try in $(seq 100); do
        found=no
        for file in /proc/[0-9]*/environ; do
            pid=${file#/proc/}
            pid=${pid%/environ}
            [ "$pid" != $$ ] && [ "$pid" != "$BASHPID" ] || continue
            grep -qzxF "VIP_RUN=$1" "$file" 2>/dev/null || continue
            kill -KILL "$pid" 2>/dev/null && found=yes
        done
        [ $found = yes ] || return 0
        sleep 0.1
    done
    return 1
}

# Remove FOLDER and all that belongs to its run. The caller has the lock of FOLDER.
run_remove() { # run_remove FOLDER
    local name place
    run_kill "$1"
    while read -r name; do
        ip netns del "$name" 2>/dev/null
    done < <(cat "$1/namespaces" 2>/dev/null)
    while read -r place; do
        umount -l "$place"
    done < <(awk -v under="$1/" 'index($2, under) == 1 {print $2}' /proc/mounts | sort -r)
    rm -rf "$1"
}

# Descriptor 9 is the lock. Processes that ./check starts must not have it (9>&-): a daemon that is left over would keep
# the lock of a dead run.
run_begin() {
    local dir
    for dir in "${VIP_RUNS:-/tmp}"/vip-run.??????; do
        [ -O "$dir" ] && [ ! -L "$dir" ] && [ -e "$dir/lock" ] || continue
        exec 9<>"$dir/lock"
        if flock -n 9; then
            echo "Removing what an interrupted run left: $dir"
            run_remove "$dir"
        fi
        exec 9>&-
    done
    VIP_RUN=$(mktemp -d "${VIP_RUNS:-/tmp}/vip-run.XXXXXX") || return 1
    chmod 1777 "$VIP_RUN" # as /tmp is: programs of several users work in it
    exec 9<>"$VIP_RUN/lock"
    flock 9
    export VIP_RUN TMPDIR=$VIP_RUN
}

run_note() { # run_note FILE LINE
    [ -z "${VIP_RUN-}" ] || echo "$2" >>"$VIP_RUN/$1"
}

run_end() {
    [ -n "${VIP_RUN-}" ] || return 0
    run_remove "$VIP_RUN"
    exec 9>&-
}
