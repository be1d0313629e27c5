#!/usr/bin/env bash
# examples/hello.c says hello. Run by two_vipd.sh. usage: hello.sh PROGRAM
set -u
VIPD_RUNTIME_DIR=$VIPD_RUNTIME_DIR_B timeout 20 "$1" >"$VIP_WORK/greeting" &
server=$!
VIPD_RUNTIME_DIR=$VIPD_RUNTIME_DIR_A
export VIPD_RUNTIME_DIR
# The client gets VIP_NO_MATCH if the server does not wait yet. Then try again.
for _ in $(seq 100); do
    if timeout 10 "$1" "$VIP_ADDRESS_B"; then
        wait "$server" || exit 1
        cat "$VIP_WORK/greeting"
        grep -qx "Hello, VI world!" "$VIP_WORK/greeting"
        exit
    fi
    sleep 0.1
done
kill "$server"
exit 1
