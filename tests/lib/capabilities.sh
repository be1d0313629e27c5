# Capabilities of a process, read from a file like /proc/PID/status. To be sourced.

# vipd at work keeps only CAP_LINUX_IMMUTABLE (0x200), for the attributes of its own files.
capabilities_dropped() { # capabilities_dropped STATUS-FILE
    [ "$(grep -cE '^Cap(Prm|Eff):[[:space:]]*0*(200)?$' "$1")" -eq 2 ]
}
