#!/usr/bin/env bash
# vipctl's commands with two vipd and traffic: tables, raw output, filters, JSON validated against
# schema/, exit codes, completions of three shells. Under traffic: reload with good and broken
# files, disconnect, drain. Also commands that an ordinary user may not use.
# usage: vipctl_verbs.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh
vipctl=$build/tools/vipctl
vipperf=$build/tools/vipperf
bad=0
VIPD=$build/vipd/vipd
daemons_begin
trap daemons_end EXIT
trap 'exit 130' INT TERM
mkdir "$WORK/json"

wrong() {
    echo "FAILED: $*"
    bad=1
}

# expect CODE TEXT COMMAND...: the command must end with CODE and print TEXT
expect() {
    local code=$1 text=$2 got
    shift 2
    "$@" >"$WORK/out" 2>"$WORK/err" </dev/null
    got=$?
    [ $got -eq "$code" ] || wrong "$* ended with $got instead of $code: $(cat "$WORK/out" "$WORK/err")"
    cat "$WORK/out" "$WORK/err" | grep -qF -- "$text" ||
        wrong "$* does not say \"$text\": $(cat "$WORK/out" "$WORK/err")"
}

# document CODE NAME COMMAND...: keep the command's JSON output for the schema NAME
document() {
    local code=$1 name=$2 got
    shift 2
    "$vipctl" --json "$@" >"$WORK/json/$name.json" 2>"$WORK/err" </dev/null
    got=$?
    [ $got -eq "$code" ] || wrong "--json $* ended with $got instead of $code: $(cat "$WORK/err")"
}

# until_true COMMAND...: wait until the command succeeds; fails after 60 s or more
until_true() {
    for _ in $(seq 600); do
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.1
    done
    wrong "in vain: $*"
}

# count VIEW FILTER...: the number of rows that pass
count() { "$vipctl" -rn show "$@" | grep -c .; }
some() { [ "$(count "$@")" -ge 1 ]; }
none() { [ "$(count "$@")" -eq 0 ]; }

# ---- two daemons and traffic -----------------------------------------------------------------

port_take || exit 1
daemon_start A 127.0.0.1 $port "[engine]" "spin = 50us" "[stats]" "vi_latency = yes" "[names]" "bee = 127.0.0.2:$port" &&
    daemon_start B 127.0.0.2 $port || exit 1
export VIPD_RUNTIME_DIR=$WORK/A

# [engine] cpus: vipd on the first allowed processor, and on a processor that does not exist.
cpu=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*\([0-9]*\).*/\1/p' /proc/self/status)
DAEMON_NIC="link = loop"
daemon_start C - - "[engine]" "cpus = $cpu" || exit 1
unset DAEMON_NIC
grep -qE "^Cpus_allowed_list:[[:space:]]*$cpu\$" "/proc/${DAEMON_PID[C]}/status" ||
    wrong "cpus: $(grep Cpus_ "/proc/${DAEMON_PID[C]}/status")"
daemon_stop C
sed -i 's/^cpus = .*/cpus = 1023/' "$WORK/C.conf"
expect 1 "[engine] cpus = 1023: Invalid argument; vipd may use $cpu" "$VIPD" --config "$WORK/C.conf" --runtime-dir "$WORK/C"

# Files of /proc and /sys of a well configured machine, for vipctl check.
sys=$WORK/sys
mkdir -p "$sys/proc/sys/net/core" "$sys/proc/sys/vm" "$sys/sys/devices/system/clocksource/clocksource0"
echo 16777216 >"$sys/proc/sys/net/core/rmem_max"
echo 16777216 >"$sys/proc/sys/net/core/wmem_max"
echo 65530 >"$sys/proc/sys/vm/max_map_count"
echo 1 >"$sys/proc/sys/vm/unprivileged_userfaultfd"
echo "0.10 0.10 0.10 1/100 1" >"$sys/proc/loadavg"
echo tsc >"$sys/sys/devices/system/clocksource/clocksource0/current_clocksource"
export VIPCTL_SYSROOT=$sys
expect 0 "0 warnings, 0 failures" "$vipctl" check
expect 0 "VIPD OK" "$vipctl" check --nagios
expect 0 "bee answers" "$vipctl" check --peer bee
echo 212992 >"$sys/proc/sys/net/core/rmem_max"
expect 7 "sysctl -w net.core.rmem_max=8388608" "$vipctl" check
expect 1 "VIPD WARNING - rmem_max" "$vipctl" check --nagios
expect 8 "does not answer" "$vipctl" check --peer 127.0.0.9:$port
document 8 check check --peer 127.0.0.9:$port
expect 2 "VIPD CRITICAL" "$vipctl" check --nagios --peer 127.0.0.9:$port
expect 2 "VIPD CRITICAL" env VIPD_RUNTIME_DIR="$WORK/nobody" "$vipctl" check --nagios

VIPD_RUNTIME_DIR=$WORK/B "$vipperf" serve >"$WORK/serve.log" 2>&1 </dev/null &
track $!
# Little traffic (one message at a time, blocking), so that the tested programs get processors.
"$vipperf" bw 127.0.0.2:$port --size 4096 --window 1 --wait block --duration 3600 >"$WORK/client.log" 2>&1 </dev/null &
client=$!
track $client
until_true some vi state=connected
until_true some vi 'tx_messages>100'

# ---- views -----------------------------------------------------------------------------------

for schema in schema/show-*.json; do
    view=${schema#schema/show-}
    view=${view%.json}
    document 0 "show-$view" show "$view"
    expect 0 "" "$vipctl" show "$view"
done
some conn state=established peer=127.0.0.2:$port || wrong "show conn: $("$vipctl" show conn)"
some peers name=bee state=up 'connections>0' || wrong "show peers: $("$vipctl" show peers)"
some limits limit=vis_per_uid 'used>0' || wrong "show limits: $("$vipctl" show limits)"
some config section=engine key=spin value=50us file="$WORK/A.conf" || wrong "show config"
some events kind=open program=vipperf || wrong "show events: $("$vipctl" show events)"
[ "$(VIPD_RUNTIME_DIR=$WORK/B "$vipctl" -rn -o kind show listen | head -n 1)" ] || wrong "show listen"
none vi state=connected pid=1 || wrong "a filter lets pass what it should not"
some vi "pid=$client" 'STATE!=idle' 'program~perf' || wrong "filters by heading, != and ~"
expect 0 "None of" "$vipctl" show vi pid=1
expect 2 'no column "colour"' "$vipctl" show vi colour=red
expect 2 "is no filter" "$vipctl" show vi connected
expect 2 "compare numbers" "$vipctl" show vi 'program>3'
expect 2 'no column "x"' "$vipctl" -o pid,x show vi
expect 2 "takes no filters" "$vipctl" show version a=b
expect 2 "takes no --nagios" "$vipctl" --nagios show vi
expect 2 "makes no sense" "$vipctl" ping bee --count 0
[ "$("$vipctl" -r -o pid,uid show clients | head -n 1)" = "pid	uid" ] || wrong "raw headings"
[ "$("$vipctl" -rn -o uid,pid show clients)" = "$(id -u)	$client" ] || wrong "raw cells in the wished order"
"$vipctl" --color always show nic | grep -q "$(printf '\033')" || wrong "no colours with --color always"
"$vipctl" show nic | grep -q "$(printf '\033')" && wrong "colours in a pipe"

# The tree: our client is below vip0, and its VIs are below the client.
document 0 tree --tree show clients
[ "$(jq -c ".nics[0].children[] | select(.pid == $client) | [.children[] | .state] | index(\"VIP_STATE_CONNECTED\") != null" \
    "$WORK/json/tree.json")" = true ] || wrong "the tree: $(head -c 500 "$WORK/json/tree.json")"
LC_ALL=C.UTF-8 "$vipctl" --tree show clients >"$WORK/out" || wrong "show clients --tree"
grep -q "^vip0 .*up" "$WORK/out" && grep -q "─[0-9]* vipperf\[$client\] .*VIs" "$WORK/out" &&
    grep -q "─VI [0-9]* .*connected .*127.0.0.2:$port" "$WORK/out" || wrong "the tree: $(cat "$WORK/out")"
expect 2 "--tree is for show clients" "$vipctl" --tree show vi

# ---- events ----------------------------------------------------------------------------------

# Make more events than a page of vipd's replies can have. The last line must be the latest event.
for _ in $(seq 400); do
    "$vipctl" resume >/dev/null || wrong "vipctl resume"
done
expect 5 "there is no connection" "$vipctl" disconnect 127.0.0.99
"$vipctl" show events >"$WORK/out" || wrong "show events"
[ "$(wc -l <"$WORK/out")" -ge 400 ] || wrong "show events: $(wc -l <"$WORK/out") lines"
tail -n 1 "$WORK/out" | grep -q "refused.*127.0.0.99" || wrong "the last event is: $(tail -n 1 "$WORK/out")"

# ---- explain ---------------------------------------------------------------------------------

vi=$("$vipctl" -rn -o client,vi show vi state=connected | head -n 1 | tr '\t' :)
expect 0 "connected with 127.0.0.2:$port" "$vipctl" explain vi "$vi"
expect 0 "posted to completed: half within " "$vipctl" explain vi "$vi"
# The percentiles of our client's sending VIs must be in order. (Vipd B measures no VIs.)
jq -e "[.vis[] | select(.pid == $client and .tx_messages > 0) | .recvq_empty >= 0 and .tx_packets > 0 and
        .post_to_wire_p50_ns > 0 and .wire_to_ack_p50_ns > 0 and .post_to_complete_p50_ns > 0 and
        .post_to_wire_p50_ns <= .post_to_wire_p99_ns and .post_to_wire_p99_ns <= .post_to_wire_max_ns and
        .wire_to_ack_p50_ns <= .wire_to_ack_p99_ns and .wire_to_ack_p99_ns <= .wire_to_ack_max_ns and
        .post_to_complete_p50_ns <= .post_to_complete_p99_ns and
        .post_to_complete_p99_ns <= .post_to_complete_max_ns] | length >= 1 and all" "$WORK/json/show-vi.json" >/dev/null ||
    wrong "percentiles of VIs: $(jq -c '.vis[0]' "$WORK/json/show-vi.json")"
VIPD_RUNTIME_DIR=$WORK/B "$vipctl" -j show vi | jq -e '[.vis[].post_to_complete_p99_ns] | length > 0 and all(. == null)' >/dev/null ||
    wrong "VIs are measured without [stats] vi_latency"
expect 0 "the window is" "$vipctl" explain peer bee
expect 0 "up, link udp" "$vipctl" explain nic vip0
expect 0 "post receives before" "$vipctl" explain error recvq_empty
expect 0 "VIP_NO_MATCH" "$vipctl" explain error 14
document 0 explain@vi explain vi "$vi"
document 0 explain@peer explain peer 127.0.0.2
document 0 explain@nic explain nic vip0
document 0 explain@error explain error VIP_ERROR_CONN_LOST
expect 5 "no VI 9:4000" "$vipctl" explain vi 9:4000
expect 2 "is no VI" "$vipctl" explain vi walls
expect 2 "is no VI" "$vipctl" explain vi 1:1x
expect 0 "came back unused" "$vipctl" explain error VIP_STATUS_DESC_FLUSHED_ERROR
expect 0 "longer than the posted receive" "$vipctl" explain error length_error
expect 5 "no connection with" "$vipctl" explain peer no-such-host.invalid
expect 5 "no NIC" "$vipctl" explain nic vip7
expect 5 "no code" "$vipctl" explain error VIP_NONSENSE
expect 2 "explain knows" "$vipctl" explain weather today

# ---- ping, top, monitor, metrics ---------------------------------------------------------------

expect 0 "2 answered" "$vipctl" ping bee -c 2 -i 0.01
document 0 ping ping 127.0.0.2:$port -c 1
grep -qE '"rtt_min_ns": [0-9]{4,}' "$WORK/json/ping.json" || wrong "a round trip takes no time: $(cat "$WORK/json/ping.json")"
expect 6 "0 answered" "$vipctl" ping 127.0.0.9:$port -c 1 -t 0.2
document 6 ping@silent ping 127.0.0.9:$port -c 1 -t 0.2
expect 0 "p50 us" "$vipctl" ping 127.0.0.2:$port --app -c 100
expect 5 "neither an address" "$vipctl" ping nowhere.invalid -c 1
expect 5 "no NIC" "$vipctl" ping bee --nic vip7
document 0 top@vi top -1 -i 0.2
document 0 top@peer top peer -c 2 -i 0.1
expect 0 "vipperf[" "$vipctl" top program --once -i 0.1
grep -q '"tx_bytes_per_s": [1-9]' "$WORK/json/top@vi.json" || wrong "top sees no traffic"
expect 2 "top shows vi" "$vipctl" top weather
if command -v script >/dev/null; then
    # top on a terminal must draw its screen, and the key q must end top.
    : >"$WORK/screen"
    (for _ in $(seq 600); do grep -q "vipctl top" "$WORK/screen" && break; sleep 0.1; done; printf q; sleep 1) |
        TERM=xterm timeout 600 script -qefc "'$vipctl' top -i 0.3" /dev/null >"$WORK/screen"
    grep -q "vipctl top" "$WORK/screen" || wrong "no screen of top"
fi
document 0 monitor monitor -c 2
expect 0 "open" "$vipctl" monitor -c 1
"$vipctl" metrics >"$WORK/metrics" || wrong "metrics"
[ "$(tail -n 1 "$WORK/metrics")" = "# EOF" ] || wrong "metrics do not end with # EOF"
grep -vE '^(# (TYPE|HELP|UNIT) [a-z_]+ .+|# EOF|[a-z0-9_]+(\{nic="[^"]+"(,(quantile|peer|name)="[^"]+")*\})? [0-9.]+)$' "$WORK/metrics" &&
    wrong "metrics have other lines than OpenMetrics"
[ "$(grep -c '^# TYPE' "$WORK/metrics")" -eq $(($(grep -cE '^VIP_(STAT|STAT_AS|LATENCY|PEER_STAT)\(' proto/stats.def) + 1)) ] ||
    wrong "metrics have not every statistic"
grep -qx "vipd_peer_up{nic=\"vip0\",peer=\"127.0.0.2:$port\",name=\"bee\"} 1" "$WORK/metrics" || wrong "metrics have no peer"
grep -q "^vipd_peer_tx_bytes{.*} [1-9]" "$WORK/metrics" || wrong "metrics have not what was sent to a peer"

# ---- statistics from the file vipd.stats --------------------------------------------------------

"$vipctl" -rn -o scope,name,kind,unit show stats >"$WORK/asked"
"$vipctl" -rn -o scope,name,kind,unit --mapped show stats >"$WORK/mapped" || wrong "show stats --mapped"
cmp "$WORK/asked" "$WORK/mapped" || wrong "the file has other statistics than vipd tells"
"$vipctl" metrics | sed 's/ [0-9.]*$//' | grep -v vipd_peer_ >"$WORK/asked" # the file has no peers
"$vipctl" --mapped metrics | sed 's/ [0-9.]*$//' | cmp - "$WORK/asked" || wrong "metrics --mapped"
document 0 show-stats@mapped --mapped show stats
until_true some stats name=post_to_complete_count 'value>100'
for name in post_to_wire wire_to_ack post_to_complete; do
    # Percentiles must not fall, and the largest value must not be below them.
    mapfile -t values < <("$vipctl" --mapped -rn -o value show stats name~${name}_)
    [ "${#values[@]}" -eq 7 ] || wrong "$name has ${#values[@]} statistics"
    [ "${values[0]}" -gt 0 ] && [ "${values[2]}" -le "${values[3]}" ] && [ "${values[3]}" -le "${values[4]}" ] &&
        [ "${values[4]}" -le "${values[5]}" ] && [ "${values[5]}" -le "${values[6]}" ] && [ "${values[6]}" -gt 0 ] ||
        wrong "$name: ${values[*]}"
done
expect 2 "for show stats" "$vipctl" --mapped show vi
# While vipd is stopped (SIGSTOP), vipctl must still be able to read the numbers in the file.
kill -STOP "${DAEMON_PID[A]}"
posts=$("$vipctl" --mapped -rn -o value show stats scope=nic:vip0 name=posts)
expect 6 "did not answer" "$vipctl" --timeout 0.2 show stats
kill -CONT "${DAEMON_PID[A]}"
[ "$posts" -gt 0 ] || wrong "no postings in the file of a vipd that stands still"
more_posts() { [ "$("$vipctl" --mapped -rn -o value show stats scope=nic:vip0 name=posts)" -gt "$posts" ]; }
until_true more_posts
if [ "$(id -u)" = 0 ] && [ -z "$(getent group via-stat)" ]; then
    [ "$(stat -c %a "$WORK/A/vipd.stats")" = 600 ] || wrong "vipd.stats has mode $(stat -c %a "$WORK/A/vipd.stats")"
fi
expect 3 "there is no" env VIPD_RUNTIME_DIR="$WORK/nobody" "$vipctl" --mapped show stats
mkdir "$WORK/foreign"
head -c 5000 /dev/urandom >"$WORK/foreign/vipd.stats"
expect 1 "is no statistics file" env VIPD_RUNTIME_DIR="$WORK/foreign" "$vipctl" --mapped show stats
# The file of a killed vipd: a copy whose pid belongs to no process.
cp "$WORK/A/vipd.stats" "$WORK/foreign/vipd.stats"
printf '\377\377\377\177\000\000\000\000' | dd of="$WORK/foreign/vipd.stats" bs=1 seek=56 conv=notrunc status=none
expect 0 "is gone" env VIPD_RUNTIME_DIR="$WORK/foreign" "$vipctl" --mapped show stats name=posts

# ---- the exporter ------------------------------------------------------------------------------------

"$build/tools/vipd-exporter" --listen 127.0.0.1:0 >"$WORK/exporter" 2>&1 </dev/null &
exporter=$!
track $exporter
until_true grep -q "listening on port" "$WORK/exporter"
http=$(sed -n 's/listening on port //p' "$WORK/exporter")
get() { # get METHOD PATH
    exec 9<>"/dev/tcp/127.0.0.1/$http" || return
    printf '%s %s HTTP/1.0\r\n\r\n' "$1" "$2" >&9
    cat <&9
    exec 9>&-
}
get GET /metrics >"$WORK/page"
grep -q '^vipd_up 1' "$WORK/page" || wrong "the exporter: $(head -n 20 "$WORK/page")"
grep -q '^vipd_nic_tx_packets_total{nic="vip0"} [1-9]' "$WORK/page" || wrong "the exporter tells no packets"
[ "$(grep -c '^# TYPE' "$WORK/page")" -eq $(($(grep -cE '^VIP_(STAT|STAT_AS|LATENCY|PEER_STAT)\(' proto/stats.def) + 3)) ] || wrong "the exporter: metrics"
[ "$(tail -n 1 "$WORK/page")" = "# EOF" ] || wrong "the exporter: no # EOF"
get GET /other | grep -q ' 404 ' || wrong "the exporter: another path"
get POST /metrics | grep -q ' 405 ' || wrong "the exporter: POST"
expect 2 "want ADDRESS:PORT" "$build/tools/vipd-exporter" --listen nowhere
kill $exporter
wait $exporter || wrong "the exporter ended with $?"

# ---- reload: good, broken, good again; the connection goes on ---------------------------------------

before=$("$vipctl" -rn -o client,vi,peer show vi state=connected)
cp "$WORK/A.conf" "$WORK/good.conf"
sed -i 's/spin = 50us/spin = 60us/; s/^port = .*/port = 4711/' "$WORK/A.conf"
expect 0 "Nothing has been changed" "$vipctl" reload --dry-run
some config key=spin value=50us || wrong "a dry run has changed something"
document 0 reload@dry reload --dry-run
expect 0 "live: in force now" "$vipctl" reload
grep -q "restart: when vipd is started again" "$WORK/out" || wrong "reload does not say what waits"
some config key=spin value=60us || wrong "spin is not live"
some config key=port value=$port pending=4711 || wrong "port is not pending: $("$vipctl" config show)"
expect 0 "wait" "$vipctl" show summary
document 0 reload@diff config diff
echo "spun = 1us" >>"$WORK/A.conf"
expect 1 "$WORK/A.conf:" "$vipctl" reload
document 1 reload@broken reload
some config key=spin value=60us || wrong "a broken file has changed something"
cp "$WORK/good.conf" "$WORK/A.conf"
kill -HUP "${DAEMON_PID[A]}"
until_true some config key=spin value=50us
some config pending=4711 && wrong "what is as it was still waits for a restart"
[ "$("$vipctl" -rn -o client,vi,peer show vi state=connected)" = "$before" ] ||
    wrong "a reload changed the connections"
sent=$("$vipctl" -rn -o tx_messages show peers name=bee)
until_true some peers name=bee "tx_messages>$sent"
expect 0 "$WORK/A.conf" "$vipctl" config show
expect 0 "turn_packets" "$vipctl" config show --defaults
expect 0 "good, 1 NIC" "$vipctl" config check "$WORK/A.conf"
printf '[engine]\nspin = 1\n' >"$WORK/broken.conf"
expect 1 "$WORK/broken.conf:2:" "$vipctl" config check "$WORK/broken.conf"
expect 2 "usage" "$vipctl" config dance
# Without a file argument, vipctl checks the running vipd's own file.
expect 0 "$WORK/A.conf: good" "$vipctl" config check

# ---- permissions --------------------------------------------------------------------------------

if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
    chmod 755 "$WORK" "$WORK/A"
    cp "$vipctl" "$WORK/vipctl" && chmod 755 "$WORK/vipctl"
    as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$WORK/vipctl" "$@"; }
    expect 4 "may not reload" as_nobody reload
    expect 4 "admin_group" as_nobody drain
    expect 4 "may not disconnect" as_nobody disconnect bee
    expect 0 "There is no peer" as_nobody show peers
fi

expect 1 "is not a service of systemd" "$vipctl" restart

# ---- drain, disconnect ---------------------------------------------------------------------------

expect 6 "still open" "$vipctl" drain --wait -t 0.3
document 0 admin@drain drain
expect 1 "drained" "$vipperf" lat 127.0.0.2:$port --size 64
expect 0 "can be opened again" "$vipctl" resume
expect 5 "no VI" "$vipctl" disconnect 4000
expect 5 "no connection with" "$vipctl" disconnect 192.0.2.1
expect 5 "neither an address" "$vipctl" disconnect nowhere.invalid
document 0 admin@peer disconnect bee
grep -q "disconnect peer bee asked for by uid $(id -u) (vipctl, pid " "$WORK/A.log" || wrong "the log does not say who disconnected whom"
some events kind=admin key=disconnect 'text=peer bee' || wrong "events do not say who was disconnected"
# A wrong word on a command line must not count as an error of the machine.
"$vipctl" check | grep -q 'errors .*VIP_INVALID_PARAMETER' && wrong "check warns of words that were refused: $("$vipctl" check)"
grep -q '"connections_ended": [1-9]' "$WORK/json/admin@peer.json" || wrong "disconnect ended nothing"
until_true some errors key=VIP_ERROR_CONN_LOST 'text~administrator'
document 0 show-errors@some show errors
wait $client && wrong "vipperf did not notice that its connection was ended"

# vipctl check must report a host that no longer answers, although no argument names the host.
start_in A "$WORK/silent.log" "$vipperf" bw 127.0.0.2:$port --size 4096 --duration 600
until_true some peers name=bee state=up 'connections>0'
kill -STOP "${DAEMON_PID[B]}"
until_true sh -c "'$vipctl' check | grep -qE '^WARN +peer +127.0.0.2:$port is (silent|lost)'"
kill -CONT "${DAEMON_PID[B]}"
until_true none peers state=silent

# ---- completions, support, schemas ------------------------------------------------------------------

for shell in bash zsh fish; do
    expect 0 "vipctl" "$vipctl" completion $shell
    cp "$WORK/out" "$WORK/completion.$shell"
    for verb in $("$vipctl" --help | sed -n '/^Commands/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
        grep -qw "$verb" "$WORK/completion.$shell" || wrong "$shell completes no $verb"
    done
    if command -v $shell >/dev/null; then
        $shell -n "$WORK/completion.$shell" || wrong "$shell does not understand its completion"
    fi
done
expect 2 "not for" "$vipctl" completion csh
complete_bash() { # complete_bash WORD...: print bash's completions of the last word
    # shellcheck disable=SC2034
    (PATH=$build/tools:$PATH && . "$WORK/completion.bash" && COMP_WORDS=(vipctl "$@") && COMP_CWORD=$# &&
        _vipctl && printf '%s\n' "${COMPREPLY[@]}")
}
[ "$(complete_bash dis)" = disconnect ] || wrong "bash: a verb"
[ "$(complete_bash show cl)" = clients ] || wrong "bash: a view"
[ "$(complete_bash explain nic v)" = vip0 ] || wrong "bash: a NIC, asked of vipd"
complete_bash check --n | grep -qx -- --nagios || wrong "bash: an option"
[ "$(complete_bash check --j -x --dry)" = "" ] || wrong "bash: an option that check does not have"

expect 0 "$WORK/report.tgz" "$vipctl" support "$WORK/report.tgz"
tar -xzf "$WORK/report.tgz" -C "$WORK"
for part in system.txt check.txt metrics.txt config.json show-vi.json show-errors.json; do
    [ -s "$WORK/vipd-support/$part" ] || wrong "support has no $part"
done
grep -qE '"(address|handle)":' "$WORK/vipd-support/show-mem.json" && wrong "support tells addresses of memory"
expect 3 "no vipd on" env VIPD_RUNTIME_DIR="$WORK/nobody" "$vipctl" support "$WORK/without.tgz"
[ -s "$WORK/without.tgz" ] || wrong "support writes nothing without a vipd"

python3 tests/tools/schema.py schema "$WORK/json" || wrong "documents and schemas"

[ $bad -eq 0 ] && echo "vipctl: verbs, filters, schemas, exit codes, completions"
exit $bad
