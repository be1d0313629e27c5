"""bench/run restarts: the time without messages around an end of vipd, under checked traffic of two
hosts, compared with the start-up time of a vipd process. bench/restarts measures the values."""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from statistics import median

import machine

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ENDS = {"SIGKILL": "killed (SIGKILL)", "SIGTERM": "stopped (SIGTERM)", "takeover": "taken over from (vipd --takeover)",
        "START": "start-up of a vipd, for comparison"}


def quantile(values, share):
    """The smallest value such that at least this share of the values is not larger."""
    ordered = sorted(values)
    return ordered[math.ceil(share * len(ordered)) - 1]


def table(values):
    floor = median(values["START"])
    lines = ["| end of vipd | count | median ms | p99 ms | max ms | median / start-up |", "|---|---|---|---|---|---|"]
    for name, text in ENDS.items():
        ms = values[name]
        lines.append(f"| {text} | {len(ms)} | {median(ms):.1f} | {quantile(ms, 0.99):.1f} | {max(ms):.1f} | "
                     f"{median(ms) / floor:.1f} |")
    return lines


def main():
    parser = argparse.ArgumentParser(prog="bench/run restarts")
    parser.add_argument("--quick", action="store_true", help="5 ends of each kind, not 100")
    parser.add_argument("--times", type=int, help="ends of each kind")
    parser.add_argument("--out", default=os.path.join(TOP, "build", "bench"), help="where results go")
    parser.add_argument("--build", default=os.path.join(TOP, "build", "release"), help="what to measure")
    args = parser.parse_args()
    times = args.times or (5 if args.quick else 100)
    os.makedirs(args.out, exist_ok=True)
    described = machine.describe()
    started = time.time()
    done = subprocess.run([os.path.join(TOP, "bench", "restarts"), args.build, str(times)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        print("bench/run restarts: no result, a message was lost or did not come", file=sys.stderr)
        return 1
    time.sleep(0.2)
    described["others"].append(machine.others(0.5))
    values = {name: [] for name in ENDS}
    for line in done.stdout.splitlines():
        name, _, ms = line.split()
        values[name].append(float(ms))
    text = ["# Ends of vipd under traffic", "", machine.sentence(described), "",
            f"Commit {machine.commit(TOP)}, {time.time() - started:.0f} s. Two programs on 127.0.0.1 and 127.0.0.2 (UDP)",
            "exchange messages, each of which is checked. A vipd ends, and a shell starts the next one at once (a vipd that takes",
            "over starts before). The time is the longest one without a message. No message was lost.", "", *table(values)]
    with open(os.path.join(args.out, "restarts.md"), "w", encoding="utf-8") as out:
        out.write("\n".join(text) + "\n")
    with open(os.path.join(args.out, "restarts.json"), "w", encoding="utf-8") as out:
        json.dump({"tool": "bench/run restarts", "commit": machine.commit(TOP), "machine": described, "ms": values}, out,
                  indent=1)
        out.write("\n")
    print("\n".join(text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
