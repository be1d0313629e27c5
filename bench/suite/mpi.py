"""The group "mpi": Open MPI over VIA, with ofi_rxm and native, beside its own TCP, libfabric's TCP
and the shared memory of Open MPI and MPICH. It measures one-way times of 1 byte to 32 KiB, as table
1 of the paper on MPI over VIA, and bandwidth. One job of bench/peers/mpi.c measures all sizes and
prints "name value" lines, kept as a dictionary."""

import os
import re
import shutil
import subprocess
from statistics import median

import machine
import peers
import plots
from report import Results, number, present
from runner import Measurement

LAT_SIZES = {False: [1, 4, 16, 64, 256, 1024, 4096, 16384, 32768], True: [1, 1024, 32768]}
BW_SIZES = {False: [1024, 16384, 65536, 262144, 1048576, 4194304], True: [1048576]}
MILLISECONDS = {False: "100", True: "50"}
# Raw VIPL is measured with this size in bytes: a message of 8 bytes with the 40 bytes of its
# record.
RAW_BYTES = 48

# veth: a rank in a namespace cannot reach its launcher. So the ranks run outside of the namespaces,
# and only their vipd run inside. For the same reason Open MPI's TCP cannot be measured there.
NETWORKS = {"loop": "both ranks at one vipd", "udp": "two vipd on one host", "veth": "two vipd in two namespaces"}
RXM, NATIVE, TCP, FABRIC_TCP = "VIA, ofi_rxm", "VIA, native", "TCP", "libfabric tcp;ofi_rxm"
SHARED, MPICH_SHARED = "shared memory", "MPICH, shared memory"
SERIES = {
    "loop": [TCP, RXM, NATIVE, FABRIC_TCP, SHARED, MPICH_SHARED],
    "udp": [TCP, RXM, NATIVE, FABRIC_TCP],
    "veth": [RXM, NATIVE],
}


def _launch(build, series):
    """The part of the command line before the program's name."""
    open_mpi = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-n", "2"]
    viampirun = os.path.join(build, "ofi", "viampirun")
    return {
        TCP: open_mpi + ["--mca", "pml", "ob1", "--mca", "btl", "self,tcp"],
        RXM: [viampirun, "--rxm", "--oversubscribe", "-n", "2"],
        NATIVE: [viampirun, "--native", "--oversubscribe", "-n", "2"],
        FABRIC_TCP: open_mpi + ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include",
                                "tcp;ofi_rxm", "--mca", "btl", "self"],
        SHARED: open_mpi + ["--mca", "pml", "ob1", "--mca", "btl", "self,vader"],
        MPICH_SHARED: ["mpiexec.mpich", "-n", "2"],
    }[series]


def _job(network, command, program, quick):
    # The runtime directories of the two vipd differ only in the last letter (bench/hosts).
    other = re.sub("_a$", "_b", network.runtime_dir)
    script = (f'if [ "${{OMPI_COMM_WORLD_RANK-}}" = 1 ]; then VIPD_RUNTIME_DIR={other}; fi; '
              'export VIPD_RUNTIME_DIR; exec "$0" "$@"')
    sizes = ["lat", *LAT_SIZES[quick], "bw", *BW_SIZES[quick]]
    text = peers.output(command + ["sh", "-c", script, program, MILLISECONDS[quick]] + [str(size) for size in sizes],
                        # A waiting rank yields: ranks and vipd may outnumber the processors.
                        {"OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                         "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "VIPD_RUNTIME_DIR": network.runtime_dir})
    values = {name: float(value) for name, value in re.findall(r"^(\w+) ([\d.]+)$", text, re.MULTILINE)}
    if len(values) != len(sizes) - 2:
        raise RuntimeError("its output makes no sense: " + text.strip()[-100:])
    return values


def _compile(top, folder, compiler):
    """Returns (path of the program, None), or (None, reason)."""
    target = os.path.join(folder, f"mpi-{compiler}")
    if not shutil.which(compiler):
        return None, f"{compiler} is not installed (bench/run --peers)"
    done = subprocess.run([compiler, "-O2", "-o", target, os.path.join(top, "bench", "peers", "mpi.c")],
                          capture_output=True, text=True, check=False)
    return (target, "") if done.returncode == 0 else (None, done.stderr.strip().splitlines()[-1])


def make(maker, networks, top, folder):
    """Adds the measurements of the group to the maker; returns what cannot be measured, with
    reasons."""
    absent, programs = [], {}
    for compiler in ["mpicc.openmpi", "mpicc.mpich"]:
        programs[compiler], why = _compile(top, folder, compiler)
        if not programs[compiler]:
            absent.append({"what": compiler, "why": why})
    provider = os.path.exists(os.path.join(networks.build, "ofi", "libvipl-fi.so"))
    if not provider:
        absent.append({"what": "MPI over VIA", "why": "libvipl-fi.so is not built (libfabric-dev)"})
    for name, all_series in SERIES.items():
        network = networks.by_name.get(name)
        if not network or (maker.quick and name == "udp"):
            continue
        for series in all_series:
            program = programs["mpicc.mpich" if series == MPICH_SHARED else "mpicc.openmpi"]
            if not program or (series in (RXM, NATIVE) and not provider):
                continue
            command = _launch(networks.build, series)
            maker.list.append(Measurement(
                f"mpi/{name}/{series}", "mpi", network, series, "", "",
                peer=lambda network=network, command=command, program=program:
                    _job(network, command, program, maker.quick)))
        maker.via("mpi", network, "lat", "raw VIPL", RAW_BYTES, "--op", "write-imm", "--wait", "poll", "--cq")
    return absent


# ---- report ---------------------------------------------------------------------------------------------


class Table:
    """The measurements of one network."""

    def __init__(self, found, network):
        self.network = network
        self.rows = {series: found.get("mpi", network, series, "") for series in SERIES[network]}
        raw = found.get("mpi", network, "raw VIPL", RAW_BYTES)
        self.raw = raw["values"] if raw else []

    def rounds(self, series, name):
        row = self.rows.get(series)
        return [value.get(name) if value else None for value in row["values"]] if row else []

    def value(self, series, name):
        values = present(self.rounds(series, name))
        return median(values) if values else None

    def ratio(self, ours, other, name):
        """Median of the ratios of the rounds."""
        pairs = [a / b for a, b in zip(self.rounds(ours, name), self.rounds(other, name)) if a is not None and b]
        return median(pairs) if pairs else None

    def worst(self, ours, kind, sizes, pick):
        """The worst ratio to TCP among these sizes; `pick` is max or min."""
        ratios = present([self.ratio(ours, TCP, f"{kind}_{size}") for size in sizes])
        return pick(ratios) if ratios else None


def goals(table, quick):
    """Returns the goals as (what, measured, sign, limit)."""
    rows = []
    limit = 1.0 if table.network == "loop" else 1.3
    for ours in [RXM, NATIVE]:
        short = [size for size in LAT_SIZES[quick] if size <= 4096]
        long = [size for size in BW_SIZES[quick] if size >= 1048576]
        if TCP in SERIES[table.network]:
            rows.append((f"{ours}: one-way time, 1 B to 4 KiB, against Open MPI's TCP, the worst size",
                         table.worst(ours, "lat", short, max), "<=", limit))
            rows.append((f"{ours}: bandwidth from 1 MiB on, against Open MPI's TCP, the worst size",
                         table.worst(ours, "bw", long, min), ">=", 1.3))
        added = [a - b for a, b in zip(table.rounds(ours, "lat_1"), table.raw) if a is not None and b is not None]
        rows.append((f"{ours}: 1 B above raw VIPL's RDMA Write with immediate of {RAW_BYTES} B, us",
                     median(added) if added else None, "<=", 0.6))
    return rows


def _write_goals(out, table, quick):
    print("\n| goal | | measured | |\n|---|---|---|---|", file=out)
    for what, value, sign, limit in goals(table, quick):
        verdict = "not measured"
        if value is not None:
            verdict = "holds" if (value <= limit if sign == "<=" else value >= limit) else "**missed**"
        # A difference of times may be negative.
        text = "-" if value is None else f"{value:.3g}"
        print(f"| {what} | {'≤' if sign == '<=' else '≥'} {limit} | {text} | {verdict} |", file=out)


def _write_sizes(out, table, kind, sizes, title):
    shown = [series for series in SERIES[table.network] if table.rows[series]]
    against = RXM in shown and TCP in shown
    heads = shown + ([f"{RXM} / TCP", f"{NATIVE} / TCP"] if against else [])
    print(f"\n{title}:\n\n| bytes | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 1)}", file=out)
    for size in sizes:
        name = f"{kind}_{size}"
        cells = [number(table.value(series, name)) for series in shown]
        if against:
            cells += [number(table.ratio(ours, TCP, name)) for ours in (RXM, NATIVE)]
        print(f"| {size:,} | {' | '.join(cells)} |", file=out)


def _draw(out, table, folder, quick):
    for kind, sizes, title, unit in [("lat", LAT_SIZES[quick], "One-way time", "us"),
                                     ("bw", BW_SIZES[quick], "Bandwidth", "MB/s")]:
        lines = []
        for series in SERIES[table.network]:
            points = [(size, table.value(series, f"{kind}_{size}")) for size in sizes]
            lines.append((series, [(size, value) for size, value in points if value]))
        name = f"mpi-{kind}-{table.network}"
        if plots.plot(folder, name, f"{title}, {table.network}", unit, lines):
            print(f"\n![{title}, {table.network}]({name}.svg)", file=out)


def write(results, folder):
    """Writes mpi.md and its plots, from results.json alone."""
    found, quick = Results(results), results["quick"]
    tables = [Table(found, name) for name in NETWORKS]
    with open(os.path.join(folder, "mpi.md"), "w", encoding="utf-8") as out:
        print(f"# MPI over VIA\n\n{machine.sentence(results['machine'])} Sources: {results['commit']}. "
              f"{results['rounds']} rounds of everything in turn; ratios are medians of those within a round. The "
              "figures that the paper published were not at hand.", file=out)
        for table in tables:
            if not any(table.rows.values()):
                continue
            print(f"\n## {table.network}: {NETWORKS[table.network]}", file=out)
            _write_goals(out, table, quick)
            values = present(table.raw)
            print(f"\nRaw VIPL, RDMA Write with immediate of {RAW_BYTES} B, one way: "
                  f"{number(median(values)) if values else '-'} us.", file=out)
            _write_sizes(out, table, "lat", LAT_SIZES[quick], "One-way time, us (the paper's table 1)")
            _write_sizes(out, table, "bw", BW_SIZES[quick], "Bandwidth, MB/s")
            if plots.available():
                _draw(out, table, folder, quick)
        for entry in results["absent"] + results["failures"]:
            print(f"\nNot measured: {entry.get('what') or entry['id']}: {entry['why']}", file=out)
