"""The measurements of all groups. am.py, mpi.py, peers.py and splitc.py add those of their groups.
All measurements of latency, bandwidth and rate by vipperf last the same time (DURATION)."""

import os

import am
import mpi
import peers
import splitc
from runner import Measurement

GROUPS = {
    "lat": "half round trip over size; operations, waiting, levels, CQ",
    "bw": "bandwidth over size, one way; operations, waiting, levels",
    "both": "bandwidth both ways at once, the sum",
    "rate": "messages of 8 bytes per second",
    "direct": "programs of one host, with rings between them and without",
    "path": "the data path in vipd, and on loan to the program that polls",
    "links": "our links beside each other: udp, ether, xdp, frames of 1,500 and 9,000 bytes",
    "data": "messages in 1 to 64 segments; in turn through 1 to 64 buffers, registered together or each (VIBe)",
    "vis": "1 active of 1 to 1,000 connected VIs; time to connect",
    "cost": "calls beside the data path (VIBe): registration, VIs, CQs",
    "peers": "libfabric, UCX, MPI, sockperf, ZeroMQ",
}
# Groups that are measured only if --only names them.
APART = {
    "am": "Active Messages: LogP, parts of the overhead, bandwidth, a server with 1 to 64 clients (bench/run am)",
    "mpi": "Open MPI over VIA beside its TCP, libfabric's, and shared memory (bench/run mpi)",
    "splitc": "Split-C: operations, parts of a get, bulk bandwidth, speed-up of the examples (bench/run splitc)",
}

DURATION = {False: "200ms", True: "150ms"}
LAT_SIZES = {
    False: [0, 8, 64, 512, 4096, 32768, 262144, 1048576, 4194304],
    True: [8, 64, 1024, 16384, 262144],
}
BW_SIZES = {
    False: [64, 512, 4096, 8192, 32768, 262144, 1048576, 4194304],
    True: [1024, 8192, 65536, 1048576],
}
BOTH_SIZES = {False: [8192, 1048576], True: [1048576]}
# The tests of the group "data": (test, bytes of a message, name).
DATA_TESTS = [("lat", 64, "half round trip, 64 B"), ("lat", 16384, "half round trip, 16 KiB"),
              ("bw", 65536, "bandwidth, 64 KiB")]
SEGMENTS = {False: [1, 4, 16, 64], True: [1, 16]}
BUFFERS = {False: [1, 8, 64], True: [1, 64]}
VIS = {False: [1, 10, 100, 1000], True: [1, 1000]}
NETWORKS = ["loop", "udp", "veth"]
LINK_NETWORKS = ["veth", "ether", "xdp", "udp9000", "ether9000"]


def _half_us(document):
    """Half of the median round trip in us. None: on a busy machine the time may end before the
    first round trip; vipperf then prints 0."""
    median_ns = document["results"][0]["half_rtt_ns"]["p50"]
    return median_ns / 1000 if median_ns > 0 else None


def _mb_s(document):
    return document["results"][0]["bytes_per_s"] / 1e6


def _rate(document):
    return document["results"][0]["messages_per_s"]


class Maker:
    """Collects measurements; `quick` decides about sizes and durations."""

    def __init__(self, networks, quick):
        self.networks, self.quick = networks, quick
        self.vipperf = os.path.join(networks.build, "tools", "vipperf")
        self.list = []

    def _add(self, group, network, series, x, unit, argv, pick):
        ident = f"{group}/{network.name}/{series}/{x}"
        self.list.append(Measurement(ident, group, network, series, x, unit, argv, pick))

    def via(self, group, network, test, series, size, *options, x=None, unit=None, pick=None):
        units = {"lat": ("us", _half_us), "bw": ("MB/s", _mb_s), "rate": ("1/s", _rate)}
        argv = [self.vipperf, test, network.host, "--size", str(size), "--duration", DURATION[self.quick]]
        self._add(group, network, series, size if x is None else x, unit or units[test][0],
                  argv + list(options), pick or units[test][1])

    def floor(self, group, network, kind, what, size, wait="block", options=(), suffix=""):
        units = {"lat": ("us", _half_us), "bw": ("MB/s", _mb_s), "rate": ("1/s", _rate)}
        argv = [self.vipperf, "floor", kind, what, "--size", str(size), "--wait", wait,
                "--duration", DURATION[self.quick], *options]
        if kind != "memory":
            argv += ["--address", f"{network.address_a},{network.address_b}"]
            if network.namespaces:
                argv += ["--netns", ",".join(network.namespaces)]
        self._add(group, network, f"{kind} {wait}{suffix}" if kind != "memory" else kind, size,
                  units[what][0], argv, units[what][1])


def _latency(make, network):
    sizes = LAT_SIZES[make.quick]
    for size in sizes:
        make.via("lat", network, "lat", "send poll", size, "--wait", "poll")
        make.via("lat", network, "lat", "send block", size, "--wait", "block")
    for options, series in [
        (["--wait", "adaptive"], "send adaptive"),
        (["--op", "write", "--wait", "poll"], "write poll"),
        (["--op", "write-imm", "--wait", "poll"], "write-imm poll"),
        (["--op", "read", "--wait", "poll"], "read poll"),
        (["--cq", "--wait", "poll"], "send CQ poll"),
        (["--cq", "--wait", "block"], "send CQ block"),
        (["--reliability", "ud", "--wait", "poll"], "send UD poll"),
        (["--reliability", "rr", "--wait", "poll"], "send RR poll"),
    ]:
        make.via("lat", network, "lat", series, 64, *options)
    if network.name == "loop":
        make.floor("lat", network, "memory", "lat", 64)
        return
    for size in sizes:
        if 1 <= size <= 1048576:
            make.floor("lat", network, "udp", "lat", size)
            make.floor("lat", network, "tcp", "lat", size)
    for kind, wait in [("udp", "poll"), ("tcp", "poll"), ("relay", "poll"), ("relay", "block")]:
        make.floor("lat", network, kind, "lat", 64, wait)


def _bandwidth(make, network):
    for size in BW_SIZES[make.quick]:
        for op in ["send", "write"]:
            make.via("bw", network, "bw", op, size, "--op", op)
        if network.name == "loop":
            make.floor("bw", network, "memory", "bw", size)
        else:
            make.floor("bw", network, "tcp", "bw", size)
            make.floor("bw", network, "gso", "bw", size)
    for op in ["write-imm", "read"]:
        make.via("bw", network, "bw", op, 1048576, "--op", op)
    for level in ["ud", "rr"]:
        make.via("bw", network, "bw", f"send {level.upper()}", 1048576, "--reliability", level)
    if network.name == "udp" or make.quick:
        return
    for size in [8192, 1048576]:
        for wait in ["poll", "block"]:
            make.via("bw", network, "bw", f"send {wait}", size, "--wait", wait)


def _both(make, network):
    for size in BOTH_SIZES[make.quick]:
        for op in ["send"] if make.quick else ["send", "write"]:
            make.via("both", network, "bw", op, size, "--op", op, "--both-ways")
        if network.name != "loop":
            make.floor("both", network, "tcp", "bw", size, options=["--both-ways"])


def _data(make, network):
    tests = DATA_TESTS[1:2] if make.quick else DATA_TESTS
    for test, size, name in tests:
        poll = ["--wait", "poll"] if test == "lat" else []
        for count in SEGMENTS[make.quick]:
            make.via("data", network, test, f"{name}, segments", size, "--segments", str(count), *poll, x=count)
        for register, how in [("one", "registered together"), ("each", "registered each")]:
            for count in BUFFERS[make.quick]:
                make.via("data", network, test, f"{name}, buffers {how}", size, "--buffers", str(count),
                         "--register", register, *poll, x=count)


def _rates(make, network):
    for series, options in [
        ("send", []), ("write", ["--op", "write"]), ("send CQ", ["--cq"]),
        ("send UD", ["--reliability", "ud"]), ("send RR", ["--reliability", "rr"]),
    ]:
        make.via("rate", network, "rate", series, 8, *options)
    if network.name == "loop":
        return
    for kind in ["udp", "tcp", "gso"]:
        make.floor("rate", network, kind, "rate", 8)


def _links(make, network):
    for wait in ["poll", "block"]:
        make.via("links", network, "lat", f"lat {wait}", 64, "--wait", wait)
    make.via("links", network, "bw", "bw send", 1048576, "--op", "send")
    make.via("links", network, "rate", "rate", 8)


# Ends the name of a series with one message per ms.
PER_MS = ", 1 per ms"


def _path(make, network):
    """The same connection with its data path in vipd (veth), or on loan (veth_loan) if the program polls."""
    make.via("path", network, "lat", "lat poll", 64, "--wait", "poll")
    make.via("path", network, "lat", "lat block", 64, "--wait", "block")
    for wait in ["poll", "block"]:
        make.via("path", network, "lat", f"lat {wait}{PER_MS}", 64, "--wait", wait, "--every", "1ms")
    make.via("path", network, "rate", "rate poll", 8, "--wait", "poll")
    make.via("path", network, "bw", "bw send poll", 1048576, "--op", "send", "--wait", "poll")
    make.via("path", network, "bw", "bw write poll", 1048576, "--op", "write", "--wait", "poll")
    if network.name != "veth":
        return
    for kind in ["udp", "tcp"]:
        make.floor("path", network, kind, "lat", 64, "poll")
        make.floor("path", network, kind, "lat", 64)
        for wait in ["poll", "block"]:
            make.floor("path", network, kind, "lat", 64, wait, ["--every", "1ms"], PER_MS)
    make.floor("path", network, "udp", "rate", 8)
    make.floor("path", network, "tcp", "bw", 1048576)


def _direct(make, network):
    make.via("direct", network, "lat", "lat poll", 64, "--wait", "poll")
    make.via("direct", network, "rate", "rate", 8)
    if make.quick:
        return
    make.via("direct", network, "lat", "lat poll", 4096, "--wait", "poll")
    make.via("direct", network, "lat", "lat CQ poll", 64, "--cq", "--wait", "poll")
    make.via("direct", network, "lat", "lat block", 64, "--wait", "block")
    make.via("direct", network, "rate", "rate CQ", 8, "--cq")
    for size in [64, 4096, 1048576]:
        make.via("direct", network, "bw", "bw send", size, "--op", "send")


def _connect_us(document):
    return document["parameters"]["connect_ns"] / 1000


def _vis(make, network):
    for count in VIS[make.quick]:
        make.via("vis", network, "lat", "half round trip", 64, "--wait", "poll", "--vis", str(count),
                 x=count)
        make.via("vis", network, "rate", "messages", 8, "--vis", str(count), x=count)
    make.via("vis", network, "lat", "connect one VI", 64, "--vis", "100", x=100, unit="us",
             pick=_connect_us)


def _calls(make, network):
    """Add all calls as one measurement, because one run of `vipperf cost` measures all of them."""
    argv = [make.vipperf, "cost", "--iters", "50" if make.quick else "200"]

    def all_calls(document):
        return {line["call"]: line["ns"]["p50"] / 1000 for line in document["results"]}

    make._add("cost", network, "calls", "", "us", argv, all_calls)


def make(networks, top, folder, only, quick):
    """Returns the measurements, and a list of the measurements that are not possible here, with
    reasons. `folder`: for results."""
    maker = Maker(networks, quick)
    absent = [{"what": f"network {name}", "why": why} for name, why in networks.absent.items()]
    groups = {"lat": _latency, "bw": _bandwidth, "both": _both, "rate": _rates, "vis": _vis}
    for name in NETWORKS:
        network = networks.by_name.get(name)
        if not network:
            continue
        for group, add in groups.items():
            if group in only and not (quick and name == "udp"):
                add(maker, network)
    for name in ["loop", "norings"]:
        if name in networks.by_name and "direct" in only:
            _direct(maker, networks.by_name[name])
    for name in ["veth", "veth_loan"]:
        if name in networks.by_name and "path" in only:
            _path(maker, networks.by_name[name])
    for name in ["veth"] if quick else ["loop", "veth"]:
        if name in networks.by_name and "data" in only:
            _data(maker, networks.by_name[name])
    for name in LINK_NETWORKS:
        if name in networks.by_name and "links" in only:
            _links(maker, networks.by_name[name])
    block = networks.by_name.get("veth_block")
    if block and "lat" in only:
        maker.via("lat", block, "lat", "send block", 64, "--wait", "block")
    if "cost" in only and "udp" in networks.by_name:
        _calls(maker, networks.by_name["udp"])
    if "am" in only:
        reason = am.missing(networks.build)
        if reason:
            absent.append({"what": "Active Messages", "why": reason})
        for name in [] if reason else am.NETWORKS:
            if name in networks.by_name:
                am.make(maker, networks.by_name[name])
    if "mpi" in only:
        absent += mpi.make(maker, networks, top, folder)
    if "splitc" in only:
        absent += splitc.make(maker, networks, top, folder)
    if "peers" in only:
        found, missing = peers.make(networks, top, quick)
        maker.list += found
        absent += missing
    return maker.list, absent
