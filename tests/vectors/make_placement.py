#!/usr/bin/env python3
"""Placement in Python, written from the comment in client/cluster/placement.h alone, independent of the C++ code.

  make_placement.py --check FILE   recompute every vector of FILE from its inputs; exit 1 on a difference
  make_placement.py FILE           write FILE anew (only with a new placement scheme: every key then moves)

XXH3 comes from Debian's libxxhash through ctypes."""
import ctypes
import ctypes.util
import hashlib
import json
import math
import sys

_lib = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
_lib.XXH3_64bits.restype = ctypes.c_uint64
_lib.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def score(namespace, placement, member):
    message = namespace + placement + member["id"].encode()
    fraction = ((_lib.XXH3_64bits(message, len(message)) >> 11) + 0.5) / 2.0**53
    return -member["weight"] / math.log(fraction)


def owners(members, namespace, placement, copies):
    ranked = sorted((m for m in members if m["weight"] > 0), key=lambda m: m["id"])
    ranked.sort(key=lambda m: score(namespace, placement, m), reverse=True)
    chosen, zones = [], set()
    while ranked and len(chosen) < copies:
        best = next((m for m in ranked if m["zone"] not in zones), ranked[0])
        ranked.remove(best)
        zones.add(best["zone"])
        chosen.append(best["id"])
    return chosen


def views():
    def member(name, weight=1, zone=""):
        return {"id": name, "weight": weight, "zone": zone}

    yield "one", 2, [member("a")]
    yield "three", 2, [member("store-1"), member("store-2"), member("store-3")]
    yield "weights", 2, [member("a"), member("b", 2), member("c", 5), member("idle", 0)]
    yield "zones", 3, [member("a", 1, "x"), member("b", 1, "x"), member("c", 1, "y"), member("d", 1, "y")]


def make():
    cases = []
    for name, copies, members in views():
        groups = []
        for i in range(24):
            namespace = hashlib.sha256(f"namespace {name} {i % 3}".encode()).digest()[:16]
            placement = hashlib.sha256(f"group {name} {i}".encode()).digest()[:16]
            groups.append({"namespace": namespace.hex(), "placement": placement.hex(),
                           "owners": owners(members, namespace, placement, copies)})
        cases.append({"name": name, "copies": copies, "members": members, "groups": groups})
    return {"format": 1, "cases": cases}


def check(path):
    with open(path, encoding="utf-8") as file:
        vectors = json.load(file)
    bad = 0
    for case in vectors["cases"]:
        for group in case["groups"]:
            got = owners(case["members"], bytes.fromhex(group["namespace"]), bytes.fromhex(group["placement"]),
                         case["copies"])
            if got != group["owners"]:
                print(f"{case['name']}: {group['placement']}: {group['owners']} expected, {got} computed")
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        sys.exit(check(sys.argv[2]))
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump(make(), out, separators=(",", ":"))
        out.write("\n")
