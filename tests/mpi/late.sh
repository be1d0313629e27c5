#!/usr/bin/env bash
# Tests a connection whose request is accepted late.
# usage: two_vipd.sh BUILD LINK late.sh BUILD_DIR LATETEST
set -u
export FI_PROVIDER_PATH=$1/ofi VIPD_RUNTIME_DIR=$VIPD_RUNTIME_DIR_A
export ASAN_OPTIONS=detect_leaks=0 # of libfabric, which keeps what it has to the end
"$2"
