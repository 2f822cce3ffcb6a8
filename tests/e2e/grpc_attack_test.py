#!/usr/bin/env python3
"""What HTTP/2 lets a hostile peer do at the gRPC ports of a real router and a real store node, in frames written by hand (RFC 9113, RFC 7541):
others are served meanwhile, and memory grows by no more than was really sent: for a request that is reset at once that is what gRPC keeps of it,
and Debian's gRPC 1.51 keeps it long (CVE-2023-44487), which is why these ports are for trusted networks only."""
import pathlib
import socket
import struct
import subprocess
import threading
import unittest

from cluster import BIN, needs

DATA, HEADERS, RST_STREAM, SETTINGS, PING, CONTINUATION = 0, 1, 3, 4, 6, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MIB = 1 << 20
RESETS, RESET_BYTES = 20_000, 24 << 10


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def integer(value, bits, first=0):
    """An integer of HPACK behind the upper bits `first`."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    out, value = [first | most], value - most
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def text(content):
    return integer(len(content), 7) + content


def field(name, value, kept=False):
    """A header field; `kept`: it goes to the table."""
    return (b"\x40" if kept else b"\x00") + text(name) + text(value)


# POST, http, :path, :authority and what gRPC wants.
CALL = (b"\x83\x86\x04" + text(b"/grpc.health.v1.Health/Check") + b"\x01" + text(b"a") + field(b"content-type", b"application/grpc")
        + field(b"te", b"trailers"))
NEWEST = b"\xbe"  # in the table of fields
EMPTY_MESSAGE = frame(DATA, END_STREAM, 1, b"\0\0\0\0\0")


class Peer:
    """A connection whose answers are read and not looked at."""

    def __init__(self, port):
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0))
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        try:
            while self._socket.recv(1 << 16):
                pass
        except OSError:
            pass

    def send(self, *frames):
        """False once the other side has closed."""
        try:
            self._socket.sendall(b"".join(frames))
            return True
        except OSError:
            return False

    def close(self):
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._reader.join()
        self._socket.close()


def rapid_resets(port):
    peer = Peer(port)
    reset = struct.pack(">I", 8)
    for first in range(1, 2 * RESETS, 200):
        streams = range(first, first + 200, 2)
        if not peer.send(*(f for s in streams for f in (frame(HEADERS, END_HEADERS, s, CALL), frame(RST_STREAM, 0, s, reset)))):
            break
    peer.close()


def header_bomb(port):
    """4 KB in the table, named 16,000 times in each request."""
    peer = Peer(port)
    peer.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, CALL + field(b"x", b"a" * 3900, kept=True)))
    for stream in range(3, 203, 2):
        if not peer.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, CALL + NEWEST * 16_000)):
            break
    peer.close()


def headers_without_end(port):
    peer = Peer(port)
    peer.send(frame(HEADERS, 0, 1, CALL))
    for i in range(2000):
        if not peer.send(frame(CONTINUATION, 0, 1, field(b"x-%d" % i, b"v" * 8000))):
            break
    peer.close()


def odd_headers(port):
    """CVE-2023-1428 and CVE-2023-32732: of odd sizes, and binary ones that are not base64."""
    for size in (8191, 8192, 8193, 16_000):
        for name in (b":path", b"x-bin", b"te", b"content-type", b"grpc-timeout", b"host", b"user-agent", b"grpc-encoding"):
            peer = Peer(port)
            peer.send(frame(HEADERS, END_HEADERS, 1, CALL + field(name, b"\xff!"[size % 2:][:1] * size)), EMPTY_MESSAGE)
            peer.close()


def lengths_that_lie(port):
    """CVE-2023-33953: a field of 4 GB is announced, a few MB of it come, on ten connections."""
    peers = [Peer(port) for _ in range(10)]
    for peer in peers:
        peer.send(frame(HEADERS, 0, 1, CALL + b"\x00" + text(b"x") + integer((1 << 32) - 1, 7)))
        for _ in range(100):
            if not peer.send(frame(CONTINUATION, 0, 1, b"a" * 16_384)):
                break
    for peer in peers:
        peer.close()


def floods(port):
    for flood in (frame(PING, 0, 0, b"12345678"), frame(SETTINGS, 0, 0, b"\0\3\0\0\0\1"), frame(DATA, 0, 1), b"\0" * 17):
        peer = Peer(port)
        for _ in range(100):
            if not peer.send(flood * 1000):
                break
        peer.close()


# And what the program may have grown by.
ATTACKS = {rapid_resets: RESETS * RESET_BYTES, header_bomb: 64 * MIB, headers_without_end: 64 * MIB, odd_headers: 64 * MIB,
           lengths_that_lie: 128 * MIB, floods: 128 * MIB}


def answers(port):
    """Whether somebody else's call is answered."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
        s.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, CALL) + EMPTY_MESSAGE)
        while head := s.recv(9, socket.MSG_WAITALL):
            s.recv(int.from_bytes(head[:3], "big"), socket.MSG_WAITALL)
            if head[3] == HEADERS:
                return True
    return False


class Program:
    """One of ours with a gRPC port, until the end of the block."""

    def __init__(self, name, *flags):
        self._process = subprocess.Popen([str(BIN / name), *flags, "--grpc=127.0.0.1:0", "--log-level=error"], stderr=subprocess.PIPE,
                                         text=True)

    def __enter__(self):
        line = next(line for line in self._process.stderr if line.startswith("ready "))
        self.port = int(dict(part.split("=", 1) for part in line.split()[1:])["grpc"].rsplit(":", 1)[1])
        self._reader = threading.Thread(target=self._process.stderr.read)
        self._reader.start()
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stderr.close()

    def runs(self):
        return self._process.poll() is None

    def memory(self):
        status = pathlib.Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) << 10


class Attacks:
    """Each attack, and somebody else who asks while it goes on."""

    command = ()

    def test_others_are_served_and_memory_is_bounded(self):
        for attack, most in ATTACKS.items():
            with self.subTest(attack.__name__), Program(*self.command) as program:
                before = program.memory()
                attacker = threading.Thread(target=attack, args=[program.port])
                attacker.start()
                while attacker.is_alive():
                    self.assertTrue(answers(program.port))
                    attacker.join(0.1)
                self.assertTrue(answers(program.port))
                self.assertTrue(program.runs())
                self.assertLess(program.memory() - before, most)


@needs("ember-router", engine=False)
class Router(Attacks, unittest.TestCase):
    command = ("ember-router", "--listen=127.0.0.1:0", "--replica=r1,http=127.0.0.1:9")


@needs("ember-store", engine=False)
class Store(Attacks, unittest.TestCase):
    command = ("ember-store", "--listen=127.0.0.1:0", "--admin=127.0.0.1:0", "--memory=16MiB")


if __name__ == "__main__":
    unittest.main(verbosity=2)
