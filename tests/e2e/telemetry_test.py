"""What a real ember-router leaves behind: an access log that is rotated, spans at a collector, `ember explain`.

  EMBER_BIN=build/release/bin python3 tests/e2e/telemetry_test.py"""

import http.server
import json
import re
import signal
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

from cluster import BIN, needs, wait_for
from router_process import RouterProcess
from scripted_replica import ScriptedReplica

CHAT = {"messages": [{"role": "user", "content": "the secret question"}], "stream": True}
# Field names and types as opentelemetry/proto/trace/v1/trace.proto has them in JSON (lowerCamelCase, 64 bit as text).
SPAN_FIELDS = {"traceId": "[0-9a-f]{32}", "spanId": "[0-9a-f]{16}", "parentSpanId": "[0-9a-f]{16}", "startTimeUnixNano": r"\d+",
               "endTimeUnixNano": r"\d+"}
MORE_SPAN_FIELDS = {"flags", "name", "kind", "attributes", "events", "status"}
VALUES = {"stringValue": str, "intValue": str, "doubleValue": (int, float), "boolValue": bool}


class Collector:
    """Takes what an OTLP/HTTP receiver takes, and nothing else."""

    def __init__(self):
        self.spans, self.faults = [], []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/json", self.path
                    collector.take(json.loads(body))
                    status = 200
                except Exception as error:  # told to the test, which runs elsewhere
                    collector.faults.append(repr(error))
                    status = 400
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}/v1/traces"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def take(self, request):
        assert list(request) == ["resourceSpans"], request
        for resource in request["resourceSpans"]:
            attributes = self.attributes(resource["resource"])
            assert attributes["service.name"] == "ember-router" and attributes["service.instance.id"], attributes
            for scope in resource["scopeSpans"]:
                assert scope["scope"]["name"], scope
                for span in scope["spans"]:
                    self.check(span)
                    self.spans.append({**span, "attributes": self.attributes(span)})

    @staticmethod
    def attributes(owner):
        out = {}
        for attribute in owner["attributes"]:
            ((kind, value),) = attribute["value"].items()
            assert isinstance(value, VALUES[kind]), attribute
            out[attribute["key"]] = int(value) if kind == "intValue" else value
        return out

    @staticmethod
    def check(span):
        for name, value in span.items():
            assert name in SPAN_FIELDS or name in MORE_SPAN_FIELDS, name
            assert name not in SPAN_FIELDS or re.fullmatch(SPAN_FIELDS[name], value), (name, value)
        assert span["kind"] in (1, 2, 3) and set(span["status"]) <= {"code", "message"}, span
        assert int(span["endTimeUnixNano"]) >= int(span["startTimeUnixNano"]), span
        for event in span.get("events", []):
            assert re.fullmatch(r"\d+", event["timeUnixNano"]) and event["name"], event

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@needs("ember-router", "ember", engine=False)
class Telemetry(unittest.TestCase):
    def setUp(self):
        self.replicas = [ScriptedReplica(960), ScriptedReplica(0)]
        for replica in self.replicas:
            self.addCleanup(replica.close)
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def router(self, *flags):
        router = RouterProcess(self.replicas, "--policy=round_robin", *flags)
        self.addCleanup(router.close)
        return router

    def test_the_log_is_rotated_and_keeps_no_secret(self):
        log, old = self.folder / "access.log", self.folder / "access.log.1"
        router = self.router(f"--access-log={log}")
        router.ask(CHAT, n=4, Authorization="Bearer sk-secret")
        wait_for("four lines", lambda: log.read_text().count("\n") == 4)
        log.rename(old)
        router.signal(signal.SIGHUP)
        router.ask(CHAT, path="/nowhere?key=secret")
        wait_for("a new file", log.exists)
        router.ask(CHAT, x_ember_request_id="last")
        self.assertEqual(router.stop(), 0)
        lines = [json.loads(line) for line in (old.read_text() + log.read_text()).splitlines()]
        self.assertEqual([line["status"] for line in lines], [200, 200, 200, 200, 404, 200])
        self.assertEqual([line["route"] for line in lines], ["local", "recompute"] * 2 + ["", "local"])
        self.assertEqual((lines[0]["cached_tokens"], lines[0]["computed_tokens"]), (960, 40))
        self.assertEqual(lines[4]["path"], "/nowhere")
        self.assertEqual(lines[5]["id"], "last")
        self.assertRegex(lines[0]["tenant"], "^[0-9a-f]{16}$")
        self.assertGreaterEqual(lines[0]["ttft_ms"], 20)
        self.assertNotIn("secret", old.read_text() + log.read_text())

    def test_dashboards_and_alerts_ask_for_what_a_router_tells(self):
        """Each metric, and each value of a label that a query names, is there before anything happens."""
        more = ["--replica=e1,http=127.0.0.1:1,events=tcp://127.0.0.1:1,replay=tcp://127.0.0.1:2", "--store=127.0.0.1:1"]
        router = self.router(f"--access-log={self.folder / 'log'}", "--otlp-endpoint=http://127.0.0.1:1", *more)
        router.ask(CHAT)
        wait_for("a count", lambda: "ember_router_requests_total" in router.page("/metrics"))
        metrics = router.page("/metrics")
        names = {re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"^# TYPE (\w+)", metrics, re.M)}
        root = Path(__file__).resolve().parents[2]
        alerts = re.findall(r"^ +expr: (.+)$", (root / "deploy/examples/router-alerts.yaml").read_text(), re.M)
        self.assertGreater(len(alerts), 10)
        panels = json.loads((root / "deploy/dashboards/router.json").read_text())["panels"]
        queries = alerts + [target["expr"] for panel in panels for target in panel.get("targets", [])]
        for query in queries:
            for metric, labels in re.findall(r"\b((?:ember|process)_\w+)(?:\{([^}]*)\})?", query):
                self.assertIn(re.sub("_(bucket|sum|count)$", "", metric), names, query)
                for pair in re.findall(r'\w+="[^"$]*"', labels):
                    self.assertRegex(metrics, rf"(?m)^{metric}\{{.*{re.escape(pair)}", query)
        reasons = (root / "router/README.md").read_text().split("## Every reason a decision can carry")[1].split("\n## ")[0]
        for row in re.findall(r"^\| (`.*?) \|", reasons, re.M):
            for reason in re.findall(r"`(\w+)", row):
                self.assertIn(f'ember_router_decisions_total{{reason="{reason}"}}', metrics)
        self.assertEqual(router.stop(), 0)

    def test_spans_reach_a_collector_and_the_trace_goes_on(self):
        collector = Collector()
        self.addCleanup(collector.close)
        router = self.router(f"--otlp-endpoint={collector.endpoint}")
        trace = "0af7651916cd43dd8448eb211c80319c"
        router.ask(CHAT, traceparent=f"00-{trace}-b7ad6b7169203331-01", tracestate="a=b")
        router.ask(CHAT, n=20)
        router.ask(CHAT, traceparent=f"00-{'1' * 32}-b7ad6b7169203331-00")
        self.assertEqual(router.stop(), 0)
        self.assertEqual(collector.faults, [])
        roots = [s for s in collector.spans if s["kind"] == 2]
        self.assertEqual(len(roots), 21, "the sender of the last said no")
        self.assertEqual(len({s["spanId"] for s in collector.spans}), len(collector.spans))
        mine = {s["name"]: s for s in collector.spans if s["traceId"] == trace}
        root, upstream = mine["POST /v1/chat/completions"], mine["upstream"]
        self.assertEqual(root["parentSpanId"], "b7ad6b7169203331")
        self.assertEqual(root["attributes"]["ember.cached_tokens"], 960)
        self.assertEqual({mine["route"]["parentSpanId"], upstream["parentSpanId"]}, {root["spanId"]})
        ((_, seen),) = [(p, h) for p, h in self.replicas[0].seen if h.get("tracestate")]
        self.assertEqual(seen["traceparent"], f"00-{trace}-{upstream['spanId']}-01")
        ttft = int(upstream["events"][0]["timeUnixNano"]) - int(upstream["startTimeUnixNano"])
        self.assertGreaterEqual(ttft, 20_000_000, "the replica thinks for 20 ms")

    def test_a_collector_that_is_away_costs_spans_and_nothing_else(self):
        collector = Collector()
        collector.close()
        router = self.router(f"--otlp-endpoint={collector.endpoint}", "--otlp-sample=0.5")
        self.assertEqual({r.status for r in router.ask(CHAT, n=20)}, {200})
        wait_for("a count", lambda: not re.search(r"otlp_spans_dropped_total 0\n", router.page("/metrics")))
        self.assertIn("otlp_spans_sent_total 0\n", router.page("/metrics"))
        self.assertEqual(router.stop(), 0)

    def explain(self, router, *arguments, text="", expect=0):
        done = subprocess.run([BIN / "ember", "explain", f"--router=127.0.0.1:{router.port}", *arguments], input=text,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_ember_explain(self):
        router = self.router()
        router.ask(CHAT, x_ember_request_id="abc")
        self.assertRegex(self.explain(router, "abc"), r"(?s)abc  POST /v1/chat/completions  done \(200\), local.*r1 by round_robin: turn")
        self.assertIn('"request_id":"abc"', self.explain(router, "--json"))
        self.assertIn("no such request", self.explain(router, "nobody", expect=3))
        text = self.explain(router, "--request=-", "--policy=least_loaded", text=json.dumps(CHAT))
        self.assertIn("by least_loaded", text)
        self.assertIn("not sent", text)
        text = self.explain(router, "--request=-", "--verify", text=json.dumps({"prompt": "word " * 1000}))
        self.assertRegex(text, r"r1 +0 +- +0 +- +it has no agent that can be asked")
        self.assertIn("nothing to verify", self.explain(router, "--request=-", "--verify", text=json.dumps(CHAT)))
        self.assertIn("JSON object", self.explain(router, "--request=-", text="[]", expect=1))
        self.assertEqual(sum(len(r.seen) for r in self.replicas), 1)
        router.stop()
        self.assertIn("connect", self.explain(router, "abc", expect=1))


if __name__ == "__main__":
    unittest.main()
