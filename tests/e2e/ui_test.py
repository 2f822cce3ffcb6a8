"""The router's live page in a real Chromium, over scripted replicas: what it shows changes as requests pass.

  EMBER_BIN=build/release/bin python3 tests/e2e/ui_test.py            EMBER_SCREENSHOTS=DIR keeps what it looked like"""

import os
import signal
import tempfile
import unittest
from pathlib import Path

from browser import Browser
from cluster import needs
from router_process import RouterProcess
from scripted_replica import ScriptedReplica

TOKENIZER = Path(__file__).parents[1] / "unit/router_tokenize/data/byte_level.json"
CHAT = {"messages": [{"role": "user", "content": "<img src=x onerror=alert(1)> hello"}], "stream": True}


@needs("ember-router", engine=False)
@unittest.skipIf(Browser.missing(), "not there: " + ", ".join(Browser.missing()))
class LivePage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(lambda: [r.close() for r in cls.replicas])
        cls.replicas = [ScriptedReplica(960), ScriptedReplica(0, first_token_s=0.05), ScriptedReplica(500)]
        cls.router = RouterProcess(cls.replicas, "--policy=round_robin", f"--tokenizer=m={TOKENIZER}")
        cls.addClassCleanup(cls.router.close)
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.browser.resize(1280, 1500)
        self.browser.open(f"http://127.0.0.1:{self.router.port}/ui")
        self.browser.wait("live", lambda: self.browser.text("#connection") == "live")

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])

    def ask(self, n=1, **headers):
        return self.router.ask(CHAT, n, **headers)

    def keep(self, name):
        if folder := os.environ.get("EMBER_SCREENSHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.browser.screenshot(f"{folder}/{name}.png")

    def test_replicas_charts_and_rows_follow_what_happens(self):
        b = self.browser
        self.assertEqual(b.count("#replicas tbody tr"), 3)
        self.assertIn("up", b.text('[data-replica="r1"]'))
        marks = b.count("#ttft-chart .mark")
        self.ask(30)
        self.ask(3, x_ember_policy="random")
        b.wait("dots in the chart", lambda: b.count("#ttft-chart .mark") >= marks + 33)
        b.wait("bars", lambda: b.count("#routes-chart .mark.local") > 0 and b.count("#routes-chart .mark.recompute") > 0)
        self.assertGreaterEqual(b.count("#requests tbody tr"), 33)
        self.assertIn("96 % of", b.text('[data-replica="r1"]'))
        self.assertIn("0 % of", b.text('[data-replica="r2"]'))
        self.assertIn("random", b.text("#inside"))
        self.keep("light")
        b.click("#theme")
        self.assertEqual(b.run("return document.documentElement.dataset.theme"), "dark")
        self.keep("dark")
        b.click("#theme")
        b.click("#theme")

    def test_no_label_is_cut_however_slow_a_reply_is(self):
        left = self.browser.run("""return import("/ui/charts.js").then((charts) => {
            const host = document.getElementById("ttft-chart");
            return [100, 1000, 100000, 900000].map((ttft) => {
                charts.drawTtft(host, [{ at_ms: 1000, ttft, route: "local", replica: "r1" }], 1000);
                return Math.min(...[...host.querySelectorAll("text")].map((label) => label.getBBox().x));
            });
        });""")
        self.assertGreaterEqual(min(left), 0, left)

    def test_the_tokenizer_and_the_tiers_are_told(self):
        b = self.browser
        self.assertIn("fastokens", b.text('#inside [data-model="m"]'))
        self.assertIn("not compared yet", b.text('#inside [data-model="m"]'))
        body = {"model": "m", "prompt": "".join(f"{i} " for i in range(2000))}
        self.router.ask(body, 2, path="/v1/completions", x_ember_policy="prefix")
        b.wait("the prompts' source", lambda: "2 local" in b.text("#tokens"))
        self.assertIn("of 128.0 MiB remember it", b.text("#tokens"))
        b.wait("blocks on a device", lambda: " device" in b.text("#holds"))
        self.keep("tokens")

    def test_a_replica_that_fails_is_shown_so(self):
        b = self.browser
        self.replicas[2].health = 500
        self.addCleanup(setattr, self.replicas[2], "health", 200)
        b.wait("its state", lambda: "ejected" in b.text('[data-replica="r3"]'))
        self.replicas[2].health = 200
        b.wait("it is back", lambda: "ejected" not in b.text('[data-replica="r3"]'))

    def test_a_decision_opens_and_closes_by_keyboard(self):
        b = self.browser
        self.ask(1, x_ember_request_id="open-me")
        row = '#requests tr[data-id="open-me"]'
        b.wait("the row", lambda: b.count(row) == 1)
        b.run("document.querySelector(arguments[0]).focus()", row + " button")
        b.press("Enter")
        b.wait("the explanation", lambda: "by round_robin: turn" in b.text(row + " + tr.detail"))
        self.assertEqual(b.run("return document.activeElement.getAttribute('aria-expanded')"), "true")
        self.ask(2)
        b.wait("newer rows", lambda: b.run("return [...document.querySelectorAll('#requests tbody tr')].findIndex((r) => r.dataset.id === 'open-me')") >= 2)
        self.assertEqual(b.count(row + " + tr.detail"), 1, "news leave it open")
        b.press("Space")
        self.assertEqual(b.count("tr.detail"), 0)

    def test_a_request_is_explained_without_being_sent(self):
        b = self.browser
        before = sum(len(r.seen) for r in self.replicas)
        b.run("document.querySelector('#try-policy').value = 'cache_aware'")
        b.click("#try button")
        b.wait("the decision", lambda: "by cache_aware" in b.text("#try-result"))
        b.run("document.querySelector('#try-body').value = '[]'")
        b.click("#try button")
        b.wait("the error", lambda: "JSON object" in b.text("#try-result"))
        self.assertEqual(sum(len(r.seen) for r in self.replicas), before)
        self.assertTrue(any("400" in c for c in b.complaints()), "Chromium notes the refusal")

    def test_a_phone_shows_it_without_scrolling_sideways(self):
        b = self.browser
        self.ask(6)
        b.be_phone()
        b.wait("rows", lambda: b.count("#requests tbody tr") >= 6)
        self.assertLessEqual(b.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth"), 0)
        self.keep("phone")

    def test_it_says_when_the_router_is_silent(self):
        b = self.browser
        b.click("#pause")
        self.assertEqual(b.text("#connection"), "paused")
        b.click("#pause")
        b.wait("live again", lambda: b.text("#connection") == "live")
        self.router.signal(signal.SIGSTOP)
        self.addCleanup(self.router.signal, signal.SIGCONT)
        # A stopped router is not refused: only its answers stop.
        seen = b.run("return document.querySelector('#about').textContent")
        self.router.signal(signal.SIGCONT)
        b.wait("it goes on", lambda: b.run("return document.querySelector('#about').textContent") != seen)



@needs("ember-router", engine=False)
@unittest.skipIf(Browser.missing(), "not there: " + ", ".join(Browser.missing()))
class GuardedPage(unittest.TestCase):
    def test_it_asks_for_the_token_and_shows_all_once_it_has_it(self):
        replica = ScriptedReplica(0)
        self.addCleanup(replica.close)
        with tempfile.NamedTemporaryFile("w") as token:
            token.write("t0ken\n")
            token.flush()
            router = RouterProcess([replica], "--listen=0.0.0.0:0", "--admin=door", f"--admin-token-file={token.name}")
        self.addCleanup(router.close)
        b = Browser()
        self.addCleanup(b.close)
        b.open(f"http://127.0.0.1:{router.port}/ui")
        b.wait("the question", lambda: b.text("#connection") == "a token is wanted")
        self.assertEqual(b.count("#replicas tbody tr"), 0)
        for given, said in (("guess", "a token is wanted"), ("t0ken", "live")):
            b.wait("the form", lambda: not b.run("return document.querySelector('#token-form').hidden"))
            b.run(f"document.querySelector('#token').value = '{given}'")
            b.click("#token-form button")
            b.wait(said, lambda: b.text("#connection") == said)
        self.assertEqual(b.count("#replicas tbody tr"), 1)
        b.click("#try button")
        b.wait("the decision", lambda: "by cache_aware" in b.text("#try-result"))
        self.assertFalse(b.run("return document.querySelector('#token-form').checkVisibility()"))


if __name__ == "__main__":
    unittest.main()
