"""ember-fsck as a process, on the data directory of a real ember-store.

  fsck_program_test.py FOLDER_OF_PROGRAMS
"""

import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = pathlib.Path()
PATIENCE = 60


def run(program, *arguments):
    done = subprocess.run([PROGRAMS / program, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


class Store:
    """A running node with a disk tier in `folder`."""

    def __init__(self, folder):
        self.process = subprocess.Popen(
            [PROGRAMS / "ember-store", "--listen=127.0.0.1:0", "--grpc=off", "--admin=off", "--memory=16MiB",
             "--max-segment=1MiB", f"--data={folder}", "--disk=64MiB", "--scrub-rate=0"],
            stderr=subprocess.PIPE, text=True)
        self.address = None
        self.log = []
        for line in self.process.stderr:
            self.log.append(line)
            if line.startswith("ready "):
                self.address = dict(part.split("=", 1) for part in line.split()[1:])["data"]
                break
        assert self.address, "".join(self.log)

    def end(self, how):
        self.process.send_signal(how)
        self.process.wait(PATIENCE)
        self.process.stderr.close()


class FsckProgramTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name) / "data"

    def fill(self):
        """Puts a file of random bytes, stops the node in order. The region file with its bytes."""
        store = Store(self.folder)
        content = pathlib.Path(self.temporary.name) / "content"
        content.write_bytes(random.Random(1).randbytes(3 << 20))
        code, _, errors = run("ember", "put", "--name=x", "--stores", store.address, "--copies", 1, content)
        self.assertEqual(code, 0, errors)
        store.end(signal.SIGTERM)
        return self.folder / "shard-0" / "region-00000000"

    def report(self, *flags):
        code, out, errors = run("ember-fsck", "--json", *flags, self.folder)
        self.assertIn(code, (0, 1), errors)
        return code, json.loads(out[out.index("{"):])

    def test_a_clean_directory(self):
        self.fill()
        for flags in ([], ["--quick"]):
            code, report = self.report(*flags)
            self.assertEqual((code, report["damaged"], report["node"]), (0, 0, "s1"))
            self.assertGreater(report["records"], 0)
            self.assertEqual(report["records"], report["catalog_rows"])
        code, out, _ = run("ember-fsck", self.folder)
        self.assertEqual((code, out.splitlines()[-1]), (0, "clean"))

    def test_damage_is_told_with_its_place_and_exit_code_1(self):
        region = self.fill()
        with open(region, "r+b") as file:
            file.seek(4096 + 4096 + 1000)
            file.write(b"damage")
        code, report = self.report()
        self.assertEqual((code, report["damaged"]), (1, 1))
        self.assertEqual(report["findings"][0]["path"], str(region))
        self.assertEqual(report["findings"][0]["offset"], 4096)
        self.assertEqual(self.report("--quick")[0], 0)

    def test_a_lost_catalog_is_rebuilt(self):
        self.fill()
        before = self.report()[1]["catalog_rows"]
        (self.folder / "catalog" / "CURRENT").write_text("nonsense")
        self.assertEqual(self.report()[0], 1)
        code, out, errors = run("ember-fsck", "--rebuild-catalog", self.folder)
        self.assertEqual(code, 0, errors)
        self.assertIn("rebuilt", out)
        self.assertEqual(self.report()[1]["catalog_rows"], before)
        self.assertTrue((self.folder / "catalog.bad").is_dir())
        store = Store(self.folder)
        store.end(signal.SIGKILL)

    def test_what_it_cannot_read_is_exit_code_3_and_a_wrong_call_2(self):
        code, _, errors = run("ember-fsck", self.folder)
        self.assertEqual((code, errors.count("\n")), (3, 1))
        self.assertIn("no data directory", errors)
        self.assertFalse(self.folder.exists())
        self.assertEqual(run("ember-fsck")[0], 2)
        self.assertEqual(run("ember-fsck", "--help")[0], 0)
        store = Store(self.folder)
        code, _, errors = run("ember-fsck", self.folder)
        self.assertEqual(code, 3)
        self.assertIn("in use", errors)
        store.end(signal.SIGTERM)
        self.assertEqual(run("ember-fsck", self.folder)[0], 0)
        (self.folder / "IDENTITY").write_text("EmberKV data directory\nformat=2\n")
        code, _, errors = run("ember-fsck", self.folder)
        self.assertEqual(code, 3)
        self.assertIn("format is 2", errors)


if __name__ == "__main__":
    PROGRAMS = pathlib.Path(sys.argv.pop(1))
    unittest.main()
