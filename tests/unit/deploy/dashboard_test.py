#!/usr/bin/env python3
"""The dashboards ask for metrics that the programs have, by labels that they carry, and can be imported."""
import json
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
ROUTER = "\n".join(p.read_text() for p in (ROOT / "router").rglob("*.cc"))
HISTOGRAM_PARTS = re.compile(r"_(bucket|sum|count)$")


def exists(metric):
    """As a literal of the sources, or as one of the replicas', whose names are put together."""
    name = HISTOGRAM_PARTS.sub("", metric)
    if f'"{name}"' in ROUTER or f" {name} " in ROUTER:
        return True
    prefix = "ember_router_replica_"
    return name.startswith(prefix) and f'{{"{name.removeprefix(prefix)}", "' in ROUTER


class Dashboards(unittest.TestCase):
    def setUp(self):
        self.boards = {p.name: json.loads(p.read_text()) for p in (ROOT / "deploy/dashboards").glob("*.json")}
        self.assertTrue(self.boards)

    def test_every_metric_is_there(self):
        for name, board in self.boards.items():
            queries = [t["expr"] for p in board["panels"] for t in p.get("targets", [])]
            self.assertGreater(len(queries), 20)
            for query in queries:
                for metric in re.findall(r"ember_\w+", query):
                    self.assertTrue(exists(metric), f"{name}: no source has {metric}")
                for opening, closing in ("()", "{}", "[]"):
                    self.assertEqual(query.count(opening), query.count(closing), query)

    def test_panels_stand_apart_and_are_numbered(self):
        for board in self.boards.values():
            self.assertEqual(len({p["id"] for p in board["panels"]}), len(board["panels"]))
            cells = set()
            for panel in board["panels"]:
                at = panel["gridPos"]
                mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
                self.assertFalse(cells & mine, panel["title"])
                self.assertLessEqual(at["x"] + at["w"], 24)
                cells |= mine

    def test_the_data_source_is_asked_for(self):
        for board in self.boards.values():
            for panel in board["panels"]:
                if panel["type"] != "row":
                    self.assertEqual(panel["datasource"]["uid"], "${datasource}")


if __name__ == "__main__":
    unittest.main()
