"""The group "am": raw VIPL, Active Messages in both designs (VARIANTS), the parts of the overhead,
and servers with many clients. The programs are in bench/am. A program prints several values, so the
value of a measurement is a dictionary."""

import os
import shutil
import subprocess

import peers
from runner import Measurement

NETWORKS = ["loop", "udp"]
# Sizes of long messages in bytes, the same as in am_logp.
SIZES = [4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576]
VARIANTS = {"v1": "1", "v3": "3"}
CLIENTS = {False: [1, 2, 4, 8, 16, 32, 64], True: [1, 4, 16]}
SERVERS = {"one": "one endpoint", "own": "an endpoint each", "threads": "an endpoint and a thread each"}
# In series with limited connections the server has one connection for 8 clients.
LIMIT = 8
SECONDS = {False: "1", True: "0.3"}
ROUNDS = {False: "4000", True: "500"}


def _dictionary(text):
    """A dictionary of the "name value" lines of a program."""
    values = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2:
            values[words[0]] = float(words[1])
    if not values:
        raise RuntimeError("the program printed no values")
    return values


class Jobs:
    """Runs jobs: process 0 on host A of a network, all other processes on host B."""

    def __init__(self, networks, network):
        self.build, self.network = networks.build, network
        self.folder_b = network.runtime_dir
        if network.name == "udp":
            self.folder_b = os.path.join(os.path.dirname(network.runtime_dir), "udp_b")

    def run(self, processes, program, *arguments, environment=None, first=""):
        """Returns the values that the program prints. `first`: assignments of environment
        variables, for process 0 only."""
        script = (f'if [ "$PMI_RANK" = 0 ]; then export {first} VIPD_RUNTIME_DIR={self.network.runtime_dir}; '
                  f'else export VIPD_RUNTIME_DIR={self.folder_b}; fi; exec "$@"')
        argv = [os.path.join(self.build, "tools", "amrun"), "-n", str(processes), "sh", "-c", script, "sh",
                os.path.join(self.build, "bench", "am", program)]
        try:
            return _dictionary(peers.output(argv + [str(a) for a in arguments], environment))
        except subprocess.TimeoutExpired as late:
            raise RuntimeError(f"no end after {late.timeout} s") from None


def _contention(job, server, clients, limited, quick):
    def measure():
        first = f"VIPAM_CONNECTIONS={max(1, clients // LIMIT)}" if limited else ""
        return job.run(clients + 1, "am_contend", server, SECONDS[quick], first=first)
    return measure


def make(maker, network):
    """Adds the measurements of one network."""
    quick, job = maker.quick, Jobs(maker.networks, network)

    def add(series, x, measure):
        maker.list.append(Measurement(f"am/{network.name}/{series}/{x}", "am", network, series, x, "", peer=measure))

    maker.via("am", network, "lat", "VIPL half round trip", 48, "--wait", "poll", "--cq")
    for size in SIZES:
        maker.via("am", network, "bw", "VIPL write", size, "--op", "write", "--wait", "poll")
    for name, variant in VARIANTS.items():
        add(f"AM {name}", "", lambda v=variant: job.run(2, "am_logp", ROUNDS[quick], environment={"VIPAM_VARIANT": v}))
    add("parts", "", lambda: job.run(2, "am_parts", ROUNDS[quick]))
    for server in SERVERS:
        for clients in CLIENTS[quick]:
            add(server, clients, _contention(job, server, clients, False, quick))
            if clients >= LIMIT:
                add(f"{server} limited", clients, _contention(job, server, clients, True, quick))


def missing(build):
    """The reason why Active Messages cannot be measured, or None."""
    for program in ["am_logp", "am_parts", "am_contend"]:
        if not shutil.which(os.path.join(build, "bench", "am", program)):
            return f"{program} is not built (bench/run am builds it)"
    return None
