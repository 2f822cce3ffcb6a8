#include "tests/unit/router_events/engine_model.h"

#include "proto/base/checksum.h"

namespace ember::router {

EngineModel::Tokens PromptOf(int number, size_t tokens) {
  EngineModel::Tokens prompt(tokens);
  for (size_t i = 0; i < tokens; ++i) {
    prompt[i] = static_cast<TokenId>(static_cast<uint32_t>(number) * 1000 + i % 997);
  }
  return prompt;
}

std::vector<uint64_t> EngineModel::HashesOf(const Tokens& prompt) const {
  std::vector<uint64_t> hashes;
  uint64_t parent = Xxh3Of64(AsBytes(options_.adapter));
  for (size_t end = options_.block_size; end <= prompt.size(); end += options_.block_size) {
    Bytes message;
    ByteWriter w(&message);
    w.Put(parent);
    const std::span<const TokenId> all(prompt);
    w.PutRaw(std::as_bytes(all.subspan(end - options_.block_size, options_.block_size)));
    parent = Xxh3Of64(message);
    hashes.push_back(parent);
  }
  return hashes;
}

std::string EngineModel::Store(const Tokens& prompt) {
  const std::vector<uint64_t> hashes = HashesOf(prompt);
  size_t known = 0;
  while (known < hashes.size() && held_.count(hashes[known]) != 0) ++known;
  std::optional<uint64_t> parent;
  if (known > 0) parent = hashes[known - 1];
  const std::vector<uint64_t> fresh(hashes.begin() + static_cast<ptrdiff_t>(known), hashes.end());
  for (const uint64_t hash : fresh) held_[hash] = true;
  const auto begin = prompt.begin() + static_cast<ptrdiff_t>(known * options_.block_size);
  const auto end = prompt.begin() + static_cast<ptrdiff_t>(hashes.size() * options_.block_size);
  return Batch({StoredEvent(fresh, parent, Tokens(begin, end))});
}

std::string EngineModel::Remove(const Tokens& prompt, size_t from) {
  std::vector<uint64_t> hashes = HashesOf(prompt);
  hashes.erase(hashes.begin(), hashes.begin() + static_cast<ptrdiff_t>(from));
  for (const uint64_t hash : hashes) held_.erase(hash);
  return Batch({RemovedEvent(hashes)});
}

std::string EngineModel::Clear() {
  held_.clear();
  return Batch({ClearedEvent()});
}

size_t EngineModel::Held(const Tokens& prompt) const {
  size_t tokens = 0;
  for (const uint64_t hash : HashesOf(prompt)) {
    if (held_.count(hash) == 0) break;
    tokens += options_.block_size;
  }
  return tokens;
}

void EngineModel::PutHash(uint64_t hash, MsgpackWriter& out) const {
  std::string bytes(reinterpret_cast<const char*>(&hash), sizeof hash);
  switch (options_.form) {
    case HashForm::kUnsigned:
      out.Unsigned(hash);
      break;
    case HashForm::kSigned:
      out.Signed(static_cast<int64_t>(hash));
      break;
    case HashForm::kBytes8:
      out.Binary(bytes);
      break;
    case HashForm::kBytes32:
      out.Binary(bytes + bytes + bytes + bytes);
      break;
  }
}

std::string EngineModel::StoredEvent(const std::vector<uint64_t>& hashes,
                                     std::optional<uint64_t> parent, const Tokens& tokens) const {
  const bool map = options_.shape != EventShape::kArrays;
  MsgpackWriter out;
  const auto name = [&](std::string_view field) {
    if (map) out.Text(field);
  };
  const auto optional_text = [&](const std::string& text) {
    text.empty() ? out.Nil() : out.Text(text);
  };
  map ? out.Map(12).Text("type") : out.Array(12);
  out.Text("BlockStored");
  name("block_hashes");
  out.Array(hashes.size());
  for (const uint64_t hash : hashes) PutHash(hash, out);
  name("parent_block_hash");
  if (parent) {
    PutHash(*parent, out);
  } else {
    out.Nil();
  }
  name("token_ids");
  out.Array(tokens.size());
  for (const TokenId token : tokens) out.Unsigned(static_cast<uint64_t>(token));
  name("block_size");
  out.Unsigned(options_.block_size);
  name("lora_id");
  out.Nil();
  name("medium");
  optional_text(options_.medium);
  name("lora_name");
  optional_text(options_.adapter);
  name("extra_keys");
  if (options_.adapter.empty()) {
    out.Nil();
  } else {
    out.Array(hashes.size());
    for (size_t i = 0; i < hashes.size(); ++i) out.Array(1).Text(options_.adapter);
  }
  name("group_idx");
  options_.group ? out.Unsigned(*options_.group) : out.Nil();
  name("kv_cache_spec_kind");
  out.Text(options_.window > 0 ? "sliding_window" : "full_attention");
  name("kv_cache_spec_sliding_window");
  options_.window > 0 ? out.Unsigned(options_.window) : out.Nil();
  return out.str();
}

std::string EngineModel::RemovedEvent(const std::vector<uint64_t>& hashes) const {
  const bool map = options_.shape != EventShape::kArrays;
  MsgpackWriter out;
  map ? out.Map(4).Text("type") : out.Array(4);
  out.Text("BlockRemoved");
  if (map) out.Text("block_hashes");
  out.Array(hashes.size());
  for (const uint64_t hash : hashes) PutHash(hash, out);
  if (map) out.Text("medium");
  out.Text(options_.medium);
  if (map) out.Text("group_idx");
  options_.group ? out.Unsigned(*options_.group) : out.Nil();
  return out.str();
}

std::string EngineModel::ClearedEvent() const {
  MsgpackWriter out;
  options_.shape != EventShape::kArrays ? out.Map(1).Text("type") : out.Array(1);
  return out.Text("AllBlocksCleared").str();
}

std::string EngineModel::Batch(const std::vector<std::string>& events) const {
  const bool map = options_.shape == EventShape::kAllMaps;
  MsgpackWriter out;
  map ? out.Map(3).Text("ts") : out.Array(3);
  out.Double(1795991509.25);
  if (map) out.Text("events");
  out.Array(events.size());
  for (const std::string& event : events) out.Raw(event);
  if (map) out.Text("data_parallel_rank");
  options_.rank ? out.Unsigned(*options_.rank) : out.Nil();
  return out.str();
}

}  // namespace ember::router
