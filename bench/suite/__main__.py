"""The measuring program of bench/run: measures in interleaved rounds, then writes results.json,
CSV, plots and a report. Before this, the script bench/run installs packages and builds."""

import argparse
import json
import os
import sys
import time

import am_report
import machine
import mpi
import plan
import report
import splitc
from networks import Networks
from runner import Runner

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def parse():
    parser = argparse.ArgumentParser(prog="bench/run", description="Measure VIA and its peers.")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds, under 2 minutes")
    parser.add_argument("--only", metavar="GROUPS", help="these groups only, with commas")
    parser.add_argument("--rounds", type=int, help="rounds of everything (5; --quick: 2)")
    parser.add_argument("--out", default=os.path.join(TOP, "build", "bench"), help="where results go")
    parser.add_argument("--build", default=os.path.join(TOP, "build", "release"), help="what to measure")
    parser.add_argument("--list", action="store_true", help="name the groups and stop")
    return parser.parse_args()


def main():
    args = parse()
    if args.list:
        for name, text in {**plan.GROUPS, **plan.APART}.items():
            print(f"{name:12} {text}")
        return 0
    only = args.only.split(",") if args.only else list(plan.GROUPS)
    unknown = [name for name in only if name not in plan.GROUPS and name not in plan.APART]
    if unknown:
        print(f"bench/run: there is no group {unknown[0]}; --list names them", file=sys.stderr)
        return 2
    rounds = args.rounds or (2 if args.quick else 5)
    os.makedirs(args.out, exist_ok=True)
    described = machine.describe()
    started = time.time()
    with Networks(TOP, os.path.abspath(args.build)) as networks:
        measurements, absent = plan.make(networks, TOP, args.out, only, args.quick)
        print(f"{len(measurements)} measurements, {rounds} rounds. {machine.sentence(described)}")
        runner = Runner(networks)
        for number in range(1, rounds + 1):
            for measurement in measurements:
                runner.measure(measurement)
            print(f"round {number} of {rounds} done, {time.time() - started:.0f} s", flush=True)
            time.sleep(0.2)  # until the vipd of the measurements sleep
            described["others"].append(machine.others(0.5))
    results = {
        "tool": "bench/run",
        "command": " ".join(sys.argv[1:]),
        "rounds": rounds,
        "quick": args.quick,
        "elapsed_s": round(time.time() - started, 1),
        "commit": machine.commit(TOP),
        "machine": described,
        "absent": absent,
        "failures": runner.failures,
        "measurements": [m.as_dict() for m in measurements],
    }
    with open(os.path.join(args.out, "results.json"), "w", encoding="utf-8") as out:
        json.dump(results, out, indent=1)
        out.write("\n")
    written = ["results.json"]
    if "am" in only:
        am_report.write(results, args.out)
        written.append("am.md")
    if "mpi" in only:
        mpi.write(results, args.out)
        written.append("mpi.md")
    if "splitc" in only:
        splitc.write(results, args.out)
        written.append("splitc.md")
    if set(only) - set(plan.APART):
        report.write(results, args.out)
        written += ["report.md", "results.csv"]
    print(f"\nWritten: the plots and {', '.join(written)} in {args.out}.")
    for failure in runner.failures:
        print(f"bench/run: {failure['id']} failed: {failure['why']}")
    return 1 if runner.failures else 0


sys.exit(main())
