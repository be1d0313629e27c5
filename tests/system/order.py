"""The files of a folder are a stack: each file calls only files below it. The file ORDER of a folder
names its files and folders from bottom to top, and at its end ("up FILE FILE") the calls that still
go up. This test reads the symbols of the object files. It refuses a call up that ORDER does not
list, and a listed call that no longer exists.

usage: order.py BUILD_DIR            check each folder that has an ORDER
       order.py BUILD_DIR FOLDER     print the calls inside the folder, with their functions
"""

import collections
import glob
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def objects(build):
    """{source file: object file}. Behind CMakeFiles/TARGET.dir, an object's path is its source's path."""
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
    listing = subprocess.run(["nm", "-A", "-g", *paths.values()],
                             capture_output=True, text=True, check=True).stdout
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


def entry(folder, source):
    """The entry of the folder that contains the source: a file, or a folder with / at its end; or None."""
    if not source.startswith(folder + os.sep):
        return None
    first, *deeper = os.path.relpath(source, folder).split(os.sep)
    return first + "/" if deeper else first


def inside(folder, arrows):
    """The calls between two entries of the folder."""
    between = collections.defaultdict(list)
    for pair, names in arrows.items():
        caller, called = (entry(folder, source) for source in pair)
        if caller and called and caller != called:
            between[caller, called] += names
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
    """The faults of this folder, one sentence each; and the number of calls that go up."""
    entries, up = read_order(folder)
    height = {entry: number for number, entry in enumerate(entries)}
    wrong = []
    if len(height) != len(entries):
        wrong.append(f"{folder}/ORDER names an entry twice")
    for name in sorted({entry(folder, source) for source in sources} - {None} - height.keys()):
        wrong.append(f"{folder}/ORDER does not name {name}")
        height[name] = len(height)
    for name in entries:
        if not os.path.exists(os.path.join(TOP, folder, name)):
            wrong.append(f"{folder}/ORDER names {name}, which does not exist")
    rising = {(caller, called): names for (caller, called), names in inside(folder, arrows).items()
              if height[caller] < height[called]}
    for caller, called in sorted(rising.keys() - up):
        wrong.append(f"{folder}: {caller} calls {called}, which stands above it: "
                     f"{', '.join(rising[caller, called])}")
    for caller, called in sorted(up - rising.keys()):
        wrong.append(f"{folder}: {caller} does not call up to {called} any more: "
                     f"remove the line from {folder}/ORDER")
    return wrong, len(rising)


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
        between = inside(os.path.normpath(sys.argv[2]), arrows)
        for (caller, called), names in sorted(between.items()):
            print(f"{caller} -> {called}: {', '.join(sorted(set(names)))}")
        return 0
    orders = [glob.glob(os.path.join(TOP, depth, "ORDER")) for depth in ("*", "*/*")]
    folders = sorted(os.path.relpath(os.path.dirname(path), TOP) for path in sum(orders, []))
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
