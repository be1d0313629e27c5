#!/usr/bin/env python3
"""Acts like a next vipd (vipd --takeover, vipd/takeover.h) that does not complete the takeover.
usage: takeover.py SOCKET [stranger | still | ends PID]
stranger: asks as another user, which must get nothing; needs root
still: stops before it is ready, until the running vipd breaks off the takeover
ends PID: PID, the running vipd, gets SIGTERM before this program is ready, and must report that"""
import os
import signal
import socket
import sys

READY = b"\x08\x03"  # Takeover { step: READY }
STOPPING, GO, GAVE_UP = b"\x08\x04", b"\x08\x05", b"\x08\x06"


def varint(number):
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def ask(uid):
    """Ask to take over. Returns the socket pair's end, or None, and the reply's bytes."""
    body = b"\x08" + varint(uid)  # TakeoverRequest { uid }
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as control:
        control.connect(sys.argv[1])
        control.send(varint(36 << 3 | 2) + varint(len(body)) + body)  # Request { takeover }
        reply, fds, _, _ = socket.recv_fds(control, 4096, 4)
    return (socket.socket(fileno=fds[0]) if fds else None), reply


def sockets(pair):
    """Receive the sockets that vipd hands over. Returns their names."""
    names = []
    while True:
        message, fds, _, _ = socket.recv_fds(pair, 4096, 4)
        for fd in fds:
            os.close(fd)
        if message[:2] == b"\x08\x02":  # the message ALL
            return names
        names.append(message[4:].decode())


def refused(uid, text):
    pair, reply = ask(uid)
    if pair or text not in reply:
        sys.exit("takeover.py: not refused with '%s': %r" % (text.decode(), reply))


def begin():
    pair, reply = ask(os.geteuid())
    while b"already" in reply:  # vipd may not have detected yet that the previous client has closed
        pair, reply = ask(os.geteuid())
    if not pair:
        sys.exit("takeover.py: refused: %r" % reply)
    names = sockets(pair)
    if names != ["lock", "programs", "nic-vip0"]:
        sys.exit("takeover.py: handed over: %s" % names)
    return pair


if sys.argv[2:] == ["stranger"]:
    os.setgroups([])
    os.setuid(65534)
    refused(os.geteuid(), b"only root and vipd's own user")
    sys.exit(0)
if sys.argv[2:] == ["still"]:
    pair = begin()
    refused(os.geteuid(), b"another vipd is taking over already")
    message = pair.recv(16)
    if message != GAVE_UP or pair.recv(16):
        sys.exit("takeover.py: the running vipd says %r" % message)
    begin().close()  # the next client can begin
    sys.exit(0)
if sys.argv[2:3] == ["ends"]:
    pair = begin()
    os.kill(int(sys.argv[3]), signal.SIGTERM)
    words = [pair.recv(16), pair.recv(16)]
    if words != [STOPPING, GO]:
        sys.exit("takeover.py: the vipd that ends says %r" % words)
    sys.exit(0)
refused(os.geteuid() + 1, b"another user")
for words in ([], [b"\x08\x05"], [b"\xff"], [b"\x08\x02", READY]):
    pair = begin()
    refused(os.geteuid(), b"another vipd is taking over already")
    for word in words:
        try:
            pair.send(word)
        except BrokenPipeError:  # after a wrong message vipd reads no further ones
            break
    try:
        if words and pair.recv(16):
            sys.exit("takeover.py: vipd takes a wrong word")
    except ConnectionResetError:  # vipd has closed the socket before it has read everything
        pass
    pair.close()
# The client says READY, but closes before vipd can send that it stops.
pair = begin()
pair.shutdown(socket.SHUT_RD)
pair.send(READY)
pair.close()
begin().close()
