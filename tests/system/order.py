"""The files of a folder are a stack: each calls only those below it. A folder's file ORDER names its files and folders
from bottom to top, and at its end ("up FILE FILE") the calls that still go up. Here the symbols of the object files are
held against it: a call up that is not listed is refused, and so is a listed one that has gone, so the list can only
get shorter.

usage: order.py BUILD_DIR            check each folder that has an ORDER
       order.py BUILD_DIR FOLDER     print the calls inside the folder: who, whom, by which functions
"""

import collections
import glob
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def objects(build):
    """{source file: object file}. An object's path has that of its source, after CMakeFiles/TARGET.dir."""
    found = {}
    for path in glob.glob(os.path.join(build, "**", "*.c.o"), recursive=True):
        place = os.path.relpath(path, build).split(os.sep)
        if "CMakeFiles" not in place or place[0] in ("tests", "gen"):
            continue
        at = place.index("CMakeFiles")
        rest = [".." if part == "__" else part for part in place[at + 2:]]
        source = os.path.normpath(os.path.join(*place[:at], *rest))[:-len(".o")]
        if os.path.exists(os.path.join(TOP, source)):
            found[source] = path
    return found


def symbols(paths):
    """For each object its symbols: ({defined}, {used})."""
    listing = subprocess.run(["nm", "-A", "-g", *paths.values()], capture_output=True, text=True, check=True).stdout
    source_of = {path: source for source, path in paths.items()}
    found = {source: (set(), set()) for source in paths}
    for line in listing.splitlines():
        path, rest = line.split(":", 1)
        *_, kind, name = rest.split()
        found[source_of[path]][kind == "U"].add(name)
    return found


def calls(found):
    """{(caller, called): [names]} of source files."""
    definer = {name: source for source, (defined, _) in found.items() for name in defined}
    arrows = collections.defaultdict(list)
    for source, (_, used) in found.items():
        for name in sorted(used):
            if definer.get(name, source) != source:
                arrows[source, definer[name]].append(name)
    return arrows


def inside(folder, arrows):
    """The arrows between two entries (files, folders with a / at the end) of the folder."""
    def entry(source):
        rest = os.path.relpath(source, folder)
        return rest.split(os.sep)[0] + "/" if os.sep in rest else rest

    between = collections.defaultdict(list)
    for (caller, called), names in arrows.items():
        if caller.startswith(folder + os.sep) and called.startswith(folder + os.sep) and entry(caller) != entry(called):
            between[entry(caller), entry(called)] += names
    return between


def read_order(folder):
    """([entries from bottom to top], {(caller, called)} of the calls that go up)"""
    entries, up = [], set()
    with open(os.path.join(TOP, folder, "ORDER"), encoding="utf-8") as lines:
        for line in lines:
            words = line.split("#")[0].split()
            if words and words[0] == "up":
                up.add((words[1], words[2]))
            elif words:
                entries.append(words[0])
    return entries, up


def check(folder, sources, arrows):
    """What is wrong in this folder, one sentence each."""
    entries, up = read_order(folder)
    height = {entry: number for number, entry in enumerate(entries)}
    wrong = []
    if len(height) != len(entries):
        wrong.append(f"{folder}/ORDER names an entry twice")
    for source in sources:
        if source.startswith(folder + os.sep):
            rest = os.path.relpath(source, folder)
            entry = rest.split(os.sep)[0] + "/" if os.sep in rest else rest
            if entry not in height:
                wrong.append(f"{folder}/ORDER does not name {entry}")
                height[entry] = len(height)
    for entry in entries:
        if not os.path.exists(os.path.join(TOP, folder, entry)):
            wrong.append(f"{folder}/ORDER names {entry}, which does not exist")
    rising = {pair: names for pair, names in inside(folder, arrows).items() if height[pair[0]] < height[pair[1]]}
    for pair in sorted(rising.keys() - up):
        wrong.append(f"{folder}: {pair[0]} calls {pair[1]}, which stands above it: {', '.join(rising[pair])}")
    for pair in sorted(up - rising.keys()):
        wrong.append(f"{folder}: {pair[0]} does not call up to {pair[1]} any more: remove the line from {folder}/ORDER")
    return list(dict.fromkeys(wrong)), len(rising)


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__[__doc__.index("usage:"):].strip(), file=sys.stderr)
        return 2
    paths = objects(sys.argv[1])
    if not paths:
        print(f"no object files in {sys.argv[1]}")
        return 1
    arrows = calls(symbols(paths))
    if len(sys.argv) == 3:
        for (caller, called), names in sorted(inside(os.path.normpath(sys.argv[2]), arrows).items()):
            print(f"{caller} -> {called}: {', '.join(sorted(set(names)))}")
        return 0
    folders = sorted(os.path.relpath(os.path.dirname(path), TOP)
                     for path in glob.glob(os.path.join(TOP, "*", "ORDER")) + glob.glob(os.path.join(TOP, "*", "*", "ORDER")))
    bad = 0
    for folder in folders:
        wrong, rising = check(folder, paths, arrows)
        bad += len(wrong)
        print("\n".join(wrong + [f"{folder}: {rising} calls go up"]))
    if not folders:
        print("no folder has an ORDER")
        return 1
    print("order: every call is as the files ORDER say" if bad == 0 else f"order: {bad} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
