// EngineModel: an engine's prefix cache as a naive set of blocks, which speaks of its changes as
// vLLM and SGLang do; the oracle for what a router may know of it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/model/block_hash.h"
#include "tests/unit/router_events/msgpack_writer.h"

namespace ember::router {

enum class EventShape : uint8_t { kArrays, kMaps, kAllMaps };  // kAllMaps: the batch is one, too
enum class HashForm : uint8_t { kUnsigned, kSigned, kBytes32, kBytes8 };

struct EngineModelOptions {
  EventShape shape = EventShape::kMaps;
  HashForm form = HashForm::kUnsigned;
  uint32_t block_size = 4;
  std::optional<uint32_t> rank{};
  std::string adapter{};
  std::string medium = "GPU";
  std::optional<uint32_t> group{};
  uint32_t window = 0;
};

class EngineModel {
 public:
  using Options = EngineModelOptions;
  using Tokens = std::vector<TokenId>;

  explicit EngineModel(Options options = {}) : options_(std::move(options)) {}

  // The payloads of batches that say so. Stores the whole blocks of the prompt that are not held.
  std::string Store(const Tokens& prompt);
  // The blocks of the prompt from block `from` on go.
  std::string Remove(const Tokens& prompt, size_t from = 0);
  std::string Clear();

  size_t blocks() const { return held_.size(); }
  // Tokens of the longest unbroken prefix that is held.
  size_t Held(const Tokens& prompt) const;

  // The parts of a batch, for tests that put together odd ones.
  std::string StoredEvent(const std::vector<uint64_t>& hashes, std::optional<uint64_t> parent,
                          const Tokens& tokens) const;
  std::string RemovedEvent(const std::vector<uint64_t>& hashes) const;
  std::string ClearedEvent() const;
  std::string Batch(const std::vector<std::string>& events) const;
  std::vector<uint64_t> HashesOf(const Tokens& prompt) const;

  Options& options() { return options_; }

 private:
  void PutHash(uint64_t hash, MsgpackWriter& out) const;

  Options options_;
  std::map<uint64_t, bool> held_;
};

// A prompt of whole blocks that shares nothing with those of other numbers.
EngineModel::Tokens PromptOf(int number, size_t tokens);

}  // namespace ember::router
