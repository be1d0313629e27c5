#!/usr/bin/env python3
"""Runs vipd as systemd does with vipd.socket and vipd.service: it listens for programs, takes the messages of vipd at
NOTIFY_SOCKET, and keeps the sockets that vipd stores (FDSTORE=1) for the next vipd.
usage: supervisor.py [ADDRESS:PORT]... -- VIPD OPTION...     --runtime-dir DIR must be among the options

A vipd that is ready has stored exactly the UDP sockets with these addresses (IPv4). While vipd is away, no process can
bind the addresses. After the end of a vipd, also by a kill, the next one starts when a program
connects. Signals: SIGHUP ends vipd in order; SIGTERM ends vipd and this program. If vipd sends a
message that systemd would ignore or misunderstand, this program prints the reason, kills vipd, and
ends with exit status 1."""
import array
import errno
import os
import select
import signal
import socket
import struct
import sys

FDS_MAX = 16  # most descriptors in one message
# The addresses of vipd do not change, so FDSTOREREMOVE=1 is wrong at any time and not in the list.
LINES = ("READY=1", "STOPPING=1", "FDSTORE=1", "FDPOLL=0")
LINES_BEGIN = ("FDNAME=", "STATUS=")


class Wrong(Exception):
    pass


def expect(right, text):
    if not right:
        raise Wrong(text)


def bind(path, kind):
    sock = socket.socket(socket.AF_UNIX, kind)
    if os.path.lexists(path):
        os.unlink(path)
    sock.bind(path)
    return sock


def can_bind(address):
    """Can a process bind the address? The test socket sets all options of sharing."""
    host, _, port = address.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            sock.bind((host, int(port)))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True


class Supervisor:
    def __init__(self, addresses, command):
        run = command[command.index("--runtime-dir") + 1]
        self.addresses, self.command = sorted(addresses), command
        self.programs = bind(run + "/vipd.sock", socket.SOCK_SEQPACKET)
        self.programs.listen(4096)
        self.notify_path = run + ".notify"
        self.notify = bind(self.notify_path, socket.SOCK_DGRAM)
        self.notify.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.store = []  # (name, socket)
        self.pid = 0  # process id of vipd; 0: vipd does not run
        self.said = []  # READY and STOPPING lines that this vipd has sent
        self.asked = False  # true: vipd was asked to end
        self.signals = set()  # signals that have arrived and are not handled yet
        self.wake, self.waker = socket.socketpair()  # `wake` gives the numbers of signals
        self.waker.setblocking(False)
        signal.set_wakeup_fd(self.waker.fileno())
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)

    def start(self):
        passed = [("vipd.socket", self.programs)] + self.store
        self.said, self.asked = [], False
        self.pid = os.fork()
        if self.pid == 0:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            for i, (_, sock) in enumerate(passed):
                os.dup2(sock.fileno(), 100 + i)
            for i in range(len(passed)):
                os.dup2(100 + i, 3 + i)
            os.closerange(3 + len(passed), 200)
            os.execve(self.command[0], self.command,
                      dict(os.environ, NOTIFY_SOCKET=self.notify_path, LISTEN_PID=str(os.getpid()),
                           LISTEN_FDS=str(len(passed)), LISTEN_FDNAMES=":".join(name for name, _ in passed)))

    def hear(self):
        """Handle one message of vipd. False: no message waits."""
        try:
            text, extras, flags, _ = self.notify.recvmsg(
                4096, socket.CMSG_SPACE(12) + socket.CMSG_SPACE(4 * FDS_MAX), socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        sender, fds = 0, array.array("i")
        for _, kind, data in extras:
            if kind == socket.SCM_CREDENTIALS:
                sender = struct.unpack("3i", data)[0]
            else:
                fds.frombytes(data)
        try:
            expect(not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC), "too long")
            expect(sender == self.pid, "from another process than vipd")
            self.obey(text.decode().split("\n"), [socket.socket(fileno=fd) for fd in fds])
        except Wrong as wrong:
            raise Wrong("%s: the message %r" % (wrong, text)) from None
        return True

    def obey(self, lines, socks):
        for line in lines:
            expect(line in LINES or line.startswith(LINES_BEGIN), "unknown line " + line)
        store = "FDSTORE=1" in lines
        names = [line[7:] for line in lines if line.startswith("FDNAME=")]
        expect(len(names) == store, "one FDNAME for each FDSTORE")
        expect(("FDPOLL=0" in lines) == bool(socks) == store, "FDSTORE, FDPOLL=0 and descriptors belong together")
        for name in names:
            expect(name.isascii() and name.isprintable() and 0 < len(name) < 256 and ":" not in name, "a bad name")
        if store:
            self.store += [(names[0], sock) for sock in socks]
        self.said += [line for line in lines if line in ("READY=1", "STOPPING=1")]
        expect(self.said in ([], ["READY=1"], ["READY=1", "STOPPING=1"]), "it has said %s" % self.said)
        if "READY=1" in lines:
            stored = sorted("%s:%d" % sock.getsockname()[:2] for _, sock in self.store)
            expect(stored == self.addresses, "stored: %s" % stored)

    def ended(self, status):
        self.pid = 0
        if not self.asked:
            expect(os.WIFSIGNALED(status), "vipd has ended by itself")
        elif self.said:
            expect(status == 0 and len(self.said) == 2, "vipd has ended with %d, it has said %s" % (status, self.said))
        for address in self.addresses:
            expect(not can_bind(address), "another process can bind " + address)
        self.signals.discard(signal.SIGHUP)

    def turn(self):
        """Wait for an event and handle it. False: this program must end."""
        ready, _, _ = select.select([self.notify, self.wake] + ([] if self.pid else [self.programs]), [], [])
        if self.wake in ready:
            self.signals |= set(self.wake.recv(64))
        while self.hear():
            pass
        if signal.SIGCHLD in self.signals:
            self.signals.discard(signal.SIGCHLD)
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid:
                self.ended(status)
        elif self.programs in ready:
            self.start()
        if self.pid and not self.asked and self.signals & {signal.SIGHUP, signal.SIGTERM}:
            self.asked = True
            os.kill(self.pid, signal.SIGTERM)
        return self.pid != 0 or signal.SIGTERM not in self.signals


def main():
    cut = sys.argv.index("--")
    supervisor = Supervisor(sys.argv[1:cut], sys.argv[cut + 1:])
    supervisor.start()
    try:
        while supervisor.turn():
            pass
    except Wrong as wrong:
        print("supervisor: wrong:", wrong, flush=True)
        return 1
    finally:
        if supervisor.pid:
            os.kill(supervisor.pid, signal.SIGKILL)
            os.waitpid(supervisor.pid, 0)
    return 0


sys.exit(main())
