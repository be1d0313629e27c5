# Functions that run MPI programs on the provider. Sourced by bash.
#   ompi RANKS PROGRAM...   run it with viampirun: even ranks on VIPD_RUNTIME_DIR_A, odd ranks on _B
#                           MPI_NATIVE=1: with the provider's own tag matching, else with ofi_rxm
#   run WHAT COMMAND...     print one line: passed, or FAILED with the output; sets `bad`
# The caller has set FI_PROVIDER_PATH to the build tree's ofi/.

# Let root run jobs. A job that runs longer than MPI_TIMEOUT seconds is a failure.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
MPI_TIMEOUT=${MPI_TIMEOUT:-120}
bad=0

ompi() {
    local ranks=$1 way=--rxm
    shift
    [ -z "${MPI_NATIVE-}" ] || way=--native
    timeout -k 5 "$MPI_TIMEOUT" "$FI_PROVIDER_PATH/viampirun" "$way" --oversubscribe -n "$ranks" \
        "$MPI_DIR/rank.sh" "$@"
}

run() {
    local what=$1 log started=$SECONDS
    shift
    log=$(mktemp)
    if "$@" >"$log" 2>&1 </dev/null; then
        echo "   passed: $what ($((SECONDS - started)) s)"
    else
        echo "   FAILED ($?): $what"
        tail -n 40 "$log"
        bad=1
    fi
    rm -f "$log"
}
