"""Writes from results.json: report.md with ratios and goals, results.csv, and the plots."""

import csv
import os
from statistics import median

import machine
import plots


def present(values):
    return [value for value in values if value is not None]


class Results:
    """The measurements by group, network, series and x."""

    def __init__(self, results):
        self.by_key = {(m["group"], m["network"], m["series"], m["x"]): m for m in results["measurements"]}

    def get(self, *key):
        return self.by_key.get(key)

    def first(self, *keys):
        """The measurement of the first of these keys that was measured, or None."""
        for key in keys:
            if key in self.by_key:
                return self.by_key[key]
        return None


def ratio(ours, other):
    """Median of ours / other over the rounds, each ratio within a round; None if either is
    missing."""
    if not ours or not other:
        return None
    pairs = [a / b for a, b in zip(ours["values"], other["values"]) if a is not None and b]
    return median(pairs) if pairs else None


def cpu_per_gib(measurement):
    if not measurement:
        return None
    costs = [(app + vipd) / gib for app, vipd, gib in
             zip(measurement["cpu_app_s"], measurement["cpu_vipd_s"], measurement["gib"]) if gib > 0]
    return median(costs) if costs else None


def per_message_us(measurement, key):
    costs = [s / m * 1e6 for s, m in zip(measurement[key], measurement["messages"]) if m > 0]
    return median(costs) if costs else None


def number(value):
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


# ---- goals --------------------------------------------------------------------------------------------


def goals(found):
    """Returns the goals as (what, measured ratio, sign, limit, reference)."""
    via = lambda group, series, x, network="veth": found.get(group, network, series, x)
    relay = lambda wait: via("lat", f"relay {wait}", 64)
    tcp = lambda x: via("bw", "tcp block", x)
    gso = lambda x: via("bw", "gso block", x)
    udp_rate = found.first(("rate", "veth", "udp block", 8), ("rate", "udp", "udp block", 8))
    rows = [
        ("64 B half round trip, polling", ratio(via("lat", "send poll", 64), relay("poll")), "<=", 1.2,
         "bare relay, yielding"),
        ("64 B half round trip, polling", ratio(via("lat", "send poll", 64),
         via("peers", "libfabric udp;ofi_rxd lat", 64)), "<=", 1.0, "libfabric, reliable over UDP (udp;ofi_rxd)"),
        ("64 B half round trip, application blocking", ratio(via("lat", "send block", 64),
         via("lat", "udp block", 64)), "<=", 0.5, "kernel UDP, blocking"),
        ("the same, vipd blocking too", ratio(found.get("lat", "veth_block", "send block", 64),
         relay("block")), "<=", 1.2, "bare relay, blocking"),
        ("bandwidth, 1 MiB, RDMA Write", ratio(via("bw", "write", 1048576), tcp(1048576)), ">=", 1.5,
         "kernel TCP"),
        ("bandwidth, 1 MiB, send", ratio(via("bw", "send", 1048576), tcp(1048576)), ">=", 1.5,
         "kernel TCP"),
        ("bandwidth, 1 MiB, RDMA Write", ratio(via("bw", "write", 1048576), gso(1048576)), ">=", 0.6,
         "UDP with segmentation offload"),
        ("bandwidth, 8 KiB, send", ratio(via("bw", "send", 8192), tcp(8192)), ">=", 1.2, "kernel TCP"),
        ("8 B messages per second", ratio(via("rate", "send", 8), via("rate", "udp block", 8)), ">=", 10,
         "kernel UDP, one per datagram"),
        ("same host, 64 B half round trip, polling", ratio(found.get("lat", "loop", "send poll", 64),
         found.get("lat", "loop", "memory", 64)), "<=", 6, "a word handed over in memory"),
        ("same host, 8 B messages per second", ratio(found.get("rate", "loop", "send", 8), udp_rate), ">=",
         30, "kernel UDP"),
        ("same host, bandwidth, 1 MiB", ratio(found.get("bw", "loop", "send", 1048576),
         found.get("bw", "loop", "memory", 1048576)), ">=", 0.8, "one memcpy of such buffers"),
        ("half round trip with 1,000 VIs", ratio(via("vis", "half round trip", 1000),
         via("vis", "half round trip", 1)), "<=", 1.1, "with 1 VI"),
    ]
    link = lambda network, series, x: found.get("links", network, series, x)
    rows += [
        ("ether, 64 B half round trip, polling", ratio(link("ether", "lat poll", 64), link("veth", "lat poll", 64)),
         "<=", 1.0, "our udp, same kind of cable"),
        ("xdp, 64 B half round trip, polling", ratio(link("xdp", "lat poll", 64), link("veth", "lat poll", 64)),
         "<=", 0.85, "our udp, same kind of cable"),
        ("ether, MTU 9000, bandwidth, 1 MiB", ratio(link("ether9000", "bw send", 1048576),
         link("udp9000", "bw send", 1048576)), ">=", 0.5, "our udp with segmentation offload, same cable"),
    ]
    loan = lambda series, x: found.get("path", "veth_loan", series, x)
    floor = lambda series, x: found.get("path", "veth", series, x)
    rows += [
        ("on loan, 64 B half round trip, polling", ratio(loan("lat poll", 64), floor("udp poll", 64)), "<=", 1.5,
         "kernel UDP, polling"),
        ("on loan, 64 B half round trip, polling", ratio(loan("lat poll", 64), floor("tcp poll", 64)), "<=", 1.0,
         "kernel TCP, polling"),
        ("on loan, 64 B half round trip, blocking", ratio(loan("lat block", 64), floor("udp block", 64)), "<=", 0.8,
         "kernel UDP, blocking"),
        ("on loan, 64 B half round trip, 1 per ms, polling", ratio(loan("lat poll, 1 per ms", 64),
         floor("udp poll, 1 per ms", 64)), "<=", 1.2, "kernel UDP, polling, 1 per ms"),
        ("on loan, 64 B half round trip, 1 per ms, blocking", ratio(loan("lat block, 1 per ms", 64),
         floor("udp block, 1 per ms", 64)), "<=", 1.2, "kernel UDP, blocking, 1 per ms"),
        ("on loan, bandwidth, 1 MiB, RDMA Write", ratio(loan("bw write poll", 1048576), floor("tcp block", 1048576)),
         ">=", 1.3, "kernel TCP"),
        ("on loan, bandwidth, 1 MiB, send", ratio(loan("bw send poll", 1048576), floor("tcp block", 1048576)), ">=", 1.3,
         "kernel TCP"),
        ("on loan, 8 B messages per second", ratio(loan("rate poll", 8), floor("udp block", 8)), ">=", 10,
         "kernel UDP, one per datagram"),
    ]
    mine, theirs = cpu_per_gib(via("bw", "write", 1048576)), cpu_per_gib(tcp(1048576))
    rows.append(("processor time per GiB, 1 MiB, RDMA Write", mine / theirs if mine and theirs else None,
                 "<=", 1.2, "kernel TCP"))
    return rows


def write_goals(out, found):
    print("\n## Goals\n\nRatios are medians over the rounds of the ratio within a round.\n", file=out)
    print("| what | against | goal | measured | |\n|---|---|---|---|---|", file=out)
    for what, value, sign, limit, against in goals(found):
        if value is None:
            verdict = "not measured"
        else:
            verdict = "holds" if (value <= limit if sign == "<=" else value >= limit) else "**missed**"
        sign = "≤" if sign == "<=" else "≥"
        print(f"| {what} | {against} | {sign} {limit} | {number(value)} | {verdict} |", file=out)


# ---- tables -------------------------------------------------------------------------------------------

# The references of the ratio column of each group, in order of preference.
REFERENCES = {
    "lat": ["udp block", "memory"],
    "bw": ["tcp block", "memory"],
    "rate": ["udp block"],
    "both": ["tcp block"],
}

TITLES = {
    "lat": "Half round trip",
    "bw": "Bandwidth, one direction",
    "both": "Bandwidth, both directions at once: the sum of the two",
    "rate": "Messages of 8 bytes per second",
    "direct": "Programs of one host, with rings between them and without",
    "path": "The data path in vipd (veth), and on loan to the program (veth_loan)",
    "links": "Our links beside each other",
    "data": "Segments of a message; buffers that messages take turns in (size or number: how many)",
    "vis": "One active of many connected VIs",
    "peers": "Peers (64 B half round trip; 1 MiB bandwidth)",
}


def reference(found, row):
    for series in REFERENCES.get(row["group"], []):
        other = found.get(row["group"], row["network"], series, row["x"])
        if other and other is not row:
            return other, series
    if row["group"] == "peers": # our value of the same kind; the ratio is peer to ours
        kind = "lat" if row["unit"] == "us" else "bw"
        return found.get(kind, row["network"], "send poll" if kind == "lat" else "send", row["x"]), "ours"
    if row["group"] == "links":
        same = "udp9000" if row["network"].endswith("9000") else "veth"
        other = found.get("links", same, row["series"], row["x"])
        return (None, "") if other is row else (other, "our udp")
    if row["group"] == "path":
        if row["network"] == "veth_loan":
            return found.get("path", "veth", row["series"], row["x"]), "in vipd"
        test = {"us": "lat " + row["series"].partition(" ")[2], "MB/s": "bw send", "1/s": "rate"}[row["unit"]]
        other = found.get("path", "veth", test, row["x"])
        return (None, "") if other is row else (other, "in vipd")
    if row["group"] == "direct":
        other = found.get("direct", "norings", row["series"], row["x"])
        return (None, "") if other is row else (other, "without rings")
    if row["group"] == "both":
        return found.get("bw", row["network"], row["series"], row["x"]), "one direction"
    if row["group"] == "data" and row["series"].endswith("each"): # shows the cost of address translation
        together = row["series"].replace("registered each", "registered together")
        return found.get("data", row["network"], together, row["x"]), "registered together"
    if row["group"] == "data":
        other = found.get("data", row["network"], row["series"], 1)
        one = "1 segment" if row["series"].endswith("segments") else "1 buffer"
        return (None, "") if other is row else (other, one)
    if row["group"] == "vis":
        return found.get("vis", row["network"], row["series"], 1), "1 VI"
    return None, ""


def write_group(out, found, rows, group):
    print(f"\n## {TITLES[group]}\n", file=out)
    print("| network | what | size or number | median | min | max | unit | ratio | to | "
          "us of processor per message: application, vipd |\n|---|---|---|---|---|---|---|---|---|---|", file=out)
    for row in rows:
        values = present(row["values"])
        other, name = reference(found, row)
        share = ratio(row, other)
        cpu = "-"
        if values and row["messages"]:
            cpu = ", ".join(number(per_message_us(row, key)) for key in ("cpu_app_s", "cpu_vipd_s"))
        cells = [row["network"], row["series"], number(row["x"]) if row["x"] != "" else ""]
        cells += [number(median(values)), number(min(values)), number(max(values))] if values else ["failed"] * 3
        cells += [row["unit"], number(share) if share else "", name if share else "", cpu]
        print("| " + " | ".join(cells) + " |", file=out)


def write_calls(out, row):
    rounds = present(row["values"])
    if not rounds:
        return
    print("\n## Calls beside the data path\n\n| call | median us | min | max |\n|---|---|---|---|", file=out)
    for call in rounds[0]:
        values = [calls[call] for calls in rounds]
        print(f"| {call} | {number(median(values))} | {number(min(values))} | {number(max(values))} |", file=out)


def write_csv(path, results):
    with open(path, "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["group", "network", "series", "x", "unit", "median", "min", "max", "command"])
        for row in results["measurements"]:
            values = present(row["values"])
            if values and not isinstance(values[0], dict):
                table.writerow([row["group"], row["network"], row["series"], row["x"], row["unit"],
                                median(values), min(values), max(values), row["command"]])


def write(results, folder):
    found = Results(results)
    write_csv(os.path.join(folder, "results.csv"), results)
    drawn, undrawn = plots.draw(results, folder)
    with open(os.path.join(folder, "report.md"), "w", encoding="utf-8") as out:
        print(f"# Benchmark report\n\n{machine.sentence(results['machine'])} Sources: {results['commit']}. "
              f"{results['rounds']} rounds of everything in turn, {results['elapsed_s']:.0f} s. Nothing is "
              f"pinned to a processor.", file=out)
        write_goals(out, found)
        for path, title in drawn:
            print(f"\n![{title}]({path})", file=out)
        for group in TITLES:
            rows = [row for row in results["measurements"] if row["group"] == group]
            if rows:
                write_group(out, found, rows, group)
        for row in results["measurements"]:
            if row["group"] == "cost":
                write_calls(out, row)
        absent = results["absent"] + [{"what": "plots", "why": undrawn}] * bool(undrawn)
        if absent:
            print("\n## Not measured\n", file=out)
            for entry in absent:
                print(f"* {entry['what']}: {entry['why']}", file=out)
        if results["failures"]:
            print("\n## Failed\n", file=out)
            for entry in results["failures"]:
                print(f"* {entry['id']}: {entry['why']}", file=out)
