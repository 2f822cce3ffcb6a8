#!/usr/bin/env python3
"""ember trace, which becomes ember-trace: a generated trace in, tables, JSON and a figure out."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

EMBER = sys.argv.pop(1)


def trace(*arguments):
    return subprocess.run([EMBER, "trace", *map(str, arguments)], capture_output=True, text=True, timeout=60)


class TraceProgram(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = pathlib.Path(self.folder.name) / "small.jsonl"
        # Ten conversations of five turns, one turn of each after the other; every turn adds two blocks.
        lines = [{"timestamp": t, "input_length": 1, "output_length": 1,
                  "hash_ids": [0] + [1 + 10 * c + b for b in range(2 * t + 2)]} for t in range(5) for c in range(10)]
        self.file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def test_json(self):
        result = trace("--json", "--capacity", "10,100", self.file)
        self.assertEqual(result.returncode, 0, result.stderr)
        (one,) = json.loads(result.stdout)["traces"]
        self.assertEqual((one["trace"], one["requests"], one["distinct_blocks"]), ("small.jsonl", 50, 101))
        small, all_of_it = one["points"]
        self.assertEqual(small["capacity_blocks"], 10)
        for policy in ("lru", "s3fifo", "chain"):
            self.assertLessEqual(small[policy], small["belady"])
            # With room for all: everything but each block's first lookup.
            self.assertAlmostEqual(all_of_it[policy], 1 - 101 / one["lookups"], places=5)

    def test_table_and_figure(self):
        figure = pathlib.Path(self.folder.name) / "curves.svg"
        result = trace(self.file, "--svg", figure)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("50 requests", result.stdout)
        self.assertTrue(figure.read_text().startswith("<svg"))

    def test_says_what_is_wrong(self):
        missing = trace(self.folder.name + "/none.jsonl")
        self.assertEqual((missing.returncode, missing.stderr.count("\n")), (1, 1))
        self.assertIn("none.jsonl", missing.stderr)
        wrong = trace(self.file, "--policy", "mru")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("mru", wrong.stderr)
        self.assertEqual(trace("--help").returncode, 0)
        self.assertEqual(trace(self.file, "--svg", self.folder.name + "/none/x.svg").returncode, 1)


if __name__ == "__main__":
    unittest.main()
