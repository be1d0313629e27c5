#!/bin/sh
# A rank on its host: even ones on that of VIPD_RUNTIME_DIR_A, odd ones on that of _B.
# usage: rank.sh PROGRAM [ARGUMENTS], started by Open MPI's or MPICH's launcher
case $((${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}} % 2)) in
0) VIPD_RUNTIME_DIR=$VIPD_RUNTIME_DIR_A ;;
1) VIPD_RUNTIME_DIR=$VIPD_RUNTIME_DIR_B ;;
esac
export VIPD_RUNTIME_DIR
exec "$@"
