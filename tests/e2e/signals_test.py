"""What signals do to a real ember-router over a scripted replica.

  EMBER_BIN=build/release/bin python3 tests/e2e/signals_test.py"""

import signal
import threading
import unittest

from cluster import call, needs, wait_for
from router_process import RouterProcess
from scripted_replica import ScriptedReplica

CHAT = {"messages": [{"role": "user", "content": "hello"}]}
LONG_MS = 600_000


@needs("ember-router", engine=False)
class Signals(unittest.TestCase):
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
        self.assertEqual((reply.status, reply.headers["Connection"]), (200, "close"))
        self.assertEqual(router.stop(), 0)

    def test_sigint_waits_for_nobody(self):
        router = self.router(f"--drain-delay-ms={LONG_MS}")
        router.signal(signal.SIGINT)
        self.assertEqual(router.process.wait(timeout=30), 0)

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
