"""The peers: other communication libraries, measured in the same rounds if they are installed
(bench/run --peers installs their Debian packages). A peer that cannot run is listed with the
reason."""

import os
import re
import shutil
import signal
import subprocess
import time

from runner import Measurement, PATIENCE_S

# Time in seconds after which a server usually listens. A client that starts too early tries again.
START_S = 0.3
TRIES = 5


def _stop(process):
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=3)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def output(argv, environment=None):
    process = subprocess.Popen(argv, env=dict(os.environ, **(environment or {})), text=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        _stop(process)
        raise RuntimeError(f"no end after {PATIENCE_S} s") from None
    if process.returncode != 0:
        lines = (err + out).strip().splitlines() or ["no reason given"]
        raise RuntimeError(" ... ".join(dict.fromkeys([lines[0], lines[-1]])))
    return out


def _pair(network, server, client, environment=None, inside=None):
    """Start the server on side 1 and run the client on side 0; return the client's output."""
    environment = environment or {}
    inside = inside or network.inside
    process = subprocess.Popen(inside(1, server), env=dict(os.environ, **environment),
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        for attempt in range(TRIES):
            time.sleep(START_S)
            try:
                return output(inside(0, client), environment)
            except RuntimeError:
                if attempt == TRIES - 1:
                    raise
        raise RuntimeError("never reached")
    finally:
        _stop(process)


def _number(pattern, text):
    found = re.search(pattern, text, re.MULTILINE)
    if not found:
        raise RuntimeError("its output makes no sense: " + text.strip()[-100:])
    return float(found.group(1))


class Maker:
    """Adds one measurement per peer, network and kind."""

    def __init__(self, networks, top, quick):
        self.networks, self.top, self.quick = networks, top, quick
        self.found, self.missing = [], []
        self.port = 30000 + os.getpid() % 20000

    def next_port(self):
        self.port += 1
        return str(self.port)

    def add(self, name, network, kind, size, measure):
        unit = "us" if kind == "lat" else "MB/s"
        self.found.append(Measurement(f"peers/{network.name}/{name} {kind}/{size}", "peers", network,
                                      f"{name} {kind}", size, unit, peer=measure))

    def has(self, name, program):
        if shutil.which(program):
            return True
        self.missing.append({"what": name, "why": f"{program} is not installed"})
        return False

    def compiled(self, name, compiler, libraries=()):
        """Compile our own small program with the peer's library. Returns its path, or None."""
        source = os.path.join(self.top, "bench", "peers", f"{name.split()[0]}.c")
        target = os.path.join(self.networks.build, f"peer-{name.replace(' ', '-')}")
        if not self.has(name, compiler):
            return None
        done = subprocess.run([compiler, "-O2", "-o", target, source, *libraries], capture_output=True,
                              text=True, check=False)
        if done.returncode == 0:
            return target
        self.missing.append({"what": name, "why": done.stderr.strip().splitlines()[0]})
        return None


def _libfabric(make, network):
    providers = ["shm"] if network.name == "loop" else ["udp;ofi_rxd", "tcp;ofi_rxm"]
    if not make.has("libfabric", "fi_pingpong"):
        return
    for provider in providers:
        for kind, size in [("lat", 64), ("bw", 1048576)]:
            def measure(provider=provider, kind=kind, size=size):
                port = make.next_port()
                iterations = "2000" if kind == "lat" else "200"
                common = ["fi_pingpong", "-e", "rdm", "-p", provider, "-I", iterations, "-S", str(size)]
                out = _pair(network, common + ["-B", port], common + ["-P", port, network.address_b])
                # Columns: bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec. A ping-pong has
                # only one message under way.
                column = r"(?:\S+\s+){6}" if kind == "lat" else r"(?:\S+\s+){5}"
                return _number("^" + column + r"([\d.]+)",
                               out.strip().splitlines()[-1])
            make.add(f"libfabric {provider}", network, kind, size, measure)


def _ucx(make, network):
    transports = ["posix", "cma"] if network.name == "loop" else ["tcp"]
    if not make.has("UCX", "ucx_perftest"):
        return
    for transport in transports:
        for kind, test, size in [("lat", "tag_lat", 64), ("bw", "tag_bw", 1048576)]:
            def measure(transport=transport, kind=kind, test=test, size=size):
                port = make.next_port()
                layers = {"UCX_TLS": "posix,cma" if transport == "cma" else transport}
                count = "10000" if kind == "lat" else "1000"
                common = ["ucx_perftest", "-p", port]

                # UCX looks for devices in /sys. Only `ip netns exec` mounts the /sys of the
                # namespace.
                def inside(side, argv):
                    spaces = network.namespaces
                    return ["ip", "netns", "exec", spaces[side], *argv] if spaces else argv

                out = _pair(network, common, common + ["-t", test, "-s", str(size), "-n", count,
                                                        network.address_b], layers, inside)
                fields = [f for f in out.splitlines() if f.startswith("Final:")][-1].split()
                return float(fields[2] if kind == "lat" else fields[5]) * (1 if kind == "lat" else 1.048576)
            make.add(f"UCX {transport}", network, kind, size, measure)


def _sockperf(make, network):
    if network.name == "loop" or not make.has("sockperf", "sockperf"):
        return
    for protocol, options in [("udp", []), ("tcp", ["--tcp"])]:
        def measure(options=tuple(options)):
            port = make.next_port()
            out = _pair(network, ["sockperf", "sr", "-i", network.address_b, "-p", port, *options],
                        ["sockperf", "pp", "-i", network.address_b, "-p", port, "-m", "64", "-t", "1", *options])
            return _number(r"percentile 50\.000 =\s+([\d.]+)", out)
        make.add(f"sockperf {protocol}", network, "lat", 64, measure)


def _mpi(make, network):
    """MPI on one host only, because a rank in a network namespace cannot reach its launcher."""
    if network.name == "veth":
        return
    local = network.name == "loop"
    variants = {
        "openmpi": ["mpirun.openmpi", "-n", "2", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
                    "--mca", "btl", "self,vader" if local else "self,tcp", "--mca", "pml", "ob1"],
        "mpich": ["mpiexec.mpich", "-n", "2"],
    }
    for name, launcher in variants.items():
        if name == "mpich" and not local:
            continue # Debian's MPICH always uses shared memory on one host
        label = f"mpi {name}"
        if not make.has(label, launcher[0]):
            continue
        program = make.compiled(label, f"mpicc.{name}")
        if not program:
            continue
        for kind, size in [("lat", 64), ("bw", 1048576)]:
            def measure(launcher=tuple(launcher), program=program, kind=kind, size=size):
                # The output is "lat_64 1.5" or "bw_64 1.5".
                return float(output([*launcher, program, "200", kind, str(size)],
                                     {"OMPI_MCA_mpi_yield_when_idle": "1"}).split()[-1])
            make.add(f"{name} {'shared memory' if local else 'tcp'}", network, kind, size, measure)


def _zeromq(make, network):
    program = make.compiled("zmq", "gcc", ["-lzmq"])
    if not program:
        return
    for kind, size in [("lat", 64), ("bw", 1048576)]:
        def measure(kind=kind, size=size):
            port = make.next_port()
            endpoint = f"ipc:///tmp/bench-zmq-{port}" if network.name == "loop" else \
                f"tcp://{network.address_b}:{port}"
            out = _pair(network, [program, "serve", endpoint], [program, kind, endpoint, str(size), "200"])
            return float(out.strip())
        make.add(f"ZeroMQ {'ipc' if network.name == 'loop' else 'tcp'}", network, kind, size, measure)


def make(networks, top, quick):
    """Returns the measurements and the list of the absent peers."""
    maker = Maker(networks, top, quick)
    names = ["loop", "veth" if "veth" in networks.by_name else "udp"]
    if not quick and "udp" in networks.by_name:
        names = [name for name in ["loop", "udp", "veth"] if name in networks.by_name]
    for name in names:
        for add in [_libfabric, _ucx, _sockperf, _mpi, _zeromq]:
            add(maker, networks.by_name[name])
    missing = {entry["what"]: entry for entry in maker.missing}
    return maker.found, list(missing.values())
