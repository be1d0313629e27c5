#!/bin/sh
# Runs a rank on its host: an even rank with VIPD_RUNTIME_DIR_A, an odd rank with _B.
# usage: rank.sh PROGRAM [ARGUMENTS], started by Open MPI's or MPICH's launcher
case $((${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}} % 2)) in
0) VIPD_RUNTIME_DIR=$VIPD_RUNTIME_DIR_A ;;
1) VIPD_RUNTIME_DIR=$VIPD_RUNTIME_DIR_B ;;
esac
export VIPD_RUNTIME_DIR
exec "$@"
