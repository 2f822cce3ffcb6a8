#!/usr/bin/env python3
"""The architecture as a test: include directions, file sizes, READMEs, registered tests, formatting.

The rules are those of the top README's "Who may include whom". A rule that must change is changed here and there in the same commit."""
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = [ROOT / line for line in subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True,
    check=True).stdout.splitlines() if (ROOT / line).is_file()]
CODE = [p for p in SOURCES if p.suffix in (".h", ".cc")]
PRODUCT = [p for p in CODE if not p.is_relative_to(ROOT / "tests")]

# folder -> the folders of ours that it may include (itself always). Longest matching prefix decides.
MAY_INCLUDE = {
    "proto/base": [],
    "proto/model": ["proto/base"],
    "proto/wire": ["proto/base", "proto/model"],
    "proto/rpc": ["proto/base", "proto/model"],
    "client/io": ["proto/base"],
    "client/http": ["proto/base"],
    "client/cluster": ["proto/base", "proto/model", "proto/wire", "client/io"],
    "client/store_client": ["proto/base", "proto/model", "proto/wire", "client/io", "client/cluster"],
    "client/feed": ["proto"],
    "client/grpc_client": ["proto", "client/io", "client/cluster", "client/store_client"],
    "client/bindings": ["proto/base", "proto/model", "client/io", "client/store_client"],
    "client/agent": ["proto", "client/io", "client/http", "client/cluster", "client/store_client"],
    "client/cli": ["proto", "client/io", "client/http", "client/cluster", "client/store_client", "client/feed",
                   "client/grpc_client"],
    "kvstore/engine": ["proto/base", "proto/model"],
    "kvstore/memory": ["proto/base", "kvstore/engine"],
    "kvstore/disk": ["proto/base", "proto/model", "client/io", "kvstore/engine"],
    "kvstore/server": ["proto", "client/io", "client/http", "client/cluster", "kvstore/engine", "kvstore/memory", "kvstore/disk"],
    "kvstore/tools": ["proto/base", "proto/model", "client/io", "client/http", "kvstore/disk", "kvstore/engine"],
    "kvstore": ["proto", "client/io", "client/http", "client/cluster", "kvstore"],
    "router/policy": ["proto/base", "proto/model"],
    "router/estimate": ["proto/base", "proto/model"],
    "router/admission": ["proto/base", "client/http"],
    "router/index": ["proto/base", "proto/model"],
    "router/fleet": ["proto", "client/http", "router/estimate", "router/index"],
    "router/tokenize": ["proto", "client/http", "router/fleet"],
    "router/telemetry": ["proto", "client/http"],
    "router/matching": ["proto/base", "proto/model", "client/http", "router/policy", "router/index", "router/fleet", "router/tokenize",
                        "router/events"],
    "router/stores": ["proto", "client/http", "client/feed", "router/index"],
    "router/ui": [],
    "router/events": ["proto", "client/http", "router/estimate", "router/fleet", "router/index", "router/tokenize"],
    "router/front": ["proto", "client/http", "router/estimate", "router/policy", "router/index", "router/fleet", "router/tokenize",
                     "router/telemetry", "router/stores", "router/ui"],
    "router": ["proto", "client/http", "router"],
}

# A heavy library -> the only places whose sources may include it.
HEAVY = {
    r"<liburing": ["client/io/uring_"],
    r"<rocksdb/": ["kvstore/disk/"],
    r"<boost/beast": ["client/http/"],
    r"<boost/asio": ["client/http/", "client/agent/", "client/cli/", "router/"],
    r"<simdjson": ["client/http/", "client/agent/", "client/cli/", "kvstore/tools/", "router/"],
    r"<grpcpp/": ["kvstore/server/", "kvstore/main.cc", "client/agent/", "client/cli/", "client/feed/", "client/grpc_client/", "router/"],
    r"<openssl/": ["proto/model/kv_namespace.cc", "client/http/tls_context.cc"],
    r"<zmq": ["router/events/event_socket.cc"],
    r"<xxhash": ["proto/base/checksum.cc"],
}


def relative(path):
    return path.relative_to(ROOT).as_posix()


def includes(path):
    return re.findall(r'^\s*#\s*include\s+(["<][^">]+)[">]', path.read_text(), re.M)


class Architecture(unittest.TestCase):
    def test_include_directions(self):
        bad = []
        for path in PRODUCT:
            name = relative(path)
            folder = max((f for f in MAY_INCLUDE if name.startswith(f + "/")), key=len, default=None)
            if folder is None:
                bad.append(f"{name}: its folder has no rule in MAY_INCLUDE")
                continue
            for include in includes(path):
                target = include[1:]
                if include[0] != '"':
                    continue
                if target.startswith("proto/rpc/") and target.endswith(".pb.h"):
                    if not name.startswith(("proto/rpc/", "kvstore/server/", "client/agent/", "client/cli/", "client/feed/",
                                            "client/grpc_client/", "router/")):
                        bad.append(f"{name}: protobuf stays in the gRPC adapters ({target})")
                elif not any(target.startswith(f + "/") for f in [folder, *MAY_INCLUDE[folder]]):
                    bad.append(f"{name}: {folder} may not include {target}")
        self.assertEqual(bad, [])

    def test_nothing_includes_tests_or_mains(self):
        bad = [f"{relative(p)}: {i[1:]}" for p in PRODUCT for i in includes(p) if i[1:].startswith("tests/") or i.endswith("main.h")]
        self.assertEqual(bad, [])

    def test_heavy_libraries_stay_where_they_belong(self):
        bad = []
        for path in PRODUCT:
            for include in includes(path):
                for pattern, places in HEAVY.items():
                    if include.startswith(pattern) and not relative(path).startswith(tuple(places)):
                        bad.append(f"{relative(path)}: {include[1:]} belongs in {places}")
        self.assertEqual(bad, [])

    def test_file_sizes(self):
        limits = {".h": 400, ".cc": 400, ".py": 400, ".sh": 400}
        bad = [f"{relative(p)}: {n} lines, limit {limits[p.suffix]}: it holds two things, split it"
               for p in SOURCES if p.suffix in limits for n in [len(p.read_text().splitlines())] if n > limits[p.suffix]]
        self.assertEqual(bad, [])

    def test_every_folder_says_what_it_is(self):
        folders = {p.parent for p in SOURCES if p.suffix in (".h", ".cc", ".proto", ".py")} - {ROOT}
        folders = {f for f in folders if not f.is_relative_to(ROOT / "tests" / "unit") and f.name != "cmake"}
        bad = [relative(f) for f in sorted(folders) if not (f / "README.md").exists()]
        self.assertEqual(bad, [], "folders without a README.md")

    def test_every_source_is_built_and_every_test_registered(self):
        cmake = {}
        for p in SOURCES:
            if p.name == "CMakeLists.txt":
                cmake[p.parent] = p.read_text()
        bad = []
        for path in CODE:
            if path.suffix == ".cc":
                folder = path.parent
                while folder not in cmake and folder != ROOT:
                    folder = folder.parent
                if path.relative_to(folder).as_posix() not in cmake[folder]:
                    bad.append(relative(path))
        self.assertEqual(bad, [], "sources that no CMakeLists.txt names")

    def test_no_sleeps_in_tests_and_no_randomness_outside_its_header(self):
        bad = []
        for path in CODE:
            text = path.read_text()
            if path.is_relative_to(ROOT / "tests") and path.name != "eventually.cc" and re.search(r"sleep_for|usleep\(|\bsleep\(|poll\(nullptr", text):
                bad.append(f"{relative(path)}: sleeps: use tests/unit/support/eventually.h")
            if not path.is_relative_to(ROOT / "tests") and re.search(r"random_device|\brand\(\)", text):
                bad.append(f"{relative(path)}: randomness comes from proto/base/random.h")
            if re.search(r"^\s*using namespace ", text, re.M):
                bad.append(f"{relative(path)}: using namespace")
        self.assertEqual(bad, [])

    def test_the_tests_that_the_table_of_faults_names_exist(self):
        tests = [p for p in SOURCES if p.is_relative_to(ROOT / "tests")]
        known = {f"{suite}.{name}" for p in tests if p.suffix == ".cc"
                 for suite, name in re.findall(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", p.read_text(), re.M)}
        known |= {f"{p.name}::{name}" for p in tests if p.suffix == ".py" for name in re.findall(r"^    def (test_\w+)", p.read_text(), re.M)}
        known |= {p.stem for p in tests if p.parent.name == "fuzz"}
        table = (ROOT / "tests/unit/README.md").read_text().partition("| row |")[2]
        named = re.findall(r"`([\w.:]+)`", table)
        self.assertGreater(len(named), 100)
        self.assertEqual(sorted(set(named) - known), [])

    def test_formatting(self):
        result = subprocess.run(["clang-format-16", "--dry-run", "-Werror", *map(str, CODE)], capture_output=True, text=True)
        files = sorted({line.split(":")[0] for line in result.stderr.splitlines() if ": error:" in line})
        self.assertEqual(files, [], "run clang-format-16 -i on these")


if __name__ == "__main__":
    unittest.main()
