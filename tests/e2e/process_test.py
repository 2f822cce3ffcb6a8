"""The process of a real ember-router over scripted replicas: its ready line, and what signals do to it.

  EMBER_BIN=build/release/bin python3 tests/e2e/process_test.py"""

import re
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request
from pathlib import Path

from cluster import BIN, call, needs, wait_for
from router_process import RouterProcess
from scripted_replica import ScriptedReplica

CHAT = {"messages": [{"role": "user", "content": "hello"}]}
LONG_MS = 600_000


@needs("ember-router", "ember", engine=False)
class Process(unittest.TestCase):
    def router(self, *flags, first_token_s=0.02):
        replica = ScriptedReplica(first_token_s=first_token_s)
        self.addCleanup(replica.close)
        router = RouterProcess([replica], *flags)
        self.addCleanup(router.close)
        return router

    def test_sigterm_is_announced_while_requests_are_served_and_a_second_one_ends_that(self):
        router = self.router(f"--drain-delay-ms={LONG_MS}")
        router.signal(signal.SIGTERM)
        wait_for("health to turn away", lambda: call(router.port, "GET", "/health").status == 503)
        router.signal(signal.SIGHUP)
        (reply,) = router.ask(CHAT)
        self.assertEqual((reply.status, reply.headers["connection"]), (200, "close"))
        self.assertEqual(router.stop(), 0)

    def test_sighup_reads_the_certificate_again_and_keeps_the_old_one_on_a_fault(self):
        if shutil.which("openssl") is None:
            self.skipTest("needs openssl")
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        cert, key = folder / "cert.pem", folder / "key.pem"

        def renew(days):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=door",
                            "-days", str(days), "-keyout", key, "-out", cert], check=True, capture_output=True)
            return cert.read_text()

        first = renew(1)
        router = RouterProcess([], f"--tls-cert={cert}", f"--tls-key={key}", tls=True)
        self.addCleanup(router.close)

        def served():
            return ssl.get_server_certificate(("127.0.0.1", router.port))

        def told(name):
            context = ssl.create_default_context(cafile=cert)
            context.check_hostname = False
            with urllib.request.urlopen(f"https://127.0.0.1:{router.port}/metrics", context=context) as reply:
                return float(re.search(rf"(?m)^ember_router_{name} (.*)$", reply.read().decode())[1])

        def days_left():
            return round((told("certificate_expiry_timestamp_seconds") - time.time()) / 86400)

        self.assertEqual(served(), first)
        self.assertEqual((days_left(), told("reload_failed")), (1, 0))
        second = renew(300)
        router.signal(signal.SIGHUP)
        wait_for("the new certificate", lambda: served() == second)
        key.write_text("no key")
        router.signal(signal.SIGHUP)
        wait_for("a line in the log", lambda: any("the old certificate stays" in line for line in router.said))
        self.assertEqual(served(), second)
        self.assertEqual((days_left(), told("reload_failed")), (300, 1))
        third = renew(20)
        router.signal(signal.SIGHUP)
        wait_for("the newest certificate", lambda: served() == third)
        self.assertEqual((days_left(), told("reload_failed")), (20, 0))
        self.assertEqual(router.stop(), 0)

    def test_the_admin_api_has_the_listeners_tls_and_ember_speaks_it(self):
        if shutil.which("openssl") is None:
            self.skipTest("needs openssl")
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

        def make(name):
            cert, key = folder / f"{name}.pem", folder / f"{name}.key"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                            "-addext", "subjectAltName=IP:127.0.0.1", "-days", "1", "-keyout", key, "-out", cert], check=True, capture_output=True)
            return cert, key

        (cert, key), (own, own_key) = make("router"), make("client")
        router = RouterProcess([], f"--tls-cert={cert}", f"--tls-key={key}", f"--tls-client-ca={own}", "--admin=127.0.0.1:0", tls=True)
        self.addCleanup(router.close)

        def ember(*arguments):
            done = subprocess.run([BIN / "ember", *arguments], capture_output=True, text=True, timeout=60)
            return done.returncode, done.stdout + done.stderr

        fleet = ["fleet", "list", f"--admin=https://{router.at['admin']}"]
        explain = ["explain", f"--router=https://{router.at['admin']}", "nobody"]
        trusted = [f"--ca={cert}", f"--cert={own}", f"--key={own_key}"]
        code, said = ember(*fleet, *trusted)
        self.assertEqual(code, 0, said)
        self.assertIn("REPLICA", said)
        code, said = ember(*explain, *trusted)
        self.assertEqual(code, 3, said)
        self.assertIn("no such request", said)
        for command in fleet, explain:
            for wrong in [], [f"--ca={cert}"], [f"--ca={own}", *trusted[1:]]:
                code, said = ember(*command, *wrong)
                self.assertEqual(code, 1, said)
        self.assertIn("--cert requires --key", ember(*fleet, f"--cert={own}")[1])
        code, said = ember("fleet", "list", f"--admin={router.at['admin']}", f"--ca={cert}")
        self.assertIn("go with https://", said)
        self.assertEqual(router.stop(), 0)

    def test_sigusr1_opens_the_log_anew_and_sigusr2_means_nothing(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        router = self.router(f"--access-log={folder / 'log'}")
        router.signal(signal.SIGUSR2)
        router.ask(CHAT)
        wait_for("a line", lambda: (folder / "log").read_text())
        (folder / "log").rename(folder / "old")
        router.signal(signal.SIGUSR1)
        wait_for("a new file", lambda: router.ask(CHAT) and (folder / "log").exists())
        self.assertEqual(router.stop(), 0)

    def test_ember_status_misses_no_store_that_nobody_named(self):
        router = self.router("--grpc=127.0.0.1:0")

        def status(*more, **environment):
            done = subprocess.run([BIN / "ember", "status", f"--router-grpc={router.at['grpc']}", "--timeout=1", *more],
                                  capture_output=True, text=True, timeout=60, env=environment)
            return done.returncode, done.stdout

        code, said = status()
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"STORE +none at 127.0.0.1:7201|nodes reachable")
        self.assertIn(" up ", said)
        self.assertEqual(status("--store-grpc=127.0.0.1:1")[0], 1)
        self.assertEqual(status(EMBER_STORE_GRPC="127.0.0.1:1")[0], 1)
        self.assertEqual(router.stop(), 0)
        self.assertEqual(status()[0], 1)

    def test_sigint_waits_for_nobody(self):
        router = self.router(f"--drain-delay-ms={LONG_MS}")
        router.signal(signal.SIGINT)
        self.assertEqual(router.wait(), 0)

    def test_the_ready_line_counts_who_has_joined_from_wherever(self):
        with tempfile.NamedTemporaryFile("w") as fleet:
            fleet.write("f1 http=127.0.0.1:1\nf2 http=127.0.0.1:2\n")
            fleet.flush()
            router = RouterProcess([], f"--fleet-file={fleet.name}")
            self.addCleanup(router.close)
            self.assertIn(" replicas=2", next(line for line in router.said if line.startswith("ready ")))
            self.assertEqual(router.stop(), 0)

    def test_the_log_says_how_many_were_cut(self):
        router = self.router("--grace-ms=1", first_token_s=5)
        asking = threading.Thread(target=router.ask, args=[CHAT])
        asking.start()
        self.addCleanup(asking.join)
        wait_for("a request under way", lambda: "ember_router_in_flight 1\n" in router.page("/metrics"))
        self.assertEqual(router.stop(), 0)
        self.assertIn("requests cut: 1", "".join(router.said))


if __name__ == "__main__":
    unittest.main()
