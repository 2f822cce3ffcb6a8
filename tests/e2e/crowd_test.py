#!/usr/bin/env python3
"""A real router with few descriptors and many more streams than they allow (row D20): everybody is served or told when to come back,
nobody's replica is taken for dead, and a few seconds later it is as before."""
import asyncio
import collections
import os
import pathlib
import resource
import subprocess
import unittest

ROUTER = pathlib.Path(os.environ.get("EMBER_BIN") or pathlib.Path(__file__).resolve().parents[2] / "build/release/bin") / "ember-router"
DESCRIPTORS = 1024
STREAMS = 3000
BODY = b'{"stream":true,"messages":[{"role":"user","content":"hi"}]}'
REQUEST = (b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)) + BODY
EVENT = b"9\r\ndata: 1\n\n\r\n"


async def replica(reader, writer):
    """Answers probes at once, and every other request with events for two seconds."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                continue
            await reader.readexactly(len(BODY))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(4):
                writer.write(EVENT)
                await writer.drain()
                await asyncio.sleep(0.5)
            writer.write(b"0\r\n\r\n")
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def ask(port):
    """What became of one stream: its status once it is whole, or what went wrong."""
    reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), 60)
    try:
        writer.write(REQUEST)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
        status = int(head.split()[1])
        if status == 200:
            await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), 60)
        elif b"\r\nRetry-After: " not in head:
            return f"{status} without Retry-After"
        return status
    except asyncio.IncompleteReadError:
        return "closed"
    finally:
        writer.close()


async def crowd(case):
    server = await asyncio.start_server(replica, "127.0.0.1", 0, backlog=4096)
    address = "%s:%d" % server.sockets[0].getsockname()
    router = await asyncio.create_subprocess_exec(
        ROUTER, "--listen=127.0.0.1:0", "--grpc=off", "--log-level=warn", f"--replica=r,http={address}", stderr=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS)))
    try:
        line = b""
        while not line.startswith(b"ready"):
            line = await asyncio.wait_for(router.stderr.readline(), 30)
        port = int(line.split()[1].rpartition(b":")[2])
        deadline = asyncio.get_running_loop().time() + 10
        while await ask(port) != 200 and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.1)
        got = collections.Counter(await asyncio.gather(*(ask(port) for _ in range(STREAMS))))
        case.assertEqual(set(got) - {200, 429, 503}, set(), got)
        case.assertGreater(got[200], DESCRIPTORS // 4)
        case.assertIsNone(router.returncode)
        after = collections.Counter(await asyncio.gather(*(ask(port) for _ in range(50))))
        case.assertEqual(after, {200: 50})
    finally:
        if router.returncode is None:
            router.terminate()
            await router.wait()
        server.close()


class Crowd(unittest.TestCase):
    def test_more_streams_than_descriptors(self):
        if not ROUTER.exists():
            self.skipTest("ember-router is not built")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 2 * STREAMS:
            self.skipTest(f"needs {2 * STREAMS} descriptors")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * STREAMS), hard))
        asyncio.run(crowd(self))


if __name__ == "__main__":
    unittest.main()
