"""The demo's pure parts, on canned figures: samples, metrics, checks, terminal table, report. Standard library only; the
plots are drawn too where matplotlib is installed.  usage: python3 tests/unit/deploy/demo_report_test.py
"""

import json
import math
import os
import re
import socket
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../deploy/local"))
sys.dont_write_bytecode = True

from ember_demo import commands, conversation, figures, process, report, table  # noqa: E402
from ember_demo.chat import Turn  # noqa: E402
from ember_demo.results import MODES, SIZES, FourWays, Pair, Results, Survival  # noqa: E402

IMAGES = {
    name: "data:image/png;base64,AAAA" for name in ("ways", "modes", "tokens", "load", "breakdown")
}


class FreePortsTest(unittest.TestCase):
    def test_nobody_who_connects_is_given_one_before_its_process_listens(self):
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
            first = int(file.read().split()[0])
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", process.free_ports(1)[0]))
            ports = process.free_ports(100) + process.free_ports(100)
            self.assertEqual(len(set(ports)), 200)
            self.assertNotIn(taken.getsockname()[1], ports)
            self.assertLess(max(ports), first)


def turn(label, ttft, reused, computed, **more):
    return Turn(
        "c",
        2,
        label,
        True,
        ok=True,
        ttft_ms=ttft,
        reused=reused,
        computed=computed,
        **{"replica": "r1", "answer": "Ruth.", "route": "local", **more},
    )


def canned():
    results = Results(SIZES["default"], {"processor": "some <processor>"})
    work = {
        "match_ms": 1.0,
        "transfer_ms": 9.0,
        "rebuild_ms": 5.0,
        "restore_ms": 10.0,
        "bytes": 23_000_000,
    }
    for n in range(4):
        results.four_ways.append(
            FourWays(
                f"four-ways-{n}",
                turn("first", 5000, 5, 1000),
                {
                    "recompute": turn(
                        "recompute", 5000 + n, 5, 1040, replica="r2", route="recompute"
                    ),
                    "local": turn("local", 100 + n, 1020, 25),
                    "remote": turn(
                        "remote",
                        300 + n,
                        960,
                        85,
                        replica="r2",
                        route="remote",
                        work=dict(work, transfer_ms=9.0 + n),
                    ),
                    "after kills": turn("after kills", 310 + n, 960, 85, route="remote", work=work),
                },
            )
        )
    for mode in MODES:
        for store in (False, True):
            cold = mode == "random" and not store
            results.pairs.append(
                Pair(
                    mode,
                    store,
                    turn(mode, 5000, 5, 1000),
                    turn(mode, 5000 if cold else 100, 5 if cold else 1020, 1040 if cold else 25),
                )
            )
    results.survival = Survival(
        ["r1", "s1"], turn("while down", 320, 960, 85, replica="r2", route="remote"), 1.5
    )
    results.turns = [t for f in results.four_ways for t in f.second.values()]
    return results


def metric(results, name):
    return {row["metric"]: row for row in figures.metrics(results)}.get(name)


def broken(results):
    return {check.promise for check in figures.checks(results) if not check.ok}


class SampleTest(unittest.TestCase):
    def test_p95_is_a_measured_value(self):
        self.assertEqual(figures.Sample.of(range(1, 101)).p95, 95)
        self.assertEqual(figures.Sample.of([3, 1, 2]).p95, 3)
        self.assertEqual(figures.Sample.of([7]).p95, 7)

    def test_empty_sample_has_no_figures_and_does_not_fail(self):
        empty = figures.Sample.of([])
        self.assertTrue(
            math.isnan(empty.median) and math.isnan(empty.p95) and math.isnan(empty.mean)
        )
        self.assertEqual(empty.spread, [])


class MetricsTest(unittest.TestCase):
    def test_named_metrics_are_all_there(self):
        names = {row["metric"] for row in figures.metrics(canned())}
        self.assertLessEqual(
            {
                "ttft_local_ms",
                "ttft_remote_ms",
                "ttft_recompute_ms",
                "ttft_random_ms",
                "ttft_sticky_ms",
                "equal_answers",
                "survived_kills",
                "remote_overhead_ms",
                "failed_requests",
            },
            names,
        )

    def test_a_row_has_median_count_and_spread(self):
        row = metric(canned(), "ttft_local_ms")
        self.assertEqual(
            (row["value"], row["unit"], row["n"], row["spread"]), (101.5, "ms", 4, [100, 103])
        )

    def test_every_row_is_valid_json_without_nan(self):
        for results in (canned(), Results(SIZES["quick"], {})):
            for row in figures.metrics(results):
                json.loads(json.dumps(row, allow_nan=False))

    def test_overhead_is_match_transfer_and_rebuild_only(self):
        self.assertEqual(metric(canned(), "remote_overhead_ms")["spread"], [15.0, 18.0])

    def test_unreported_overhead_is_left_out_not_zero(self):
        results = canned()
        for item in results.four_ways:
            for t in item.second.values():
                t.work = {}
        self.assertIsNone(metric(results, "remote_overhead_ms"))


class ChecksTest(unittest.TestCase):
    def test_good_run_breaks_nothing(self):
        self.assertEqual(broken(canned()), set())

    def test_one_other_answer_is_seen(self):
        results = canned()
        results.four_ways[2].second["remote"].answer = "Clara."
        self.assertEqual(
            broken(results),
            {
                "greedy answers are equal in all four ways",
                "what was loaded answers as the engine does by itself",
            },
        )
        self.assertEqual(metric(results, "equal_answers")["value"], 0.75)
        self.assertEqual(metric(results, "same_after_loads")["value"], 0.75)

    def test_the_engines_own_near_ties_are_told_from_ours(self):
        results = canned()
        results.four_ways[2].second["recompute"].answer = "Clara."
        self.assertEqual(broken(results), {"greedy answers are equal in all four ways"})
        self.assertEqual(metric(results, "same_after_loads")["value"], 1)

    def test_a_turn_answered_elsewhere_than_forced_is_seen(self):
        results = canned()
        results.four_ways[3].second["remote"].replica = "r1"
        self.assertEqual(broken(results), {"each way has its replica and route"})

    def test_a_missing_way_is_not_an_equal_answer(self):
        results = canned()
        del results.four_ways[0].second["after kills"]
        self.assertLessEqual({"greedy answers are equal in all four ways"}, broken(results))

    def test_recomputing_after_the_kills_is_not_survival(self):
        results = canned()
        (
            results.four_ways[1].second["after kills"].reused,
            results.four_ways[1].second["after kills"].computed,
        ) = (5, 1040)
        self.assertEqual(broken(results), {"after the kills the store has every prefix"})
        self.assertEqual(metric(results, "survived_kills")["value"], 0.75)

    def test_a_failed_request_is_counted(self):
        results = canned()
        results.turns.append(Turn("c", 1, "random", True, error="HTTP 503"))
        self.assertEqual(metric(results, "failed_requests")["value"], 1)
        self.assertEqual(broken(results), {"no request failed, kills included"})

    def test_a_run_that_measured_nothing_keeps_no_promise_but_that_none_failed(self):
        checks = figures.checks(Results(SIZES["quick"], {}))
        self.assertEqual([c.promise for c in checks if c.ok], ["no request failed, kills included"])


class ShownTest(unittest.TestCase):
    def test_table_fits_the_terminal(self):
        results = canned()
        for pair in results.pairs:
            pair.second.replica = "r2"
            pair.first.computed = 45_000
        for line in table.render(results).splitlines():
            self.assertLessEqual(len(line), table.WIDTH, line)

    def test_table_and_report_of_a_run_without_results(self):
        empty = Results(SIZES["quick"], {})
        self.assertIn("checks", table.render(empty))
        self.assertIn("did not get far enough", report.render(empty, IMAGES))

    def test_report_is_one_file_with_the_figures_and_escapes_what_it_shows(self):
        page = report.render(canned(), IMAGES)
        self.assertIn("<b>102 ms</b>", page)
        self.assertIn("some &lt;processor&gt;", page)
        self.assertFalse(
            re.search(r"""(src|href)=['"](?!data:)""", page),
            "the page refers to something outside itself",
        )

    def test_plots_are_drawn(self):
        try:
            from ember_demo import plots
        except ImportError:
            self.skipTest("matplotlib is not installed")
        with tempfile.TemporaryDirectory() as folder:
            for results in (canned(), Results(SIZES["quick"], {})):
                paths = plots.draw_all(results, folder)
                self.assertEqual(paths.keys(), IMAGES.keys())
                for path in paths.values():
                    with open(path, "rb") as file:
                        self.assertEqual(file.read(8), b"\x89PNG\r\n\x1a\n")


class ConversationTest(unittest.TestCase):
    def test_same_identity_gives_the_same_text_and_another_differs_from_the_first_words_on(self):
        a, again, b = (
            conversation.Conversation(i, 300).messages_one()[0]["content"] for i in ("a", "a", "b")
        )
        self.assertEqual(a, again)
        self.assertLess(len(os.path.commonprefix([a, b])), 20)
        self.assertGreaterEqual(len(a.split()), 300)

    def test_second_turn_extends_the_first(self):
        talk = conversation.Conversation("a", 50)
        second = talk.messages_two("An answer.")
        self.assertEqual(second[:2], talk.messages_one())
        self.assertEqual([m["role"] for m in second], ["system", "user", "assistant", "user"])


class CommandsTest(unittest.TestCase):
    def test_everything_listens_on_loopback_only(self):
        ports = {"listen": 1, "grpc": 2, "admin": 3}
        lines = (
            commands.store("b", "s1", ports, {"s1": 1, "s2": 4}, "1MiB"),
            commands.engine("e", "m", 5, "d"),
            commands.agent("b", "r1", ports, 5, "m", "d", [1, 4]),
            commands.router("b", 6, {"r1": ports}),
        )
        for line in lines:
            for address in re.findall(r"[\w.]+(?=:\d)", " ".join(line)):
                self.assertEqual(address, commands.HOST)


if __name__ == "__main__":
    unittest.main()
