"""The examples against a real node: they must end with success and say what they did.

  example_test.py PATH_OF_EXAMPLE PATH_OF_EMBER_STORE
"""

import subprocess
import sys
import unittest

EXAMPLE = STORE = ""


def run(*arguments):
    return subprocess.run([EXAMPLE, *arguments], capture_output=True, text=True, timeout=60)


class ExampleTest(unittest.TestCase):
    def test_it_stores_finds_and_loads(self):
        flags = ["--listen=127.0.0.1:0", "--grpc=off", "--admin=off", "--memory=64MiB"]
        with subprocess.Popen([STORE, *flags], stderr=subprocess.PIPE, text=True) as store:
            try:
                ready = next(line for line in store.stderr if line.startswith("ready "))
                address = dict(part.split("=", 1) for part in ready.split()[1:])["data"]
                done = run(address)
            finally:
                store.terminate()
                store.communicate()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("put: 15 of 15 segments stored", done.stdout)
        self.assertIn("get: 15 of 15 loaded and verified", done.stdout)

    def test_without_a_node_it_fails_and_says_why(self):
        done = run("127.0.0.1:1")
        self.assertEqual(done.returncode, 1)

    def test_wrong_usage(self):
        self.assertEqual(run().returncode, 2)


if __name__ == "__main__":
    STORE = sys.argv.pop()
    EXAMPLE = sys.argv.pop()
    unittest.main()
