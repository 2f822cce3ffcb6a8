#!/usr/bin/env python3
"""The examples name flags that there are, and their times fit each other."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "deploy/examples"
SOURCES = "\n".join(p.read_text() for p in (ROOT / "router").glob("*.cc"))


def milliseconds(flag, text):
    """What the example says, else the default of the flag's variable."""
    said = re.search(rf"--{flag}=(\d+)", text)
    return int(said[1] if said else re.search(rf"int {flag.replace('-', '_')} = (\d+);", SOURCES)[1])


class Examples(unittest.TestCase):
    def setUp(self):
        self.unit = (EXAMPLES / "ember-router.service").read_text()
        self.cluster = (EXAMPLES / "kubernetes.yaml").read_text()

    def test_every_flag_is_the_routers(self):
        for text in self.unit, self.cluster:
            code = re.sub(r"(?m)(^|\s)#.*$", "", text)
            flags = re.findall(r"(--[a-z-]+)=", code)
            self.assertGreater(len(flags), 3)
            for flag in flags:
                self.assertIn(f'"{flag}"', SOURCES)

    def test_a_stop_is_given_the_time_that_it_takes(self):
        def longest_ms(text):
            return milliseconds("drain-delay-ms", text) + milliseconds("grace-ms", text)

        def number(name, text):
            return int(re.search(rf"{name}[:=] ?(\d+)", text)[1])

        self.assertGreater(number("terminationGracePeriodSeconds", self.cluster) * 1000, longest_ms(self.cluster) + 2000)
        self.assertGreater(number("TimeoutStopSec", self.unit) * 1000, longest_ms(self.unit) + 2000)
        readiness = self.cluster.split("readinessProbe", 1)[1].split("livenessProbe", 1)[0]
        noticed_s = number("periodSeconds", readiness) * number("failureThreshold", readiness)
        self.assertGreater(milliseconds("drain-delay-ms", self.cluster), noticed_s * 1000)


if __name__ == "__main__":
    unittest.main()
