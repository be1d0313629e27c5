"""The group "splitc": the times of the operations of Split-C compared with raw VIPL and Active
Messages, the parts of a get, bulk bandwidth by size, and the examples with more processes. Most
measurements are one run of a program that prints "name value" lines; the value is a dictionary of
these lines. Their rounds are interleaved with those of the other groups."""

import os
import re
import shutil
from statistics import median

import machine
import peers
import plots
from report import Results, number, present
from runner import Measurement

TYPES = ["char", "short", "int", "long", "float", "double"]
OPERATIONS = ["local", "read", "write", "get", "put", "store"]
# Bytes of a request for one word: the runtime's header and the data.
REQUEST_BYTES = 48
SIZES = [64 * 4**k for k in range(8)]
RAW_SIZES = [1024, 16384, 65536, 1048576]
# The time that Split-C adds to a half round trip of VIA, from the summary of "An Analysis of VI
# Architecture Primitives ..." (2002). The machines of that paper had four processors of 550 MHz.
PUBLISHED_MAPPING_US = 5.4

# program: (its arguments for a number of processes, a pattern of its result lines, True if a larger
# value is better). The pattern's first group is the name of the value. The whole work is the same
# for every number of processes; a printed time is per item of one process.
EXAMPLES = {
    "mm": (lambda procs, quick: ["4", "16" if quick else "64"], r"(mm): .* ([\d.]+) MFLOP/s", True),
    "radix": (lambda procs, quick: [str((12000 if quick else 120000) // procs)], r"(radix): .* ([\d.]+) us per key",
              False),
    "sample": (lambda procs, quick: [str((12000 if quick else 240000) // procs)], r"(sample): .* ([\d.]+) us per key",
               False),
    "em3d": (lambda procs, quick: [str((96 if quick else 960) // procs), "8", "20", "10"],
             r"(em3d \w+) +([\d.]+) us per edge", False),
}
NAMES = ["mm", "radix", "sample"] + [f"em3d {version}" for version in ["simple", "ghost", "get", "store", "bulk"]]


class Programs:
    """Compiles and runs Split-C programs on two hosts; even processes on side 0, odd ones on side 1."""

    def __init__(self, top, build, folder, quick):
        self.top, self.build, self.folder, self.quick = top, build, folder, quick

    def compile(self, name, source):
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            peers.output([os.path.join(self.build, "splitc", "splitcc"), "-O2", "-w", "-o", path,
                          os.path.join(self.top, source), "-lm"])
        return path

    def job(self, network, procs, argv, environment=None):
        """Runs a job and returns its standard output."""
        command = argv
        if network.name != "loop":
            # The runtime directories of the two vipd differ only in the last letter (bench/hosts).
            other = re.sub("_a$", "_b", network.runtime_dir)
            inside = [f"nsenter --net=/run/netns/{name}" if name else "" for name in network.namespaces or ("", "")]
            script = (f'if [ $((PMI_RANK % 2)) = 0 ]; then exec {inside[0]} "$0" "$@"; fi; '
                      f'export VIPD_RUNTIME_DIR={other}; exec {inside[1]} "$0" "$@"')
            command = ["sh", "-c", script] + argv
        return peers.output([os.path.join(self.build, "tools", "amrun"), "-n", str(procs)] + command,
                            dict(environment or {}, VIPD_RUNTIME_DIR=network.runtime_dir))


def _values(text):
    """A dictionary of the "name value" lines."""
    return {name: float(value) for name, value in re.findall(r"^(\w+) ([\d.]+)$", text, re.MULTILINE)}


def _example(programs, network, program, procs):
    """Returns {name: MFLOP/s, or us per item of the whole work}."""
    arguments, pattern, more_is_better = EXAMPLES[program]
    path = programs.compile(program, f"examples/splitc/{program}.sc")
    text = programs.job(network, procs, [path] + arguments(procs, programs.quick))
    found = re.findall(pattern, text)
    if not found or "WRONG" in text:
        raise RuntimeError(f"{program} on {procs}: {text.strip().splitlines()[-1:]}")
    return {name: float(value) if more_is_better else float(value) / procs for name, value in found}


def make(maker, networks, top, folder):
    """Adds the measurements of the group to the maker; returns what cannot be measured, with
    reasons."""
    programs = Programs(top, networks.build, folder, maker.quick)
    for program in ["ops", *EXAMPLES]:
        stale = os.path.join(folder, program)
        if os.path.isfile(stale):
            os.unlink(stale)
    counts = ["300", "1000000"] if maker.quick else ["2000", "33554432"]
    logp = os.path.join(networks.build, "bench", "am", "am_logp")

    def add(network, series, x, unit, function):
        maker.list.append(Measurement(f"splitc/{network.name}/{series}/{x}", "splitc", network, series, x, unit,
                                      peer=function))

    def ops(network, environment):
        path = programs.compile("ops", "bench/splitc/ops.sc")
        return _values(programs.job(network, 2, [path] + counts, environment))

    for name in ["loop", "veth"]:
        network = networks.by_name.get(name)
        if not network:
            continue
        add(network, "Split-C", "", "us", lambda network=network: ops(network, {}))
        add(network, "Split-C, messages only", "", "us",
            lambda network=network: ops(network, {"SPLITC_RDMA": "0"}))
        if os.access(logp, os.X_OK):
            add(network, "AM", "", "us",
                lambda network=network: _values(programs.job(network, 2, [logp, "400" if maker.quick else "2000"])))
        maker.via("splitc", network, "lat", "raw half round trip", REQUEST_BYTES, "--wait", "poll", "--cq")
        maker.via("splitc", network, "rate", "raw send", REQUEST_BYTES)
        for size in RAW_SIZES:
            maker.via("splitc", network, "bw", "raw write", size, "--op", "write")
            maker.via("splitc", network, "bw", "raw read", size, "--op", "read")
        for program, (*_, more_is_better) in EXAMPLES.items():
            for procs in [1, 2] if maker.quick else [1, 2, 4]:
                add(network, program, procs, "MFLOP/s" if more_is_better else "us",
                    lambda network=network, program=program, procs=procs: _example(programs, network, program, procs))
    built = os.access(logp, os.X_OK)
    return [] if built else [{"what": "Active Messages beside Split-C", "why": "am_logp is not built"}]


# ---- report ---------------------------------------------------------------------------------------------


def _per_round(row):
    return row["values"] if row else []


def _median(values):
    values = present(values)
    return median(values) if values else None


def _named(row, name):
    """The values with this name, one per round."""
    return [value.get(name) if value else None for value in _per_round(row)]


def _ratio(ours, other):
    pairs = [a / b for a, b in zip(ours, other) if a is not None and b]
    return median(pairs) if pairs else None


class Group:
    """The measurements of one network."""

    def __init__(self, found, network):
        self.network = network
        self.ours = found.get("splitc", network, "Split-C", "")
        self.messages = found.get("splitc", network, "Split-C, messages only", "")
        self.am = found.get("splitc", network, "AM", "")
        self.half = _per_round(found.get("splitc", network, "raw half round trip", REQUEST_BYTES))
        self.round_trip = [None if value is None else 2 * value for value in self.half]
        rate = _per_round(found.get("splitc", network, "raw send", REQUEST_BYTES))
        self.gap = [1e6 / value if value else None for value in rate]
        self.raw = {(kind, size): _per_round(found.get("splitc", network, f"raw {kind}", size))
                    for kind in ["write", "read"] for size in RAW_SIZES}
        self.examples = {(name, procs): _named(found.get("splitc", network, name.split()[0], procs), name)
                         for name in NAMES for procs in [1, 2, 4]}


def goals(group):
    """Returns the goals as (what, ratio, sign, limit, reference)."""
    name = group.network
    put = _named(group.ours, "put_int")
    rows = [(f"{name}: read of a word", _ratio(_named(group.ours, "read_int"), group.round_trip), "<=", 1.15,
             "raw VIPL round trip"),
            (f"{name}: get, pipelined", _ratio(_named(group.ours, "get_int"), group.gap), "<=", 1.3,
             "raw VIPL send gap"),
            (f"{name}: put, pipelined", _ratio(put, group.gap), "<=", 1.3, "raw VIPL send gap"),
            (f"{name}: store", _ratio(_named(group.ours, "store_int"), put), "<=", 0.6, "put")]
    for ours, raw in [("put", "write"), ("get", "read")]:
        rows.append((f"{name}: bulk {ours}, 1 MiB", _ratio(_named(group.ours, f"bulk_{ours}_1048576"),
                                                           group.raw[raw, 1048576]), ">=", 0.9, f"raw RDMA {raw}"))
    return rows


def _write_operations(out, group):
    print(f"\n## Operations, {group.network}: us each, medians of the rounds\n", file=out)
    print("| type | " + " | ".join(OPERATIONS) + " |\n|" + "---|" * (len(OPERATIONS) + 1), file=out)
    for kind in TYPES:
        cells = [number(_median(_named(group.ours, f"{operation}_{kind}"))) for operation in OPERATIONS]
        print(f"| {kind} | " + " | ".join(cells) + " |", file=out)


def _write_parts(out, group):
    issue, take, whole = (_median(_named(group.ours, f"get_{part}")) for part in ["issue", "take", "whole"])
    raw, half = _median(group.round_trip), _median(group.half)
    print(f"\n## The parts of a get, {group.network}: us\n\n| part | ours | published |\n|---|---|---|", file=out)
    print(f"| the get, until the call returns | {number(issue)} | not at hand |", file=out)
    print(f"| sync, when the answer is here | {number(take)} | not at hand |", file=out)
    if None not in (issue, take, whole):
        print(f"| the way and the other side (the rest) | {number(whole - issue - take)} | not at hand |", file=out)
    print(f"| get and sync | {number(whole)} | not at hand |", file=out)
    print(f"| raw VIPL, a round trip of {REQUEST_BYTES} bytes | {number(raw)} | not at hand |", file=out)
    if None not in (whole, half):
        # Negative if the program of raw VIPL does more work per message than that of Split-C.
        print(f"| Split-C's part of half of it | {whole / 2 - half:.3g} | {PUBLISHED_MAPPING_US} |", file=out)


def _write_bulk(out, group):
    kinds = ["read", "get", "put", "store"]
    print(f"\n## Bulk bandwidth, {group.network}: MB/s\n", file=out)
    print("| bytes | " + " | ".join(kinds) + " | put, messages only | AM | raw RDMA Write | raw RDMA Read |\n|"
          + "---|" * 9, file=out)
    for size in SIZES:
        cells = [number(_median(_named(group.ours, f"bulk_{kind}_{size}"))) for kind in kinds]
        cells.append(number(_median(_named(group.messages, f"bulk_put_{size}"))))
        cells.append(number(_median(_named(group.am, f"bw_{size}"))))
        cells += [number(_median(group.raw.get((kind, size), []))) for kind in ["write", "read"]]
        print(f"| {size:,} | " + " | ".join(cells) + " |", file=out)


def _speed_up(group, name, procs):
    one, more = group.examples[name, 1], group.examples[name, procs]
    return _ratio(more, one) if EXAMPLES[name.split()[0]][2] else _ratio(one, more)


def _write_examples(out, group):
    print(f"\n## Speed-up of the examples, {group.network}: the same work by more processes\n", file=out)
    print("| example | 1 process | 2 processes | 4 processes |\n|---|---|---|---|", file=out)
    for name in NAMES:
        cells = [number(_speed_up(group, name, procs)) for procs in [1, 2, 4]]
        print(f"| {name} | " + " | ".join(cells) + " |", file=out)


def _points(row, prefix):
    found = [(size, _median(_named(row, f"{prefix}_{size}"))) for size in SIZES]
    return [(size, value) for size, value in found if value]


def _draw(out, group, folder):
    if not shutil.which("gnuplot"):
        print("\nNo plots: gnuplot is not installed.", file=out)
        return
    raw = [(size, _median(group.raw["write", size])) for size in RAW_SIZES]
    name = f"splitc-bulk-{group.network}"
    lines = [("raw VIPL, RDMA Write", [(size, value) for size, value in raw if value]),
             ("Active Messages", _points(group.am, "bw")),
             ("Split-C, bulk put", _points(group.ours, "bulk_put")),
             ("Split-C, bulk get", _points(group.ours, "bulk_get")),
             ("Split-C, bulk put, messages only", _points(group.messages, "bulk_put"))]
    if plots.plot(folder, name, f"Bulk transfers, {group.network}", "MB/s", lines):
        print(f"\n![Bulk transfers, {group.network}]({name}.svg)", file=out)


def write(results, folder):
    """Writes splitc.md and its plots. A goal's value is the median of the ratios of the rounds."""
    found = Results(results)
    groups = [group for group in (Group(found, name) for name in ["loop", "veth"]) if group.ours]
    with open(os.path.join(folder, "splitc.md"), "w", encoding="utf-8") as out:
        print(f"# Split-C beside raw VIPL and Active Messages\n\n{machine.sentence(results['machine'])} Sources: "
              f"{results['commit']}. {results['rounds']} rounds of everything in turn. loop: both processes at one "
              "vipd; veth: two, in namespaces.\n", file=out)
        print("| what | against | goal | measured | |\n|---|---|---|---|---|", file=out)
        for group in groups:
            for what, value, sign, limit, against in goals(group):
                verdict = "not measured"
                if value is not None:
                    verdict = "holds" if (value <= limit if sign == "<=" else value >= limit) else "**missed**"
                sign = "≤" if sign == "<=" else "≥"
                print(f"| {what} | {against} | {sign} {limit} | {number(value)} | {verdict} |", file=out)
        for group in groups:
            for part in [_write_operations, _write_parts, _write_bulk, _write_examples]:
                part(out, group)
            _draw(out, group, folder)
        for entry in results["absent"] + results["failures"]:
            print(f"\nNot measured: {entry.get('what') or entry['id']}: {entry['why']}", file=out)
