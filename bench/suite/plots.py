"""The plots of a report, drawn by gnuplot from results.json alone."""

import os
import shutil
import subprocess
from statistics import median

COLOURS = ["#0b6e99", "#d1495b", "#6a994e", "#e09f3e", "#7b4b94", "#555555"]


def points(results, group, network, series):
    found = []
    for row in results["measurements"]:
        values = [value for value in row["values"] if value is not None]
        if (row["group"], row["network"], row["series"]) == (group, network, series) and values and row["x"]:
            found.append((row["x"], median(values)))
    return sorted(found)


def cpu_points(results, network, series):
    """Points of a plot: processor time of all processes per message of a stream, by size."""
    found = []
    for row in results["measurements"]:
        if (row["group"], row["network"], row["series"]) != ("bw", network, series) or not row["messages"]:
            continue
        costs = [(app + vipd) / messages * 1e6 for app, vipd, messages in
                 zip(row["cpu_app_s"], row["cpu_vipd_s"], row["messages"]) if messages]
        if costs:
            found.append((row["x"], median(costs)))
    return sorted(found)


def available():
    return shutil.which("gnuplot") is not None


def plot(folder, name, title, ylabel, lines, xlabel="message size, bytes", xformat="%.0s%cB"):
    """Draws one plot as SVG and PNG. lines: (title, [(x, y)]). Returns False if no line has two
    points."""
    lines = [(text, data) for text, data in lines if len(data) > 1]
    if not lines:
        return False
    blocks, curves = [], []
    for index, (text, data) in enumerate(lines):
        blocks.append(f"$d{index} << E\n" + "\n".join(f"{x} {y}" for x, y in data) + "\nE")
        curves.append(f'$d{index} with linespoints lw 2 pt 7 ps 0.5 lc rgb "{COLOURS[index % len(COLOURS)]}" '
                      f'title "{text}"')
    common = (f'set title "{title}"\nset xlabel "{xlabel}"\nset ylabel "{ylabel}"\n'
              f'set logscale xy\nset format x "{xformat}"\nset grid\nset key left top\n')
    for terminal, ending in [("svg size 800,520 background 'white' font 'sans,14'", "svg"),
                             ("pngcairo size 800,520 font 'sans,11'", "png")]:
        script = (f"set terminal {terminal}\nset output '{os.path.join(folder, name)}.{ending}'\n"
                  + "\n".join(blocks) + "\n" + common + "plot " + ", ".join(curves) + "\n")
        done = subprocess.run(["gnuplot"], input=script, text=True, capture_output=True, check=False)
        if done.returncode != 0 and ending == "svg":
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return True


def draw(results, folder):
    """Draws all plots. Returns ([(file, title)], reason why there are none)."""
    if not available():
        return [], "gnuplot is not installed"
    drawn = []
    for network in ["veth", "udp", "loop"]:
        wanted = [
            (f"latency-{network}", f"Half round trip, {network}", "us", [
                ("VIA, polling", points(results, "lat", network, "send poll")),
                ("VIA, blocking", points(results, "lat", network, "send block")),
                ("kernel UDP, blocking", points(results, "lat", network, "udp block")),
                ("kernel TCP, blocking", points(results, "lat", network, "tcp block"))]),
            (f"bandwidth-{network}", f"Bandwidth, {network}", "MB/s", [
                ("VIA, send", points(results, "bw", network, "send")),
                ("VIA, RDMA Write", points(results, "bw", network, "write")),
                ("kernel TCP", points(results, "bw", network, "tcp block")),
                ("UDP, segmentation offload", points(results, "bw", network, "gso block")),
                ("memcpy", points(results, "bw", network, "memory"))]),
            (f"cost-{network}", f"Processor time per message, {network}", "us", [
                ("VIA, send: programs and vipd", cpu_points(results, network, "send")),
                ("VIA, RDMA Write: programs and vipd", cpu_points(results, network, "write")),
                ("kernel TCP", cpu_points(results, network, "tcp block"))]),
        ]
        for name, title, ylabel, lines in wanted:
            try:
                if plot(folder, name, title, ylabel, lines):
                    drawn.append((f"{name}.svg", title))
            except RuntimeError as error:
                return drawn, f"gnuplot: {error}"
    return drawn, None
