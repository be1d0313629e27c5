# For scripts that end at their first failure. bash sources this file.
#   failed TEXT... print what failed and the ends of all logs of $WORK, then exit

failed() {
    echo "FAILED: $*"
    tail -n 15 "$WORK"/*.log
    exit 1
}
