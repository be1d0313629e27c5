# For scripts that end at their first failure. Sourced by bash.
#   failed TEXT...   say what failed, show the ends of all logs of $WORK, end

failed() {
    echo "FAILED: $*"
    tail -n 15 "$WORK"/*.log
    exit 1
}
