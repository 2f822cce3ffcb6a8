#!/usr/bin/env python3
"""Builds and runs the suites one after the other, and adds up their test cases.

Suites: release (unit tests, optimised), python (architecture, vectors, report), asan (AddressSanitizer and UBSan),
tsan (ThreadSanitizer, what does not link gRPC), e2e (real processes and a real engine, llama.cpp), vllm (the router
before real vLLM replicas)."""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]
SUITES = ["release", "python", "asan", "tsan", "e2e", "vllm"]
NOT_TO_BE_HAD = 75  # of deploy/local/vllm_install
PRESET = {"release": "release", "asan": "asan-ubsan", "tsan": "tsan"}


class Tally:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []

    def add(self, suite, name, outcome, why=""):
        if outcome == "passed":
            self.passed += 1
        elif outcome == "skipped":
            self.skipped.append(f"{suite}: {name}: {why or 'no reason given'}")
        else:
            self.failed.append(f"{suite}: {name}")


def say(text):
    print(f"== {text}", flush=True)


def run(command, **kwargs):
    return subprocess.run(command, cwd=ROOT, **kwargs)


def build(suite):
    preset = PRESET[suite]
    say(f"{suite}: building")
    start = time.monotonic()
    target = "all" if suite == "release" else "unit_tests"
    for command in (["cmake", "--preset", preset],
                    ["cmake", "--build", "--preset", preset, "--target", target, "-j", str(os.cpu_count() or 2)]):
        result = run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if result.returncode:
            print(result.stdout[-8000:])
            sys.exit(f"{suite}: '{' '.join(command)}' failed")
    say(f"{suite}: built in {time.monotonic() - start:.0f} s")


def gtest_cases(suite, reports, tally):
    """Adds the cases of every GoogleTest report; returns the names of the programs that wrote one."""
    programs = set()
    for report in sorted(reports.glob("*.xml")):
        programs.add(report.stem)
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            name = f"{case.get('classname')}.{case.get('name')}"
            if case.find("failure") is not None:
                tally.add(suite, name, "failed")
            elif case.get("result") == "skipped" or case.find("skipped") is not None:
                skipped = case.find("skipped")
                message = (skipped.get("message") or skipped.text or "").strip() if skipped is not None else ""
                tally.add(suite, name, "skipped", " ".join(message.split())[-200:])
            else:
                tally.add(suite, name, "passed")
    return programs


def ctest(suite, tally, only):
    build(suite)
    folder = ROOT / "build" / PRESET[suite]
    say(f"{suite}: running")
    with tempfile.TemporaryDirectory() as reports:
        env = dict(os.environ, GTEST_OUTPUT=f"xml:{reports}/", TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1",
                   UBSAN_OPTIONS="print_stacktrace=1")
        # Most programs wait most of the time: for deadlines, kills and other programs.
        command = ["ctest", "--test-dir", str(folder), "--output-on-failure", "--no-tests=error", "-j", "2"]
        result = run(command + (["-R", only] if only else []), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        programs = gtest_cases(suite, pathlib.Path(reports), tally)
    failed_cases = len(tally.failed)
    lines = re.findall(r"^\s*\d+/\d+ Test\s+#\d+: (\S+) \.+\s*(Passed|\*\*\*\S+|Not Run)", result.stdout, re.M)
    for name, outcome in lines:
        # A program that crashed, timed out or is no GoogleTest has no report: it counts as one case.
        if name not in programs:
            tally.add(suite, name, "passed" if outcome == "Passed" else "failed")
        elif outcome != "Passed" and not any(f.startswith(suite) for f in tally.failed[:failed_cases]):
            tally.add(suite, f"{name} ({outcome.strip('*')})", "failed")
    if result.returncode:
        print(result.stdout[-20000:])
        if not tally.failed:
            tally.add(suite, "ctest", "failed")


class Recorder(unittest.TextTestResult):
    """Prints each case as it ends and adds it to the tally."""
    tally, suite = None, ""

    def startTest(self, test):
        self.started = time.monotonic()
        super().startTest(test)

    def note(self, test, outcome, why=""):
        self.tally.add(self.suite, test.id(), outcome, why)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "passed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, "failed")

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, "failed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skipped", reason)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.note(subtest, "failed")


def python(suite, files, tally, only):
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        if only and not re.search(only, name):
            continue
        say(f"{suite}: {name}")
        sys.path.insert(0, str(path.parent))
        try:
            cases = unittest.defaultTestLoader.discover(str(path.parent), pattern=path.name, top_level_dir=str(path.parent))
            Recorder.tally, Recorder.suite = tally, suite
            unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=Recorder).run(cases)
        finally:
            sys.path.remove(str(path.parent))


def install_engine():
    """Paths of the real engine as the environment that the e2e tests read."""
    say("e2e: the engine (its first build takes about 9 minutes on 2 cores)")
    result = run(["./deploy/local/engine_install"], stdout=subprocess.PIPE, text=True)
    if result.returncode:
        sys.exit("e2e: ./deploy/local/engine_install failed")
    paths = dict(re.findall(r"^([A-Z]+)=(.*)$", result.stdout, re.M))
    return {"EMBER_LLAMA_SERVER": paths["ENGINE"], "EMBER_MODEL": paths["MODEL"], "EMBER_PYTHON": paths["PYTHON"]}


def install_vllm(tally):
    """Paths of vLLM as the environment that its tests read; None, and a visible skip, where it can't be had."""
    say("vllm: the engine (6.5 GB of packages the first time)")
    result = run(["./deploy/local/vllm_install"], stdout=subprocess.PIPE, text=True)
    if result.returncode == NOT_TO_BE_HAD:
        tally.add("vllm", "vllm_test", "skipped", "vLLM's packages can't be had here; see the messages above")
        return None
    if result.returncode:
        sys.exit("vllm: ./deploy/local/vllm_install failed")
    return {f"EMBER_{name}": path for name, path in re.findall(r"^([A-Z_]+)=(.*)$", result.stdout, re.M)}


def e2e(suite, tally, only):
    """The suites over real processes: the engine's paths, our programs, then the Python files."""
    vllm = suite == "vllm"
    paths = install_vllm(tally) if vllm else install_engine()
    if paths is None:
        return
    os.environ.update(paths)
    build("release")
    os.environ["EMBER_BIN"] = str(ROOT / "build/release/bin")
    files = sorted((ROOT / "tests/e2e").glob("*_test.py"))
    python(suite, [f for f in files if f.name.startswith("vllm") == vllm], tally, only)


def main():
    parser = argparse.ArgumentParser(prog="./tests/run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append", choices=SUITES, help="run only this suite (repeatable); default: all, in this order")
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], metavar="SUITE", help="the same, shorter")
    parser.add_argument("--only", metavar="REGEX", help="run only test programs or files whose name matches")
    options = parser.parse_args()
    suites = [*options.suites, *(options.suite or [])] or SUITES
    tally = Tally()
    took = collections.OrderedDict()
    for suite in suites:
        start = time.monotonic()
        if suite in PRESET:
            ctest(suite, tally, options.only)
        elif suite == "python":
            python(suite, [ROOT / "tests/unit/architecture_test.py", *sorted((ROOT / "tests/unit/deploy").glob("*_test.py"))], tally, options.only)
        else:
            e2e(suite, tally, options.only)
        took[suite] = time.monotonic() - start
    print()
    for reason in tally.skipped:
        print(f"skipped: {reason}")
    for name in tally.failed:
        print(f"FAILED: {name}")
    print("time: " + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in took.items()))
    print(f"{tally.passed} passed, {len(tally.failed)} failed, {len(tally.skipped)} skipped")
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
