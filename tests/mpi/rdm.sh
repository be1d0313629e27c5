#!/usr/bin/env bash
# Endpoints that match tags, through libfabric's calls: with the default settings, with rings that a few messages fill,
# and with every third post refused.
# usage: two_vipd.sh BUILD LINK rdm.sh BUILD_DIR RDMTEST
set -u
export FI_PROVIDER_PATH=$1/ofi VIPD_RUNTIME_DIR=$VIPD_RUNTIME_DIR_A
export ASAN_OPTIONS=detect_leaks=0 # of libfabric, which keeps what it has to the end
bad=0
for setting in FI_VIA_RING=131072 FI_VIA_RING=4096 FI_VIA_REFUSE_EVERY=3; do
    echo "== $setting"
    env "$setting" "$2" || { echo "   FAILED with $setting"; bad=1; }
done
exit $bad
