"""The machine that measures: its description, and whether other programs use its processors."""

import os
import platform
import subprocess
import time

# If other programs use more processors than this while bench/run pauses, the report says so.
QUIET_PROCESSORS = 0.15


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


def _busy_ticks():
    with open("/proc/stat", encoding="utf-8") as file:
        user, nice, system, _, _, irq, softirq, steal = (int(f) for f in file.readline().split()[1:9])
    return user + nice + system + irq + softirq + steal


def others(seconds):
    """Number of processors that are busy (or taken by the hypervisor) while bench/run pauses."""
    before = _busy_ticks()
    time.sleep(seconds)
    return round((_busy_ticks() - before) / os.sysconf("SC_CLK_TCK") / seconds, 3)


def describe():
    return {
        "processor": _processor(),
        "processors": os.cpu_count(),
        "kernel": platform.release(),
        "governor": _first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "clock": _first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "stolen": round(_stolen(), 4),
        "others": [others(1)],  # one more after each round
        "pinned": "nothing",
    }


def sentence(described):
    most = max(described["others"])
    text = (
        f"{described['processor']}, {described['processors']} processors, Linux {described['kernel']}, "
        f"governor {described['governor']}, clock {described['clock']}; between measurements other programs used at most {most:.2f} processors: "
    )
    return text + ("NOISY, other work is running." if most > QUIET_PROCESSORS else "quiet.")


def commit(top):
    """The commit of the sources, or "unknown" outside a repository."""
    try:
        return subprocess.run(
            ["git", "-C", top, "describe", "--always", "--dirty"],
            capture_output=True, text=True, check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
