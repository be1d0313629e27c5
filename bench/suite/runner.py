"""Runs measurements and keeps their results."""

import json
import os
import signal
import subprocess

# Longest time of one run, in seconds. A longer run counts as failed.
PATIENCE_S = 60
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Measurement:
    """One line of the report. `argv` is a vipperf command that writes JSON to standard output, or
    `peer` is a function that measures and returns the value."""

    def __init__(self, ident, group, network, series, x, unit, argv=None, pick=None, peer=None):
        self.ident, self.group, self.network = ident, group, network
        self.series, self.x, self.unit = series, x, unit
        self.argv, self.pick, self.peer = argv, pick, peer
        self.values = []       # one per round, None if that round failed
        self.cpu_app_s = []    # processor time of the applications
        self.cpu_vipd_s = []   # processor time of both vipd
        self.messages = []     # number of messages that took this processor time
        self.gib = []          # bytes of these messages, in GiB

    def as_dict(self):
        return {
            "id": self.ident, "group": self.group, "network": self.network.name,
            "series": self.series, "x": self.x, "unit": self.unit, "values": self.values,
            "cpu_app_s": self.cpu_app_s, "cpu_vipd_s": self.cpu_vipd_s, "messages": self.messages, "gib": self.gib,
            "command": self.command(),
        }

    def command(self):
        """The command line, with paths relative to the sources; for a peer the name of the
        series."""
        return " ".join(arg.replace(TOP + "/", "") for arg in self.argv) if self.argv else self.series


class Runner:
    """Runs measurements one after the other and keeps a list of the failed runs."""

    def __init__(self, networks):
        self.networks = networks
        self.failures = []

    def _run(self, measurement):
        environment = dict(os.environ, VIPD_RUNTIME_DIR=measurement.network.runtime_dir)
        argv = measurement.argv
        if "floor" not in argv:
            argv = measurement.network.inside(0, argv)
        process = subprocess.Popen(
            argv + ["--json", "-"], env=environment, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise RuntimeError(f"no end after {PATIENCE_S} s") from None
        if process.returncode != 0:
            raise RuntimeError((err.strip().splitlines() or ["no reason given"])[-1])
        return json.loads(out)

    def measure(self, measurement):
        network = measurement.network
        try:
            if measurement.peer:
                measurement.values.append(measurement.peer())
                return
            before_ns = network.vipd_cpu_ns()
            document = self._run(measurement)
            vipd_s = (network.vipd_cpu_ns() - before_ns) / 1e9
            measurement.values.append(measurement.pick(document))
            result = document["results"][0]
            if "cpu_s" in result:
                measurement.cpu_app_s.append(result["cpu_s"])
                measurement.cpu_vipd_s.append(0.0 if "floor" in measurement.argv else vipd_s)
                measurement.messages.append(result["messages"])
                measurement.gib.append(result["messages"] * result["size"] / 2**30)
        except (RuntimeError, OSError, ValueError, KeyError, IndexError) as error:
            measurement.values.append(None)
            self.failures.append({"id": measurement.ident, "why": str(error)})
