#!/bin/sh
# Runs a process of a job on one of the two hosts of two_vipd.sh: even ranks on A, odd ranks on B.
# usage: amrun -n N host.sh PROGRAM [ARGUMENT...]
rank=${PMI_RANK:-${PMIX_RANK:-0}}
if [ $((rank % 2)) = 1 ]; then
    export VIPD_RUNTIME_DIR="$VIPD_RUNTIME_DIR_B"
fi
exec "$@"
