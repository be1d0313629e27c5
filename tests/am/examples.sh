#!/usr/bin/env bash
# The examples of examples/am as jobs over two vipd. Run by two_vipd.sh.
# usage: examples.sh BUILD_DIR
set -u
build=$1
here=$(dirname "$0")
bad=0

run() { # run SIZE EXAMPLE [ARGUMENT...]
    local size=$1 example=$2
    shift 2
    timeout 600 "$build/tools/amrun" -n "$size" "$here/host.sh" "$build/tests/am/am_example_$example" "$@" || {
        echo "FAILED: $example as a job of $size"
        bad=1
    }
}

run 2 pingpong 500
run 1 pingpong 500
run 4 histogram 50000
run 1 histogram 1000
run 4 kv 50
run 1 kv 50
exit $bad
