#!/usr/bin/env python3
"""Reads a file that callgrind wrote, for bench/instructions.

callgrind.py calls FILE NAME...          instructions of a call of each NAME, with what NAME calls
callgrind.py groups FILE SOURCES COUNT   instructions of one of COUNT messages, by group of files
"""
import re
import sys
from collections import Counter

# The source files of vipd in each group. A file with instructions that is in no group is an error.
GROUPS = {
    "take": "vipd/nic/sq.c vipd/nic/post.c vipd/nic/backlog.c vipd/path/post. "
            "vipd/engine/post.c vipd/engine/list.c vipd/engine/queue.c",
    "engine-send": "vipd/engine/tx.c vipd/engine/finish.c vipd/engine/resend.c vipd/engine/cut.c "
                   "vipd/engine/ready.c vipd/engine/pace.c "
                   "vipd/engine/heap.c vipd/engine/rand.c vipd/engine/skip.c vipd/engine/mtu.c "
                   "vipd/engine/eng.c vipd/engine/tick.c vipd/engine/bits.h vipd/engine/ready.h",
    "engine-receive": "vipd/engine/rx.c vipd/engine/reorder.c vipd/engine/place.c vipd/engine/read.c "
                      "vipd/engine/state.c vipd/engine/news.c vipd/engine/fail.c vipd/engine/rebind.c",
    "acknowledge": "vipd/engine/ack.c vipd/engine/loss.c vipd/engine/rtt.c vipd/engine/window.c "
                   "vipd/engine/cc.c vipd/engine/cc_cubic.c vipd/engine/cc_delay.c",
    "place": "vipd/nic/place.c vipd/nic/place_ask.c vipd/registry/",
    "owner": "libvipl/loan/ libvipl/region.h",
    "complete": "vipd/nic/complete.c vipd/nic/layout.",
    "packet": "vipd/nic/tx.c vipd/nic/rx.c vipd/nic/resolve.c vipd/path/tx. vipd/path/rx. "
              "vipd/nic/conn.c vipd/nic/source.c vipd/nic/held.c vipd/nic/kept_bytes.c vipd/nic/self.c vipd/nic/map.c proto/ vipd/link/",
    "turn": "vipd/nic/nic.c vipd/nic/session.c vipd/nic/share.c vipd/nic/vi.c vipd/nic/direct.c "
            "vipd/nic/direct_again.c vipd/nic/loan.c vipd/nic/loan_sock.c vipd/nic/sends.c "
            "vipd/nic/wait.c vipd/nic/connect.c vipd/nic/conn_end.c vipd/nic/rebind.c "
            "vipd/nic/stats.c vipd/nic/see.c vipd/nic/random.c "
            "vipd/nic/list.h vipd/engine/cm vipd/engine/loan",
}
TESTS = ("bench/", "tests/")


class Profile:
    """The costs in a file of callgrind, by function: (source file, name)."""

    def __init__(self, path):
        self.alone = Counter()
        self.whole = Counter()
        self.called = Counter()
        self.edges = Counter()  # cost of the calls of (source file, source file)
        names = {"f": {}, "n": {}}
        source = function = callee = None
        callee_source = None
        of_call = False
        for line in open(path, encoding="utf-8"):
            found = re.match(r"(fl|fi|fe|fn|cfn|cfi|cfl)=(\(\d+\))(?: (.*))?$", line)
            if found:
                kind, number, name = found.groups()
                table = names["n" if kind in ("fn", "cfn") else "f"]
                if name is not None:
                    table[number] = name.strip()
                name = table[number]
                if kind == "fl":
                    source = name
                elif kind == "fn":
                    function, callee_source = (source, name), None
                elif kind in ("cfi", "cfl"):
                    callee_source = name
                elif kind == "cfn":
                    callee = (callee_source or source, name)
                    callee_source = None
            elif line.startswith("calls="):
                self.called[callee] += int(line[len("calls="):].split()[0])
                of_call = True
            elif re.match(r"[-+*\d]", line) and function:
                cost = int(line.split()[1])
                self.whole[function] += cost
                if of_call:
                    self.edges[(function[0], callee[0])] += cost
                else:
                    self.alone[function] += cost
                of_call = False


def calls(path, names):
    """Print for each function the instructions of a call."""
    profile = Profile(path)
    for name in names:
        count = sum(n for (_, called), n in profile.called.items() if called == name)
        whole = sum(n for (_, function), n in profile.whole.items() if function == name)
        if count == 0:
            sys.exit(f"callgrind.py: {name} was not called")
        print(name, round(whole / count))


def group_of(source):
    """The group of a source file whose path begins at the top of the project."""
    for group, places in GROUPS.items():
        for place in places.split():
            if source == place or (not place.endswith(".c") and source.startswith(place)):
                return group
    sys.exit(f"callgrind.py: {source} is counted and belongs to no group (GROUPS)")


def groups(path, sources, count):
    """Print for each group that has any the instructions of a message."""
    total = Counter()
    profile = Profile(path)
    for (source, _), cost in profile.alone.items():
        if not source.startswith(sources + "/"):
            total["libraries"] += cost  # copies and checksums: the code depends on the processor
            continue
        source = source[len(sources) + 1:]
        if not source.startswith(TESTS):
            total[group_of(source)] += cost
    # proto/ also has the program's end of a ring, which the test calls: do not count these calls.
    for (caller, callee), cost in profile.edges.items():
        caller, callee = (place.removeprefix(sources + "/") for place in (caller, callee))
        if caller.startswith(TESTS) and callee.startswith("proto/"):
            total[group_of(callee)] -= cost
    for group in [*GROUPS, "libraries"]:
        if total[group] == 0:
            continue
        print(group, round(total[group] / count))


def main():
    """Do what the first argument says."""
    what, path, *rest = sys.argv[1:]
    if what == "calls":
        calls(path, rest)
    else:
        groups(path, rest[0], int(rest[1]))


main()
