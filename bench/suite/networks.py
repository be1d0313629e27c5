"""The hosts of the measurements. bench/hosts starts them, and stops them when its input ends."""

import os
import subprocess


class Network:
    """A network of two hosts; programs of the first host (side 0) reach the second one by the name
    `host`."""

    def __init__(self, fields):
        (self.name, self.runtime_dir, self.host, ns_a, ns_b, self.address_a, self.address_b, pids) = fields
        self.namespaces = None if ns_a == "-" else (ns_a, ns_b)
        self.pids = [int(pid) for pid in pids.split(",")]

    def inside(self, side, argv):
        """The command line that runs argv on side 0 or 1."""
        if not self.namespaces:
            return argv
        return ["nsenter", f"--net=/run/netns/{self.namespaces[side]}"] + argv

    def vipd_cpu_ns(self):
        """Processor time that the vipd of this network have used since they started."""
        total = 0
        for pid in self.pids:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/schedstat", encoding="utf-8") as file:
                    total += int(file.read().split()[0])
        return total


class Networks:
    """The networks of this machine by name, and the reasons why others are absent."""

    def __init__(self, top, build):
        self.top, self.build = top, build
        self.by_name = {}
        self.absent = {}

    def __enter__(self):
        self._hosts = subprocess.Popen(
            [os.path.join(self.top, "bench", "hosts"), self.build],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for line in self._hosts.stdout:
            word, *fields = line.split()
            if word == "ready":
                return self
            if word == "network":
                self.by_name[fields[0]] = Network(fields)
            elif word == "absent":
                self.absent[fields[0]] = " ".join(fields[1:])
        self.__exit__(None, None, None)
        raise SystemExit("bench/run: the hosts could not be started")

    def __exit__(self, *exception):
        self._hosts.stdin.close()
        self._hosts.wait()
