"""am.md: the tables and plots of Active Messages, from results.json alone, with published figures
beside ours."""

import os
from statistics import median

import am
import machine
import plots
from report import number, present

MIB = 1048576

# Figures of "An Analysis of VI Architecture Primitives" (2001) and "Design Challenges of Virtual
# Networks" (1999). They are of other machines, so compare shares only, not times. Figures that were
# not available are absent.
PUBLISHED = {
    "half_rtt": "30", "delta": "5.4 (18 % of the whole)", "limited": "0.5 to 0.75",
}
PARTS = {
    "base_vi": "base VI", "events": "event notification", "flow_control": "flow control", "semantics": "semantics",
    "overhead": "all",
}


class Found:
    """Values of one network by series, x, and name in the dictionary: one value per round, None if
    the round failed."""

    def __init__(self, results, network):
        self.rows = {(row["series"], row["x"]): row["values"] for row in results["measurements"]
                     if row["group"] == "am" and row["network"] == network}

    def rounds(self, series, x="", name=None):
        values = self.rows.get((series, x), [])
        return [value if value is None or name is None else value.get(name) for value in values]

    def value(self, series, x="", name=None):
        values = present(self.rounds(series, x, name))
        return median(values) if values else None

    def ratio(self, ours, other):
        """Median of the ratios of the rounds. `ours` and `other`: arguments for rounds()."""
        pairs = [a / b for a, b in zip(self.rounds(*ours), self.rounds(*other)) if a is not None and b]
        return median(pairs) if pairs else None


def best(found, server):
    """The number of clients with which the server gave the most answers."""
    counts = [x for (series, x) in found.rows if series == server and found.value(server, x, "answers")]
    return max(counts, key=lambda x: found.value(server, x, "answers")) if counts else None


def goals(found):
    """Returns the goals as (what, measured, sign, limit)."""
    half = found.ratio(("AM v3", "", "half_rtt"), ("VIPL half round trip", 48))
    rows = [
        ("what AM adds to the half round trip of raw VIPL", half - 1 if half is not None else None, "<=", 0.15),
        ("bandwidth at 1 MiB against VIPL's RDMA Write",
         found.ratio(("AM v3", "", f"bw_{MIB}"), ("VIPL write", MIB)), ">=", 0.95),
        ("event notification's share of the overhead",
         found.ratio(("parts", "", "events"), ("parts", "", "overhead")), "<=", 0.15),
    ]
    for server, text in am.SERVERS.items():
        most = max((x for (series, x) in found.rows if series == server), default=None)
        if most is None:
            continue
        rows.append((f"{text}: answers with {most} clients against the best count",
                     found.ratio((server, most, "answers"), (server, best(found, server), "answers")), ">=", 0.9))
        rows.append((f"{text}: Jain's index with {most} clients", found.value(server, most, "jain"), ">=", 0.95))
        rows.append((f"{text}: answers with {most} clients, connections limited {am.LIMIT}:1, against unlimited",
                     found.ratio((f"{server} limited", most, "answers"), (server, most, "answers")), ">=", 0.75))
    return rows


def write_goals(out, found):
    print("\n| goal | | measured | |\n|---|---|---|---|", file=out)
    for what, value, sign, limit in goals(found):
        verdict = "not measured"
        if value is not None:
            verdict = "holds" if (value <= limit if sign == "<=" else value >= limit) else "**missed**"
        print(f"| {what} | {'≤' if sign == '<=' else '≥'} {limit} | {number(value)} | {verdict} |", file=out)


def write_logp(out, found):
    print("\nLogP of short messages, microseconds (medians of rounds that take turns):\n", file=out)
    print("| | raw VIPL | AM v1 | AM v3 | published |\n|---|---|---|---|---|", file=out)
    raw = found.value("VIPL half round trip", 48)
    names = {"half_rtt": "half round trip", "o_s": "o_s", "o_r": "o_r", "L": "L", "g": "g"}
    for name, text in names.items():
        cells = [raw if name == "half_rtt" else None] + [found.value(f"AM {v}", "", name) for v in am.VARIANTS]
        print(f"| {text} | {' | '.join(number(c) for c in cells)} | {PUBLISHED.get(name, '-')} |", file=out)
    added = [found.value(f"AM {v}", "", "half_rtt") for v in am.VARIANTS]
    cells = [number(a - raw) if a and raw else "-" for a in added]
    print(f"| what AM adds | | {' | '.join(cells)} | {PUBLISHED['delta']} |", file=out)


def write_parts(out, found):
    print("\nOverhead of a short request and its reply at the requester, by part (an instrumented build):\n", file=out)
    print("| part | nanoseconds | share | published share |\n|---|---|---|---|", file=out)
    for name, text in PARTS.items():
        share = found.ratio(("parts", "", name), ("parts", "", "overhead"))
        percent = f"{100 * share:.0f} %" if share is not None else "-"
        print(f"| {text} | {number(found.value('parts', '', name))} | {percent} | - |", file=out)


def write_bandwidth(out, found):
    print("\nBandwidth of long messages, MB/s:\n", file=out)
    print("| bytes | raw VIPL, RDMA Write | AM v1 | AM v3 | v3 against raw |\n|---|---|---|---|---|", file=out)
    for size in am.SIZES:
        cells = [found.value("VIPL write", size)] + [found.value(f"AM {v}", "", f"bw_{size}") for v in am.VARIANTS]
        cells.append(found.ratio(("AM v3", "", f"bw_{size}"), ("VIPL write", size)))
        print(f"| {size} | {' | '.join(number(c) for c in cells)} |", file=out)


def write_contention(out, found):
    print(f"\nA server and its clients, answers per second; limited: one connection per {am.LIMIT} clients "
          f"(published against unlimited: {PUBLISHED['limited']}):\n", file=out)
    print("| server | clients | answers | per client: least to most | Jain's index | limited | against unlimited | "
          "Jain's index, limited | connections made, limited |\n|---|---|---|---|---|---|---|---|---|", file=out)
    for server, text in am.SERVERS.items():
        for x in sorted(x for (series, x) in found.rows if series == server):
            limited = f"{server} limited"
            value = lambda name, s=server, n=x: number(found.value(s, n, name))
            print(f"| {text} | {x} | {value('answers')} | {value('least')} to {value('most')} | {value('jain')} | "
                  f"{value('answers', limited)} | "
                  f"{number(found.ratio((limited, x, 'answers'), (server, x, 'answers')))} | "
                  f"{value('jain', limited)} | {value('connects', limited)} |", file=out)


def draw(folder, network, found):
    """Draws the plots; returns them as [(file, title)]."""
    def curve(series, points):
        return (series, [(x, y) for x, y in points if y])

    wanted = [
        (f"am-bandwidth-{network}", f"Bandwidth of long messages, {network}", "MB/s", "message size, bytes", "%.0s%cB", [
            curve("VIPL, RDMA Write", [(s, found.value("VIPL write", s)) for s in am.SIZES]),
            curve("AM v3", [(s, found.value("AM v3", "", f"bw_{s}")) for s in am.SIZES]),
            curve("AM v1", [(s, found.value("AM v1", "", f"bw_{s}")) for s in am.SIZES])]),
    ]
    clients = sorted({x for (series, x) in found.rows if series in am.SERVERS})
    for name, title in [("answers", "Answers per second of all clients"), ("jain", "Jain's index")]:
        lines = []
        for server, text in am.SERVERS.items():
            lines.append(curve(text, [(x, found.value(server, x, name)) for x in clients]))
            lines.append(curve(f"{text}, limited", [(x, found.value(f"{server} limited", x, name)) for x in clients]))
        wanted.append((f"am-{name}-{network}", f"{title}, {network}", name, "clients", "%g", lines))
    drawn = []
    for name, title, ylabel, xlabel, xformat, lines in wanted:
        if plots.plot(folder, name, title, ylabel, lines, xlabel, xformat):
            drawn.append((f"{name}.svg", title))
    return drawn


def write(results, folder):
    networks = sorted({row["network"] for row in results["measurements"] if row["group"] == "am"})
    with open(os.path.join(folder, "am.md"), "w", encoding="utf-8") as out:
        print(f"# Active Messages\n\n{machine.sentence(results['machine'])} Sources: {results['commit']}. "
              f"{results['rounds']} rounds of everything in turn, {results['elapsed_s']:.0f} s. "
              f"Ratios are medians of the ratio within a round.", file=out)
        for network in networks:
            found = Found(results, network)
            print(f"\n## {network}", file=out)
            for part in [write_goals, write_logp, write_parts, write_bandwidth, write_contention]:
                part(out, found)
            if plots.available():
                for path, title in draw(folder, network, found):
                    print(f"\n![{title}]({path})", file=out)
        for entry in results["failures"]:
            print(f"\n* failed: {entry['id']}: {entry['why']}", file=out)
