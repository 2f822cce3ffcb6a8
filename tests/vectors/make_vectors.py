#!/usr/bin/env python3
"""The identity scheme and the wire header in Python, written from the format texts alone (proto/model/kv_namespace.h,
block_hash.h, segment.h, proto/wire/frame.h), independent of the C++ code.

  make_vectors.py --check FILE   recompute every vector of FILE from its inputs; exit 1 on a difference
  make_vectors.py FILE           write FILE anew (only with a new format version: keys name bytes for ever)

XXH3 comes from Debian's libxxhash through ctypes."""
import ctypes
import ctypes.util
import hashlib
import json
import struct
import sys

_lib = ctypes.CDLL(ctypes.util.find_library("xxhash"))


class _Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


_lib.XXH3_128bits_withSeed.restype = _Hash128
_lib.XXH3_128bits_withSeed.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
_lib.XXH3_64bits.restype = ctypes.c_uint64
_lib.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def xxh3_128(data, seed=0):
    h = _lib.XXH3_128bits_withSeed(data, len(data), seed)
    return struct.pack(">QQ", h.high, h.low)


def xxh3_64(data):
    return _lib.XXH3_64bits(data, len(data))


def sized(data):
    return struct.pack("<I", len(data)) + data


def identity_record(ns):
    """The canonical record: ascending tags, each field typed and length-prefixed, all always present."""
    layout = ns["layout"]
    fields = [(1, ns["engine"]), (2, ns["engine_version"]), (3, ns["context_type"]),
              (4, bytes.fromhex(ns["weights_digest"])), (5, bytes.fromhex(ns["tokenizer_digest"])),
              (6, bytes.fromhex(ns["adapter_digest"])), (7, ns["tenant"]), (8, ns["salt"]),
              (16, layout["tokens_per_block"]), (17, layout["layers"]), (18, layout["kv_heads"]),
              (19, layout["head_size"]), (20, layout["key_type"]), (21, layout["value_type"]),
              (22, layout["order"]), (23, layout["group"]), (24, layout["rank"]), (25, layout["rank_count"])]
    for i, (name, value) in enumerate(sorted(ns["extra"].items())):
        fields.append((0x8000 + i, sized(name.encode()) + sized(value.encode())))
    out = b"EMBERKV\0" + struct.pack("<HH", 1, len(fields))
    for tag, value in fields:
        if isinstance(value, int):
            out += struct.pack("<HBIQ", tag, 1, 8, value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += struct.pack("<HBI", tag, 2, len(data)) + data
    return out


def layout_digest(ns):
    record = identity_record(ns)
    start = 12
    fields, count, offset = b"", 0, start
    while offset < len(record):
        tag, _, length = struct.unpack_from("<HBI", record, offset)
        end = offset + 7 + length
        if 16 <= tag <= 25:
            fields += record[offset:end]
            count += 1
        offset = end
    return xxh3_128(b"EMBERKV\0" + struct.pack("<HH", 1, count) + fields)


def chain(ns, tokens, extras):
    """[(hash, proof)] of the whole blocks."""
    digest = hashlib.sha256(identity_record(ns)).digest()
    seed = struct.unpack_from("<Q", digest)[0]
    parent_hash, parent_proof = digest[16:32], digest
    size = ns["layout"]["tokens_per_block"]
    out = []
    for first in range(0, len(tokens) - size + 1, size):
        inside = [e for e in extras if first <= e["offset"] < first + size]
        body = struct.pack(f"<I{size}iI", size, *tokens[first:first + size], len(inside))
        for e in inside:
            body += struct.pack("<BI", e["kind"], e["offset"]) + sized(bytes.fromhex(e["digest"]))
        parent_hash = xxh3_128(parent_hash + body, seed)
        parent_proof = hashlib.sha256(parent_proof + body).digest()
        out.append((parent_hash, parent_proof))
    return out


def segments(ns, blocks):
    """[(block index of the last block, hash, placement hash)]"""
    per_segment = -(-64 // ns["layout"]["tokens_per_block"])
    per_group = max(1, 4096 // (per_segment * ns["layout"]["tokens_per_block"]))
    ends = list(range(per_segment - 1, len(blocks), per_segment))
    return [(end, blocks[end][0], blocks[ends[i - i % per_group]][0]) for i, end in enumerate(ends)]


def segment_header(ns, tokens, blocks, payload):
    per_segment = -(-64 // ns["layout"]["tokens_per_block"])
    end, key, placement = segments(ns, blocks)[0]
    namespace_id = hashlib.sha256(identity_record(ns)).digest()[16:32]
    own = tokens[:per_segment * ns["layout"]["tokens_per_block"]]
    out = struct.pack("<IH", 0x47455345, 1) + namespace_id + key + placement
    out += struct.pack("<II", 0, per_segment) + blocks[end][1]
    out += struct.pack(f"<I{len(own)}i", len(own), *own) + layout_digest(ns)
    out += struct.pack("<IIQ", ns["layout"]["rank"], ns["layout"]["rank_count"], len(payload)) + xxh3_128(payload)
    out += struct.pack("<IQQ", 2, 0, 128) + sized(b"vectors") + struct.pack("<QQ", 7, 9) + sized(ns["tenant"].encode())
    return out + struct.pack("<Q", xxh3_64(out))


def frame_header(frame_type, request_id, meta_length, payload_length):
    out = struct.pack("<IHHQIIQ", 0x31424D45, 2, frame_type, request_id, meta_length, 0, payload_length)
    return out + struct.pack("<Q", xxh3_64(out))


def outputs(case):
    ns, tokens, extras = case["namespace"], case["tokens"], case["extras"]
    digest = hashlib.sha256(identity_record(ns)).digest()
    blocks = chain(ns, tokens, extras)
    out = {"record": identity_record(ns).hex(), "namespace_id": digest[16:32].hex(), "layout_digest": layout_digest(ns).hex(),
           "blocks": [{"hash": h.hex(), "proof": p.hex()} for h, p in blocks],
           "segments": [{"last_block": e, "hash": k.hex(), "placement": p.hex()} for e, k, p in segments(ns, blocks)]}
    if out["segments"]:
        payload = bytes(i % 251 for i in range(1000))
        out["header_of_first_segment"] = segment_header(ns, tokens, blocks, payload).hex()
    return out


def inputs():
    llama = {"engine": "llama.cpp", "engine_version": "b1-0000000", "context_type": "kvu,fa",
             "weights_digest": hashlib.sha256(b"weights").hexdigest(), "tokenizer_digest": "00" * 32,
             "adapter_digest": "00" * 32, "tenant": "", "salt": "", "extra": {},
             "layout": {"tokens_per_block": 64, "layers": 30, "kv_heads": 3, "head_size": 64, "key_type": "f16",
                        "value_type": "f16", "order": "llama.slot.v4", "group": 1, "rank": 0, "rank_count": 1}}
    vllm = dict(llama, engine="vllm", engine_version="0.32.0", context_type="", tenant="acme", salt="s3cret",
                adapter_digest=hashlib.sha256(b"adapter").hexdigest(), extra={"rope": "yarn", "alpha": "1"},
                layout=dict(llama["layout"], tokens_per_block=16, order="LBHNC", key_type="bf16", value_type="bf16",
                            rank=1, rank_count=2))
    tokens = [(i * 7919 + 13) % 49152 for i in range(4096 + 200)]
    return [{"name": "llama", "namespace": llama, "tokens": tokens[:200], "extras": []},
            {"name": "llama two placement groups", "namespace": llama, "tokens": tokens, "extras": []},
            {"name": "vllm with an image", "namespace": vllm, "tokens": [-1, 2 ** 31 - 1] + tokens[:110],
             "extras": [{"kind": 1, "offset": 5, "digest": "aabbcc"}, {"kind": 2, "offset": 70, "digest": ""}]},
            {"name": "less than a block", "namespace": llama, "tokens": tokens[:63], "extras": []}]


def frames():
    return [{"type": t, "request_id": r, "meta_length": m, "payload_length": p, "header": frame_header(t, r, m, p).hex()}
            for t, r, m, p in [(1, 1, 40, 0), (7, 2 ** 64 - 1, 24, 64 << 20), (13, 77, 600, 1475052)]]


def main():
    check = sys.argv[1] == "--check"
    path = sys.argv[-1]
    cases = inputs()
    made = {"format": 1, "cases": [dict(c, expect=outputs(c)) for c in cases], "frames": frames()}
    if not check:
        with open(path, "w") as f:
            json.dump(made, f, separators=(",", ":"))
            f.write("\n")
        return
    with open(path) as f:
        stored = json.load(f)
    for case in stored["cases"]:
        if outputs(case) != case["expect"]:
            sys.exit(f"{path}: case '{case['name']}' differs")
    for frame in stored["frames"]:
        if frame_header(frame["type"], frame["request_id"], frame["meta_length"], frame["payload_length"]).hex() != frame["header"]:
            sys.exit(f"{path}: frame {frame} differs")
    print(f"{path}: {len(stored['cases'])} cases and {len(stored['frames'])} frames agree")


if __name__ == "__main__":
    main()
