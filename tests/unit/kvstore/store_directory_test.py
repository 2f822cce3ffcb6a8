"""ember-store and its data directory: every directory that it can't use is one clear line that says what to do and
exit code 1, and nothing in it is touched.

  store_directory_test.py PATH_OF_EMBER_STORE
"""

import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
PATIENCE = 60


def flags(directory, **more):
    values = {
        "listen": "127.0.0.1:0",
        "grpc": "off",
        "admin": "off",
        "memory": "8MiB",
        "max-segment": "256KiB",
        "data": directory,
        "disk": "16MiB",
        **more,
    }
    return [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]


class StoreDirectoryTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ember-directory-"))
        self.folder.chmod(0o755)
        self.data = self.folder / "data"
        self.running = []

    def tearDown(self):
        for process in self.running:
            process.kill()
            process.wait()
            process.stderr.close()
        shutil.rmtree(self.folder)

    def start(self, **more):
        process = subprocess.Popen([PROGRAM, *flags(self.data, **more)], stderr=subprocess.PIPE, text=True)
        self.running.append(process)
        for line in process.stderr:
            if line.startswith("ready "):
                return process
        self.fail(f"ember-store ended with {process.wait(PATIENCE)}")

    def used_once(self, **more):
        process = self.start(**more)
        process.terminate()
        self.assertEqual(process.wait(PATIENCE), 0)

    def assert_refused(self, *words, user=None, **more):
        """Exit code 1 and one line that names the flag and has every word; the directory is left as it was."""
        before = self.contents()
        done = subprocess.run(
            [PROGRAM, *flags(self.data, **more)], capture_output=True, text=True, timeout=PATIENCE, user=user
        )
        told = [line for line in done.stderr.splitlines() if line.startswith("ember-store:")]
        self.assertEqual((done.returncode, len(told)), (1, 1), done.stderr)
        for word in ("--data", *words):
            self.assertIn(word, told[0])
        self.assertNotIn("ready ", done.stderr)
        self.assertEqual(self.contents(), before)

    def contents(self):
        """Every path with its size; the lock's is the only file that a refused start may make."""
        if not self.data.is_dir():
            return None
        return {str(p): p.stat().st_size for p in self.data.rglob("*") if p.name != "LOCK"}

    # ---- whose it is

    def test_two_processes_do_not_share_a_directory(self):
        first = self.start()
        self.assert_refused(str(self.data), "another process")
        self.assertIsNone(first.poll())
        first.kill()
        first.wait()
        self.used_once()  # a lock does not outlive its process

    def test_a_directory_of_another_node_cluster_or_shard_count(self):
        self.used_once(node_id="s1", cluster="blue")
        self.assert_refused('cluster "blue"', '"green"', "directory of its own", node_id="s1", cluster="green")
        self.assert_refused('node "s1"', "--node-id=s1", node_id="s2", cluster="blue")
        self.assert_refused("1 shards", "--shards=1", node_id="s1", cluster="blue", shards=2, disk="64MiB")
        self.used_once(node_id="s1", cluster="blue")

    def test_a_directory_of_a_newer_format(self):
        self.used_once()
        identity = self.data / "IDENTITY"
        identity.write_text(identity.read_text().replace("format=1\n", "format=2\n"))
        self.assert_refused("format is 2", "the version that made it")

    def test_a_damaged_identity(self):
        self.used_once()
        identity = self.data / "IDENTITY"
        whole = identity.read_text()
        for damaged in (whole[:-5], whole.replace("node=s1", "node=s7"), "", "\0" * 200, "x" * 5000):
            identity.write_text(damaged)
            self.assert_refused(str(self.data))
        identity.write_text(whole)
        self.used_once()

    def test_a_directory_of_something_else(self):
        self.data.mkdir()
        (self.data / "thesis.tex").write_text("years of work")
        self.assert_refused("not empty", "empty directory")
        self.assertEqual((self.data / "thesis.tex").read_text(), "years of work")

    # ---- what can't be written

    def test_a_file_in_the_place_of_the_directory(self):
        self.data.write_text("a file")
        self.assert_refused(str(self.data))
        self.assertEqual(self.data.read_text(), "a file")

    def test_a_path_through_a_file(self):
        (self.folder / "file").write_text("a file")
        self.data = self.folder / "file" / "data"
        self.assert_refused(str(self.data))

    def test_a_file_in_the_place_of_a_folder_inside(self):
        self.used_once()
        shutil.rmtree(self.data / "shard-0")
        (self.data / "shard-0").write_text("a file")
        self.assert_refused(str(self.data / "shard-0"))

    def test_a_folder_in_the_place_of_a_file_inside(self):
        self.used_once()
        (self.data / "IDENTITY").unlink()
        (self.data / "IDENTITY").mkdir()
        self.assert_refused(str(self.data / "IDENTITY"))

    def test_a_directory_without_permission(self):
        user = None
        if os.getuid() == 0:  # who may everything, so it runs as somebody else
            user = pwd.getpwnam("nobody").pw_uid
            try:
                subprocess.run([PROGRAM, "--version"], capture_output=True, check=True, user=user)
            except (OSError, subprocess.CalledProcessError) as why:
                self.skipTest(f"another user may not run {PROGRAM}: {why}")
        self.used_once()
        self.data.chmod(0o000)
        try:
            self.assert_refused(str(self.data), "Permission denied", user=user)
        finally:
            self.data.chmod(0o755)
        self.used_once()

    def test_a_directory_on_a_read_only_file_system(self):
        self.data.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64m", "ember-test", str(self.data)], capture_output=True, text=True
        )
        if mounted.returncode != 0:
            self.skipTest(f"mounting needs root: {mounted.stderr.strip()}")
        try:
            self.used_once()
            subprocess.run(["mount", "-o", "remount,ro", str(self.data)], check=True)
            self.assert_refused(str(self.data), "Read-only file system")
            subprocess.run(["mount", "-o", "remount,rw", str(self.data)], check=True)
            self.used_once()
        finally:
            subprocess.run(["umount", str(self.data)], check=True)

    # ---- flags

    def test_flags_that_do_not_fit_exit_2_with_one_line(self):
        for wrong, words in (
            ({"disk": "1MiB"}, ["--disk", "at least"]),
            ({"disk": "16MiB", "shards": 16, "memory": "64MiB"}, ["--disk", "each shard"]),
            ({"disk_write": "sometimes"}, ["--disk-write", "through"]),
            ({"data": ""}, ["--disk", "--data"]),
        ):
            done = subprocess.run(
                [PROGRAM, *flags(self.data, **wrong)], capture_output=True, text=True, timeout=PATIENCE
            )
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            for word in words:
                self.assertIn(word, done.stderr)
        self.assertFalse(self.data.exists())


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
