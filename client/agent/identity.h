// EngineIdentity: under which namespace this engine's KV goes, and the shape of its slot files.
// Made from what the engine says of itself, the model file's content, and a slot file it really
// wrote; so two engines share KV only if all of these agree.
//
// What the engine can't be asked (rope scaling, control vectors) is the operator's to declare
// (IdentityOptions::engine_settings); engines declared alike must be started alike.
// Plain values; any thread.
#pragma once

#include <string>

#include "client/agent/engine_reply.h"
#include "client/agent/slot_shape.h"
#include "proto/model/kv_namespace.h"

namespace ember::agent {

// A block is 64 tokens and so exactly one segment. Smaller ones would not be moved singly anyway (a
// segment reaches 64 tokens), and at most 63 tokens of a prompt's end are computed again.
inline constexpr uint32_t kTokensPerBlock = 64;

struct IdentityOptions {
  std::string tenant;
  std::string salt;
  std::string engine_settings;
};

// A model file's content. Blocking: reads all of it.
struct ModelFile {
  std::string path;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;
  Sha256Digest digest{};

  static Result<ModelFile> Read(const std::string& path);
  // Whether the file is still the one that was read, by size and time of change.
  bool Unchanged() const;
};

struct EngineIdentity {
  KvNamespace ns;
  NamespaceRoot root;
  LayoutDigest layout{};
  SlotShape shape;
  EngineProps props;
};

// kMismatch unless the engine runs this very file: same path or name, and tensors that fit its
// size.
Status CheckSameModel(const ModelFile& file, const EngineProps& props, uint64_t tensor_bytes);

// `shape`: of a slot file with tokens that this engine saved.
Result<EngineIdentity> MakeIdentity(const IdentityOptions& options, const ModelFile& file,
                                    const EngineProps& props, const SlotShape& shape);

}  // namespace ember::agent
