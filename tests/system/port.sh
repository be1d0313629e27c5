#!/usr/bin/env bash
# Between two lives of vipd no other user can bind the UDP port of a NIC. The test has a small
# service manager: it keeps the descriptors that vipd sends (FDSTORE=1) and passes them to the next
# vipd (LISTEN_FDS, LISTEN_FDNAMES). vipd closes a stored socket of another address, or of a NIC
# that no longer exists. vipd starts also if it cannot use a stored descriptor, and discards it.
# usage: port.sh BUILD_DIR
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:?build directory}")
. scripts/daemons.sh
trap daemons_end EXIT
trap 'exit 130' INT TERM
daemons_begin "$build/vipd"
chmod 755 "$WORK"
cat >"$WORK/manager.py" <<'PY'
"""A service manager for one vipd: start, kill, store and pass descriptors; checks what the text above says."""
import array
import os
import signal
import socket
import subprocess
import sys

build, work, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = {}  # name: list of descriptors
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.bind(work + "/notify")
os.chmod(work + "/notify", 0o777)
bad = 0


def wrong(text):
    global bad
    bad = 1
    print("FAILED:", text)
    print(open(work + "/log").read())


def hear(until=None, limit_s=60):
    """Take messages until one has this line, or until there are no more."""
    notify.settimeout(limit_s if until else 0.0)
    while True:
        try:
            text, fds, _, _ = socket.recv_fds(notify, 4096, 16)
        except (BlockingIOError, TimeoutError):
            if until:
                wrong("no " + until)
            return
        lines = text.decode().split("\n")
        name = next((line[7:] for line in lines if line.startswith("FDNAME=")), None)
        if "FDSTOREREMOVE=1" in lines:
            for fd in store.pop(name, []):
                os.close(fd)
        if "FDSTORE=1" in lines:
            store.setdefault(name, []).extend(fds)
            if "FDPOLL=0" not in lines:
                wrong("the manager would drop the socket after an ICMP error")
        if until in lines:
            return


def configure(text):
    with open(work + "/m.conf", "w") as file:
        file.write(text)


def start():
    """A vipd that has what is stored, as systemd would pass it: descriptors 3 and so on."""
    pairs = [(name, fd) for name, fds in store.items() for fd in fds]
    pid = os.fork()
    if pid == 0:
        high = [os.dup2(fd, 200 + i) for i, (_, fd) in enumerate(pairs)]
        for i, fd in enumerate(high):
            os.dup2(fd, 3 + i)
        os.closerange(3 + len(pairs), 300)
        log = os.open(work + "/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        env = dict(os.environ, NOTIFY_SOCKET=work + "/notify")
        if pairs:
            env.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(pairs)),
                       LISTEN_FDNAMES=":".join(name for name, _ in pairs))
        os.execve(build + "/vipd/vipd", ["vipd", "--config", work + "/m.conf", "--runtime-dir", work + "/M"], env)
    hear("READY=1")
    return pid


def end(pid, how):
    os.kill(pid, how)
    os.waitpid(pid, 0)
    hear()


def stranger_binds(address, number):
    """Can a user who is not vipd's bind the port?"""
    code = ("import os, socket, sys\n"
            "os.getuid() == 0 and os.setresuid(54321, 54321, 54321)\n"
            "s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)\n"
            "s.bind((sys.argv[1], int(sys.argv[2])))\n")
    return subprocess.run([sys.executable, "-c", code, address, str(number)],
                          stderr=subprocess.DEVNULL).returncode == 0


def works(address, number):
    """A program talks to itself by this address."""
    env = dict(os.environ, VIPD_RUNTIME_DIR=work + "/M")
    nic = "vip1" if ":" in address else "vip0"
    serve = subprocess.Popen([build + "/tools/vipperf", "serve", "--nic", nic], env=env,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    serve.stdout.readline()
    where = "[%s]:%d" % (address, number) if ":" in address else "%s:%d" % (address, number)
    run = subprocess.run([build + "/tools/vipperf", "lat", where, "--nic", nic, "--iters", "50"], env=env, timeout=120,
                         capture_output=True, text=True)
    serve.kill()
    serve.wait()
    if run.returncode != 0:
        wrong("no transfer by %s: %s" % (where, run.stdout + run.stderr))


def six():
    """Does some interface have ::1?"""
    try:
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).bind(("::1", 0))
        return True
    except OSError:
        print("no interface has ::1: without IPv6")
        return False


os.mkdir(work + "/M")
nics = {"127.0.0.1": port}
two = "[nic:vip0]\nlink = udp\naddress = 127.0.0.1\nport = %d\n" % port
if six():
    nics["::1"] = port + 1
    two += "[nic:vip1]\nlink = udp\naddress = ::1\nport = %d\n" % (port + 1)
configure(two)
pid = start()
if sorted(store) != ["nic-vip0", "nic-vip1"][:len(nics)]:
    wrong("stored: %s" % sorted(store))
for how in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
    end(pid, how)
    for address, number in nics.items():
        if stranger_binds(address, number):
            wrong("port %d of %s was free while vipd was away" % (number, address))
    # Packets of peers to the ended vipd wait in the socket. The next vipd must ignore them.
    late = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for i in range(200):
        late.sendto(b"\x11" + bytes(99), ("127.0.0.1", port))
    pid = start()
    for name, fds in store.items():
        if len(fds) != 1:
            wrong("%d descriptors are stored as %s" % (len(fds), name))
    for address, number in nics.items():
        works(address, number)
# Another port, and no second NIC: vipd and the manager close the old sockets.
end(pid, signal.SIGTERM)
configure(two.split("[nic:vip1]")[0].replace("port = %d" % port, "port = %d" % (port + 2)))
pid = start()
hear()
if sorted(store) != ["nic-vip0"]:
    wrong("stored: %s" % sorted(store))
for address, number in nics.items():
    if not stranger_binds(address, number):
        wrong("port %d of %s is still taken" % (number, address))
works("127.0.0.1", port + 2)
end(pid, signal.SIGTERM)


def starts(why, nics):
    """vipd starts with what is stored, and has the manager forget what it cannot use."""
    pid = start()
    hear()
    kept = {name: len(fds) for name, fds in store.items()}
    if kept != {name: 1 for name in nics}:
        wrong("%s: stored: %s" % (why, kept))
    end(pid, signal.SIGTERM)


# vipd gets stored descriptors that it cannot use. One of them is bound to the port of the NIC.
one = two.split("[nic:vip1]")[0]
configure(one)
for fds in store.values():
    for fd in fds:
        os.close(fd)
every = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
every.bind(("0.0.0.0", port))
store = {"something": [os.open("/dev/null", os.O_RDONLY)],
         "nic-vip0": [every.detach()],
         "nic-vip1": [socket.socket(socket.AF_INET, socket.SOCK_STREAM).detach()]}
starts("strange ones", ["nic-vip0"])
for text in ("named 'something'", "named 'nic-vip1'", "NIC vip0 does not fit"):
    if text not in open(work + "/log").read():
        wrong("the log does not say: " + text)
# The NIC has another name now.
store = {"nic-gone": store["nic-vip0"]}
starts("another name", ["nic-vip0"])
# Two NICs have each other's address now.
if len(nics) == 2:
    configure(two)
    starts("two NICs", ["nic-vip0", "nic-vip1"])
    store = {"nic-vip0": store["nic-vip1"], "nic-vip1": store["nic-vip0"]}
    starts("exchanged", ["nic-vip0", "nic-vip1"])
if not bad:
    print("port: kept over three ends of vipd, given up where it is not wanted any more")
sys.exit(bad)
PY
port_take || exit 1
timeout 600 python3 "$WORK/manager.py" "$build" "$WORK" "$port"
