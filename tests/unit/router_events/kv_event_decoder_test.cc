#include "router/events/kv_event_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "tests/unit/router_events/engine_model.h"

namespace ember::router {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

const EngineKeyFold kFold(42);

KvEventBatch Decode(const std::string& payload) {
  Result<KvEventBatch> batch = DecodeKvEventBatch(AsBytes(payload), kFold);
  EXPECT_TRUE(batch.ok()) << batch.status().ToString();
  return batch.ok() ? *std::move(batch) : KvEventBatch{};
}

const KvStored& StoredOf(const KvEventBatch& batch, size_t i = 0) {
  return std::get<KvStored>(batch.events.at(i));
}

// The payloads of a recording of vLLM 0.32.
std::vector<std::string> Recorded(const std::string& name) {
  std::ifstream file("tests/vectors/kv_events/vllm_0.32_kv_events_" + name + ".jsonl");
  std::vector<std::string> payloads;
  for (std::string line; std::getline(file, line);) {
    const size_t end = line.rfind('"');
    const size_t begin = line.rfind('"', end - 1) + 1;
    std::string payload((end - begin) / 2, '\0');
    EXPECT_TRUE(
        FromHex(line.substr(begin, end - begin), std::as_writable_bytes(std::span(payload))).ok());
    payloads.push_back(std::move(payload));
  }
  return payloads;
}

// A11: array form, map form, and a batch that is a map itself say the same.
TEST(KvEventDecoder, AllShapesSayTheSame) {
  const EngineModel::Tokens prompt = PromptOf(1, 12);
  for (const HashForm form :
       {HashForm::kUnsigned, HashForm::kSigned, HashForm::kBytes32, HashForm::kBytes8}) {
    std::vector<KvEventBatch> batches;
    for (const EventShape shape : {EventShape::kArrays, EventShape::kMaps, EventShape::kAllMaps}) {
      EngineModel engine(
          {.shape = shape, .form = form, .rank = 3, .adapter = "ad", .group = 1, .window = 8});
      const auto hashes = engine.HashesOf(prompt);
      batches.push_back(Decode(engine.Batch({engine.StoredEvent(hashes, 77, prompt),
                                             engine.RemovedEvent(hashes), engine.ClearedEvent()})));
    }
    for (const KvEventBatch& batch : batches) {
      EXPECT_EQ(batch.rank, 3u);
      EXPECT_EQ(batch.timestamp, 1795991509.25);
      EXPECT_EQ(batch.unknown_types + batch.unknown_media + batch.unusable, 0u);
      ASSERT_THAT(batch.events, SizeIs(3));
      const KvStored& stored = StoredOf(batch);
      EXPECT_EQ(stored.tier, HolderTier::kDevice);
      EXPECT_EQ(stored.group, 1u);
      EXPECT_EQ(stored.window_tokens, 8u);
      EXPECT_EQ(stored.block_size, 4u);
      EXPECT_EQ(stored.adapter, "ad");
      EXPECT_EQ(stored.tokens, prompt);
      EXPECT_THAT(stored.extras, SizeIs(0)) << "the adapter's name is no image";
      EXPECT_EQ(stored.keys, StoredOf(batches[0]).keys);
      EXPECT_EQ(stored.parent, StoredOf(batches[0]).parent);
      EXPECT_EQ(std::get<KvRemoved>(batch.events[1]).keys, stored.keys);
      EXPECT_TRUE(std::holds_alternative<KvCleared>(batch.events[2]));
    }
  }
}

// A12: every form is a key of its own, at full width.
TEST(KvEventDecoder, HashesOfEveryFormAreKeptApart) {
  std::vector<std::string> hashes{
      MsgpackWriter().Signed(-1).str(),
      MsgpackWriter().Unsigned(~uint64_t{0}).str(),
      MsgpackWriter().Unsigned((uint64_t{1} << 63) + 5).str(),
      MsgpackWriter().Signed(std::numeric_limits<int64_t>::min() + 5).str(),
      MsgpackWriter().Unsigned(5).str(),
      MsgpackWriter().Binary(std::string(8, '\xff')).str(),
      MsgpackWriter().Binary(std::string(32, '\xff')).str(),
      MsgpackWriter().Binary(std::string(31, '\xff') + "\xfe").str(),
      MsgpackWriter().Binary("\xfe" + std::string(31, '\xff')).str(),
      MsgpackWriter().Binary(std::string("\x05\0\0\0\0\0\0\0", 8)).str(),
  };
  std::set<EngineKey> seen;
  for (const std::string& hash : hashes) {
    const std::string payload = MsgpackWriter()
                                    .Array(2)
                                    .Double(0)
                                    .Array(1)
                                    .Array(2)
                                    .Text("BlockRemoved")
                                    .Array(2)
                                    .Raw(hash)
                                    .Raw(hash)
                                    .str();
    const KvEventBatch batch = Decode(payload);
    const auto& keys = std::get<KvRemoved>(batch.events.at(0)).keys;
    ASSERT_THAT(keys, SizeIs(2));
    EXPECT_EQ(keys[0], keys[1]);
    seen.insert(keys[0]);
  }
  EXPECT_EQ(seen.size(), hashes.size());
  // 5 is 5 in every encoding.
  const auto key_of = [](const std::string& hash) {
    const std::string payload = MsgpackWriter()
                                    .Array(2)
                                    .Nil()
                                    .Array(1)
                                    .Array(2)
                                    .Text("BlockRemoved")
                                    .Array(1)
                                    .Raw(hash)
                                    .str();
    return std::get<KvRemoved>(Decode(payload).events.at(0)).keys.at(0);
  };
  EXPECT_EQ(key_of(MsgpackWriter().Unsigned(5).str()),
            key_of(MsgpackWriter().Tag(0xcf).Big(5, 8).str()));
  EXPECT_EQ(key_of(MsgpackWriter().Unsigned(5).str()),
            key_of(MsgpackWriter().Tag(0xd3).Big(5, 8).str()));
}

TEST(KvEventDecoder, ReadsWhatVllmSends) {
  const auto payloads = Recorded("int64");
  ASSERT_THAT(payloads, SizeIs(7));
  const KvEventBatch first = Decode(payloads[0]);
  EXPECT_EQ(first.rank, 0u);
  const KvStored& stored = StoredOf(first);
  EXPECT_EQ(stored.block_size, 32u);
  EXPECT_THAT(stored.keys, SizeIs(2));
  EXPECT_THAT(stored.tokens, SizeIs(64));
  EXPECT_EQ(stored.group_kind, "full_attention");
  EXPECT_FALSE(stored.parent);
  // The second was sent with a salt, which the first block alone names.
  const KvEventBatch second = Decode(payloads[1]);
  const KvStored& salted = StoredOf(second);
  EXPECT_EQ(salted.tokens, stored.tokens);
  EXPECT_NE(salted.keys, stored.keys);

  size_t salts = 0;
  size_t removed = 0;
  size_t cleared = 0;
  for (const char* name : {"int64", "bytes", "block128"}) {
    for (const std::string& payload : Recorded(name)) {
      const KvEventBatch batch = Decode(payload);
      EXPECT_EQ(batch.unknown_types + batch.unknown_media + batch.unusable, 0u) << name;
      for (const KvEvent& event : batch.events) {
        removed += std::holds_alternative<KvRemoved>(event);
        cleared += std::holds_alternative<KvCleared>(event);
        const auto* s = std::get_if<KvStored>(&event);
        if (s == nullptr) continue;
        EXPECT_EQ(s->tokens.size(), s->keys.size() * s->block_size);
        for (const KvExtra& extra : s->extras) {
          EXPECT_EQ(extra.block, 0u);
          EXPECT_TRUE(extra.text);
          ++salts;
        }
      }
    }
  }
  EXPECT_GT(salts, 0u);
  EXPECT_GT(removed, 0u);
  EXPECT_GT(cleared, 0u);
}

// A11: what is not known is counted and passed over, and nothing else is lost for it.
TEST(KvEventDecoder, UnknownTypesFieldsAndMediaAreCounted) {
  EngineModel engine;
  const EngineModel::Tokens prompt = PromptOf(1, 4);
  const auto hashes = engine.HashesOf(prompt);
  const std::string unknown_map = MsgpackWriter()
                                      .Map(3)
                                      .Text("block_hashes")
                                      .Text("none")
                                      .Text("type")
                                      .Text("BlockMoved")
                                      .Unsigned(7)
                                      .Array(1)
                                      .Nil()
                                      .str();
  const std::string unknown_array = MsgpackWriter().Array(3).Text("BlockMoved").Nil().Map(0).str();
  const std::string more_fields = MsgpackWriter()
                                      .Array(6)
                                      .Text("BlockRemoved")
                                      .Array(1)
                                      .Unsigned(1)
                                      .Text("GPU")
                                      .Nil()
                                      .Text("locality")
                                      .Map(0)
                                      .str();
  const std::string few_fields = MsgpackWriter()
                                     .Map(2)
                                     .Text("block_hashes")
                                     .Array(1)
                                     .Unsigned(1)
                                     .Text("type")
                                     .Text("BlockRemoved")
                                     .str();
  const KvEventBatch batch =
      Decode(engine.Batch({unknown_map, unknown_array, MsgpackWriter().Unsigned(3).str(),
                           more_fields, few_fields, engine.StoredEvent(hashes, {}, prompt)}));
  EXPECT_EQ(batch.unknown_types, 3u);
  EXPECT_THAT(batch.events, SizeIs(3));

  engine.options().medium = "TAPE";
  const KvEventBatch tape = Decode(engine.Batch({engine.StoredEvent(hashes, {}, prompt)}));
  EXPECT_EQ(tape.unknown_media, 1u);
  EXPECT_EQ(StoredOf(tape).tier, HolderTier::kDisk);
}

TEST(KvEventDecoder, KnowsTheTiersOfBothEngines) {
  EngineModel engine;
  const EngineModel::Tokens prompt = PromptOf(1, 4);
  for (const auto& [medium, tier] : {std::pair{"GPU", HolderTier::kDevice},
                                     {"", HolderTier::kDevice},
                                     {"CPU", HolderTier::kHost},
                                     {"CPU_PINNED", HolderTier::kHost},
                                     {"cpu", HolderTier::kHost},
                                     {"CPU_TIER1", HolderTier::kHost},
                                     {"CPU_TIER2", HolderTier::kDisk},
                                     {"DISK", HolderTier::kDisk},
                                     {"EXTERNAL", HolderTier::kDisk},
                                     {"STORAGE", HolderTier::kDisk}}) {
    engine.options().medium = medium;
    const KvEventBatch batch =
        Decode(engine.Batch({engine.StoredEvent(engine.HashesOf(prompt), {}, prompt)}));
    EXPECT_EQ(StoredOf(batch).tier, tier) << medium;
    EXPECT_EQ(batch.unknown_media, 0u) << medium;
  }
}

// SGLang with EAGLE sends [[t0,t1],[t1,t2],...].
TEST(KvEventDecoder, ReadsPairsOfTokens) {
  MsgpackWriter event;
  event.Array(6).Text("BlockStored").Array(1).Signed(-9).Nil().Array(2);
  event.Array(2).Unsigned(10).Unsigned(11).Array(2).Unsigned(11).Unsigned(12);
  event.Unsigned(2).Nil();
  const KvEventBatch batch = Decode(EngineModel().Batch({event.str()}));
  EXPECT_THAT(StoredOf(batch).tokens, ElementsAre(10, 11));
}

TEST(KvEventDecoder, SaltsAndImagesAreExtras) {
  MsgpackWriter event;
  event.Map(7).Text("type").Text("BlockStored");
  event.Text("extra_keys").Array(3);
  event.Array(2).Text("ad").Text("salt");  // the adapter, and a salt
  event.Array(2).Text("ad").Array(2).Text("image").Unsigned(3);
  event.Array(1).Text("ad");
  event.Text("block_hashes").Array(3).Unsigned(1).Unsigned(2).Unsigned(3);
  event.Text("parent_block_hash").Nil();
  event.Text("token_ids").Array(3).Unsigned(1).Unsigned(2).Unsigned(3);
  event.Text("block_size").Unsigned(1);
  event.Text("lora_name").Text("ad");
  const KvEventBatch batch = Decode(EngineModel().Batch({event.str()}));
  const KvStored& stored = StoredOf(batch);
  ASSERT_THAT(stored.extras, SizeIs(2));
  EXPECT_EQ(stored.extras[0].block, 0u);
  EXPECT_EQ(stored.extras[0].text, "salt");
  EXPECT_EQ(stored.extras[1].block, 1u);
  EXPECT_FALSE(stored.extras[1].text);
}

TEST(KvEventDecoder, LongEventsAreCutIntoPiecesThatFollowEachOther) {
  EngineModel engine({.block_size = 2});
  const EngineModel::Tokens prompt = PromptOf(1, 2 * (2 * kMaxBlocksPerEvent + 5));
  const auto hashes = engine.HashesOf(prompt);
  const KvEventBatch batch =
      Decode(engine.Batch({engine.StoredEvent(hashes, 99, prompt), engine.RemovedEvent(hashes)}));
  ASSERT_THAT(batch.events, SizeIs(6));
  std::vector<EngineKey> keys;
  EngineModel::Tokens tokens;
  for (size_t i = 0; i < 3; ++i) {
    const KvStored& part = StoredOf(batch, i);
    if (i > 0) EXPECT_EQ(part.parent, keys.back());
    keys.insert(keys.end(), part.keys.begin(), part.keys.end());
    tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
  }
  EXPECT_TRUE(StoredOf(batch).parent);
  EXPECT_EQ(tokens, prompt);
  std::vector<EngineKey> removed;
  for (size_t i = 3; i < 6; ++i) {
    const auto& part = std::get<KvRemoved>(batch.events[i]).keys;
    removed.insert(removed.end(), part.begin(), part.end());
  }
  EXPECT_EQ(removed, keys);
}

TEST(KvEventDecoder, AStoredEventThatContradictsItselfIsLeftOut) {
  EngineModel engine;
  const EngineModel::Tokens prompt = PromptOf(1, 8);
  const auto hashes = engine.HashesOf(prompt);
  const KvEventBatch batch = Decode(engine.Batch(
      {engine.StoredEvent(hashes, {}, PromptOf(1, 7)), engine.StoredEvent(hashes, {}, prompt)}));
  EXPECT_EQ(batch.unusable, 1u);
  EXPECT_THAT(batch.events, SizeIs(1));
}

// After a removal that can't be read nobody knows what is held.
TEST(KvEventDecoder, ARemovalThatCantBeReadSpoilsTheBatch) {
  for (const std::string& hashes :
       {MsgpackWriter().Text("all").str(), MsgpackWriter().Array(1).Nil().str()}) {
    const std::string event = MsgpackWriter().Array(2).Text("BlockRemoved").Raw(hashes).str();
    const std::string payload = EngineModel().Batch({event});
    EXPECT_EQ(DecodeKvEventBatch(AsBytes(payload), kFold).status().code(), StatusCode::kCorrupt);
  }
}

TEST(KvEventDecoder, EveryCutBatchIsCorrupt) {
  EngineModel engine;
  const std::string payload = engine.Store(PromptOf(1, 16));
  for (size_t cut = 0; cut < payload.size(); ++cut) {
    const std::string part = payload.substr(0, cut);
    EXPECT_FALSE(DecodeKvEventBatch(AsBytes(part), kFold).ok()) << cut;
  }
  const std::string liar = MsgpackWriter().Array(2).Double(0).Tag(0xdd).Big(0xffffffff, 4).str();
  EXPECT_FALSE(DecodeKvEventBatch(AsBytes(liar), kFold).ok());
}

}  // namespace
}  // namespace ember::router
