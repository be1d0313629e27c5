"""The machine, as far as it matters for judging a measurement: what it is, and whether it is quiet."""

import os
import platform
import subprocess

# More runnable work than this besides ourselves, and the machine is called noisy.
QUIET_LOAD = 0.5


def _first_line(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().strip()
    except OSError:
        return "unknown"


def _processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return "unknown"


def _stolen():
    """Share of processor time that the hypervisor has taken since the machine started."""
    with open("/proc/stat", encoding="utf-8") as file:
        fields = [int(field) for field in file.readline().split()[1:]]
    return fields[7] / max(1, sum(fields[:8]))


def describe():
    load = os.getloadavg()[0]
    return {
        "processor": _processor(),
        "processors": os.cpu_count(),
        "kernel": platform.release(),
        "governor": _first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "clock": _first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "load_before": load,
        "stolen": round(_stolen(), 4),
        "noisy": load > QUIET_LOAD,
        "pinned": "nothing",
    }


def sentence(described):
    text = (
        f"{described['processor']}, {described['processors']} processors, Linux {described['kernel']}, "
        f"governor {described['governor']}, clock {described['clock']}, load {described['load_before']:.2f}"
    )
    return text + (": NOISY, other work is running." if described["noisy"] else ": quiet.")


def commit(top):
    """The state of the sources, or "unknown" outside a repository."""
    try:
        return subprocess.run(
            ["git", "-C", top, "describe", "--always", "--dirty"],
            capture_output=True, text=True, check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
