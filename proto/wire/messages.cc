#include "proto/wire/messages.h"

#include <array>

#include "proto/wire/limits.h"

namespace ember::wire {
namespace {

constexpr size_t kKeyBytes = 32;
constexpr size_t kTokenBytes = 16;
constexpr size_t kMatchEntryBytes = 1 + 8 + 16 + 1;
// A list of keys is copied as it lies in memory.
static_assert(sizeof(BlockKey) == kKeyBytes && std::is_trivially_copyable_v<BlockKey>);

void PutKey(const BlockKey& key, ByteWriter* w) {
  w->PutRaw(key.ns.bytes);
  w->PutRaw(key.hash.bytes);
}
BlockKey GetKey(ByteReader* r) {
  BlockKey key;
  if (ByteSpan b = r->GetRaw(kKeyBytes); !b.empty()) {
    std::memcpy(key.ns.bytes.data(), b.data(), 16);
    std::memcpy(key.hash.bytes.data(), b.data() + 16, 16);
  }
  return key;
}
void PutToken(const AttemptToken& token, ByteWriter* w) {
  w->Put(token.high);
  w->Put(token.low);
}
AttemptToken GetToken(ByteReader* r) {
  AttemptToken token;
  token.high = r->Get<uint64_t>();
  token.low = r->Get<uint64_t>();
  return token;
}
void PutString(std::string_view s, ByteWriter* w) { w->PutSized(AsBytes(s)); }
std::string GetString(size_t max, ByteReader* r) { return std::string(AsString(r->GetSized(max))); }

void PutTokens(const std::vector<AttemptToken>& tokens, ByteWriter* w) {
  w->Put(static_cast<uint32_t>(tokens.size()));
  for (const AttemptToken& t : tokens) PutToken(t, w);
}
std::vector<AttemptToken> GetTokens(ByteReader* r) {
  std::vector<AttemptToken> tokens(r->GetCount(kMaxReservePerBatch, kTokenBytes));
  for (AttemptToken& t : tokens) t = GetToken(r);
  return tokens;
}

// Several values at once, for records that come by the hundred.
template <typename... T>
void PutRecord(ByteWriter* w, T... values) {
  std::array<std::byte, (sizeof(T) + ...)> record;
  size_t end = 0;
  ((std::memcpy(record.data() + end, &values, sizeof(T)), end += sizeof(T)), ...);
  w->PutRaw(record);
}

// Encodes by a function that fills a writer; decodes by one that drains a reader.
template <typename Fill>
Bytes Encoded(Fill fill, size_t expected_size = 0) {
  Bytes out;
  out.reserve(expected_size);
  ByteWriter w(&out);
  fill(&w);
  return out;
}
template <typename T, typename Drain>
Result<T> Decoded(ByteSpan bytes, std::string_view what, Drain drain) {
  T value;
  ByteReader r(bytes);
  drain(&r, &value);
  EMBER_RETURN_IF_ERROR(r.Finish(what));
  return value;
}

}  // namespace

Bytes Encode(const Hello& m) {
  return Encoded([&](ByteWriter* w) {
    w->Put(m.min_version);
    w->Put(m.max_version);
    PutString(m.client_name, w);
    PutString(m.expected_node_id, w);
  });
}
template <>
Result<Hello> Decode(ByteSpan bytes) {
  return Decoded<Hello>(bytes, "hello", [](ByteReader* r, Hello* m) {
    m->min_version = r->Get<uint16_t>();
    m->max_version = r->Get<uint16_t>();
    m->client_name = GetString(kMaxNameBytes, r);
    m->expected_node_id = GetString(kMaxNameBytes, r);
  });
}

Bytes Encode(const HelloReply& m) {
  return Encoded([&](ByteWriter* w) {
    w->Put(m.version);
    PutString(m.node_id, w);
    w->Put(m.incarnation);
    w->Put(m.max_payload_bytes);
    w->Put(m.view_number);
    w->Put(static_cast<uint32_t>(m.members.size()));
    for (const Member& member : m.members) {
      PutString(member.id, w);
      PutString(member.host, w);
      w->Put(member.port);
      w->Put(member.weight);
      PutString(member.zone, w);
    }
    w->Put(static_cast<uint32_t>(m.shard_ports.size()));
    for (uint16_t port : m.shard_ports) w->Put(port);
    w->Put(m.shard);
    PutString(m.shm_path, w);
  });
}
template <>
Result<HelloReply> Decode(ByteSpan bytes) {
  return Decoded<HelloReply>(bytes, "hello reply", [](ByteReader* r, HelloReply* m) {
    m->version = r->Get<uint16_t>();
    m->node_id = GetString(kMaxNameBytes, r);
    m->incarnation = r->Get<uint64_t>();
    m->max_payload_bytes = r->Get<uint64_t>();
    m->view_number = r->Get<uint64_t>();
    constexpr size_t kSmallestMember = 4 + 4 + 2 + 4 + 4;
    m->members.resize(r->GetCount(kMaxMembers, kSmallestMember));
    for (Member& member : m->members) {
      member.id = GetString(kMaxNameBytes, r);
      member.host = GetString(kMaxNameBytes, r);
      member.port = r->Get<uint16_t>();
      member.weight = r->Get<uint32_t>();
      member.zone = GetString(kMaxNameBytes, r);
    }
    m->shard_ports.resize(r->GetCount(kMaxShards, sizeof(uint16_t)));
    for (uint16_t& port : m->shard_ports) port = r->Get<uint16_t>();
    m->shard = r->Get<uint32_t>();
    m->shm_path = GetString(kMaxNameBytes, r);
  });
}

Bytes Encode(const Match& m) {
  return Encoded(
      [&](ByteWriter* w) {
        w->Put(m.lease_ms);
        w->Put(static_cast<uint32_t>(m.keys.size()));
        w->PutRaw(std::as_bytes(std::span(m.keys)));
      },
      8 + m.keys.size() * kKeyBytes);
}
template <>
Result<Match> Decode(ByteSpan bytes) {
  return Decoded<Match>(bytes, "match", [](ByteReader* r, Match* m) {
    m->lease_ms = r->Get<uint32_t>();
    m->keys.resize(r->GetCount(kMaxKeysPerBatch, kKeyBytes));
    const ByteSpan keys = r->GetRaw(m->keys.size() * kKeyBytes);
    if (!keys.empty()) std::memcpy(m->keys.data(), keys.data(), keys.size());
  });
}

Bytes Encode(const MatchReply& m) {
  return Encoded(
      [&](ByteWriter* w) {
        w->Put(m.lease_id);
        w->Put(static_cast<uint32_t>(m.entries.size()));
        for (const MatchEntry& e : m.entries) {
          PutRecord(w, e.miss, e.payload_length, e.generation.high, e.generation.low, e.tier);
        }
      },
      12 + m.entries.size() * kMatchEntryBytes);
}
template <>
Result<MatchReply> Decode(ByteSpan bytes) {
  return Decoded<MatchReply>(bytes, "match reply", [](ByteReader* r, MatchReply* m) {
    m->lease_id = r->Get<uint64_t>();
    m->entries.resize(r->GetCount(kMaxKeysPerBatch, kMatchEntryBytes));
    for (MatchEntry& e : m->entries) {
      e.miss = MissReasonFromWire(r->Get<uint8_t>());
      e.payload_length = r->Get<uint64_t>();
      e.generation.high = r->Get<uint64_t>();
      e.generation.low = r->Get<uint64_t>();
      e.tier = TierFromWire(r->Get<uint8_t>());
    }
  });
}

Bytes Encode(const Reserve& m) {
  return Encoded([&](ByteWriter* w) {
    w->Put(static_cast<uint32_t>(m.headers.size()));
    for (const Bytes& header : m.headers) w->PutSized(header);
    w->Put(m.ack);
  });
}
template <>
Result<Reserve> Decode(ByteSpan bytes) {
  return Decoded<Reserve>(bytes, "reserve", [](ByteReader* r, Reserve* m) {
    m->headers.resize(r->GetCount(kMaxReservePerBatch, 4));
    for (Bytes& header : m->headers) {
      ByteSpan b = r->GetSized(kMaxSegmentHeaderBytes);
      header.assign(b.begin(), b.end());
    }
    m->ack = AckLevelFromWire(r->Get<uint8_t>());
  });
}

Bytes Encode(const ReserveReply& m) {
  return Encoded([&](ByteWriter* w) {
    w->Put(m.deadline_ms);
    w->Put(static_cast<uint32_t>(m.entries.size()));
    for (const ReserveEntry& e : m.entries) {
      w->Put(e.code);
      w->Put(static_cast<uint8_t>(e.have));
      PutToken(e.token, w);
      w->Put(e.level);
    }
  });
}
template <>
Result<ReserveReply> Decode(ByteSpan bytes) {
  return Decoded<ReserveReply>(bytes, "reserve reply", [](ByteReader* r, ReserveReply* m) {
    m->deadline_ms = r->Get<uint32_t>();
    m->entries.resize(r->GetCount(kMaxReservePerBatch, 2 + kTokenBytes + 1));
    for (ReserveEntry& e : m->entries) {
      e.code = StatusCodeFromWire(r->Get<uint8_t>());
      e.have = r->Get<uint8_t>() != 0;
      e.token = GetToken(r);
      e.level = AckLevelFromWire(r->Get<uint8_t>());
    }
  });
}

Bytes Encode(const Write& m) {
  return Encoded([&](ByteWriter* w) {
    PutToken(m.token, w);
    w->Put(m.offset);
  });
}
template <>
Result<Write> Decode(ByteSpan bytes) {
  return Decoded<Write>(bytes, "write", [](ByteReader* r, Write* m) {
    m->token = GetToken(r);
    m->offset = r->Get<uint64_t>();
  });
}

Bytes Encode(const Commit& m) {
  return Encoded([&](ByteWriter* w) {
    PutTokens(m.tokens, w);
    w->Put(m.ack);
  });
}
template <>
Result<Commit> Decode(ByteSpan bytes) {
  return Decoded<Commit>(bytes, "commit", [](ByteReader* r, Commit* m) {
    m->tokens = GetTokens(r);
    m->ack = AckLevelFromWire(r->Get<uint8_t>());
  });
}

Bytes Encode(const CommitReply& m) {
  return Encoded([&](ByteWriter* w) {
    w->Put(static_cast<uint32_t>(m.entries.size()));
    for (const CommitEntry& e : m.entries) {
      w->Put(e.code);
      w->Put(e.level);
    }
  });
}
template <>
Result<CommitReply> Decode(ByteSpan bytes) {
  return Decoded<CommitReply>(bytes, "commit reply", [](ByteReader* r, CommitReply* m) {
    m->entries.resize(r->GetCount(kMaxReservePerBatch, 2));
    for (CommitEntry& e : m->entries) {
      e.code = StatusCodeFromWire(r->Get<uint8_t>());
      e.level = AckLevelFromWire(r->Get<uint8_t>());
    }
  });
}

Bytes Encode(const Abort& m) {
  return Encoded([&](ByteWriter* w) { PutTokens(m.tokens, w); });
}
template <>
Result<Abort> Decode(ByteSpan bytes) {
  return Decoded<Abort>(bytes, "abort", [](ByteReader* r, Abort* m) { m->tokens = GetTokens(r); });
}

Bytes Encode(const Release& m) {
  return Encoded([&](ByteWriter* w) { w->Put(m.lease_id); });
}
template <>
Result<Release> Decode(ByteSpan bytes) {
  return Decoded<Release>(bytes, "release",
                          [](ByteReader* r, Release* m) { m->lease_id = r->Get<uint64_t>(); });
}

Bytes Encode(const Get& m) {
  return Encoded([&](ByteWriter* w) {
    w->Put(static_cast<uint32_t>(m.items.size()));
    for (const GetItem& item : m.items) {
      PutKey(item.key, w);
      w->Put(item.offset);
      w->Put(item.length);
    }
    w->Put(m.in_place_lease_ms);
  });
}
template <>
Result<Get> Decode(ByteSpan bytes) {
  return Decoded<Get>(bytes, "get", [](ByteReader* r, Get* m) {
    m->items.resize(r->GetCount(kMaxKeysPerBatch, kKeyBytes + 16));
    for (GetItem& item : m->items) {
      item.key = GetKey(r);
      item.offset = r->Get<uint64_t>();
      item.length = r->Get<uint64_t>();
    }
    m->in_place_lease_ms = r->Get<uint32_t>();
  });
}

Bytes Encode(const GetReply& m) {
  return Encoded([&](ByteWriter* w) {
    w->Put(m.index);
    w->Put(m.miss);
    w->PutSized(m.header);
    w->Put(m.offset);
    w->Put(m.lease_id);
    w->Put(m.place.offset);
    w->Put(m.place.length);
  });
}
template <>
Result<GetReply> Decode(ByteSpan bytes) {
  return Decoded<GetReply>(bytes, "get reply", [](ByteReader* r, GetReply* m) {
    m->index = r->Get<uint32_t>();
    m->miss = MissReasonFromWire(r->Get<uint8_t>());
    ByteSpan header = r->GetSized(kMaxSegmentHeaderBytes);
    m->header.assign(header.begin(), header.end());
    m->offset = r->Get<uint64_t>();
    m->lease_id = r->Get<uint64_t>();
    m->place.offset = r->Get<uint64_t>();
    m->place.length = r->Get<uint64_t>();
  });
}

Bytes Encode(const ErrorReply& m) {
  return Encoded([&](ByteWriter* w) {
    w->Put(m.code);
    PutString(std::string_view(m.message).substr(0, kMaxMessageBytes), w);
  });
}
template <>
Result<ErrorReply> Decode(ByteSpan bytes) {
  return Decoded<ErrorReply>(bytes, "error reply", [](ByteReader* r, ErrorReply* m) {
    m->code = StatusCodeFromWire(r->Get<uint8_t>());
    m->message = GetString(kMaxMessageBytes, r);
  });
}

Bytes Encode(const ReportCorrupt& m) {
  return Encoded([&](ByteWriter* w) {
    PutKey(m.key, w);
    w->Put(m.generation.high);
    w->Put(m.generation.low);
  });
}
template <>
Result<ReportCorrupt> Decode(ByteSpan bytes) {
  return Decoded<ReportCorrupt>(bytes, "report corrupt", [](ByteReader* r, ReportCorrupt* m) {
    m->key = GetKey(r);
    m->generation.high = r->Get<uint64_t>();
    m->generation.low = r->Get<uint64_t>();
  });
}

}  // namespace ember::wire
