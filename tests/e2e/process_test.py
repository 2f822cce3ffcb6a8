"""The process of a real ember-router over scripted replicas: its ready line, and what signals do to it.

  EMBER_BIN=build/release/bin python3 tests/e2e/process_test.py"""

import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

from cluster import call, needs, wait_for
from router_process import RouterProcess
from scripted_replica import ScriptedReplica

CHAT = {"messages": [{"role": "user", "content": "hello"}]}
LONG_MS = 600_000


@needs("ember-router", engine=False)
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

        self.assertEqual(served(), first)
        second = renew(300)
        router.signal(signal.SIGHUP)
        wait_for("the new certificate", lambda: served() == second)
        key.write_text("no key")
        router.signal(signal.SIGHUP)
        wait_for("a line in the log", lambda: any("the old certificate stays" in line for line in router.said))
        self.assertEqual(served(), second)
        self.assertEqual(router.stop(), 0)

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
        self.assertIn("1 requests were cut", "".join(router.said))


if __name__ == "__main__":
    unittest.main()
