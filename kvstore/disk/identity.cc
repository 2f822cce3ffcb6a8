#include "kvstore/disk/identity.h"

#include <charconv>

#include "kvstore/disk/block.h"

namespace ember::kv {
namespace {

constexpr std::string_view kFirstLine = "EmberKV data directory";
constexpr size_t kMaxIdentityBytes = 4096;
constexpr uint32_t kMaxShards = 4096;

std::string Hex64(uint64_t value) {
  std::byte bytes[8];
  std::memcpy(bytes, &value, sizeof bytes);
  return ToHex(bytes);
}

// The value of the next line, which must be that of `key`.
Result<std::string_view> TakeLine(std::string_view* text, std::string_view key) {
  const size_t end = text->find('\n');
  const std::string_view line = text->substr(0, end);
  if (end == std::string_view::npos || !line.starts_with(key)) {
    return InvalidError("IDENTITY: no line \"" + std::string(key) + "\" where it belongs");
  }
  text->remove_prefix(end + 1);
  return line.substr(key.size());
}

Result<uint32_t> Number(std::string_view text, std::string_view what) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return InvalidError("IDENTITY: " + std::string(what) + " is not a number");
  }
  return value;
}

}  // namespace

Checksum Identity::Digest() const { return Xxh3Of(AsBytes(EncodeIdentity(*this))); }

std::string EncodeIdentity(const Identity& identity) {
  std::string text(kFirstLine);
  text += "\nformat=" + std::to_string(kDiskFormat);
  text += "\ncluster=" + identity.cluster;
  text += "\nnode=" + identity.node;
  text += "\nshards=" + std::to_string(identity.shards) + "\n";
  text += "checksum=" + Hex64(Xxh3Of64(AsBytes(text))) + "\n";
  return text;
}

Result<Identity> DecodeIdentity(std::string_view text) {
  if (text.size() > kMaxIdentityBytes) return InvalidError("IDENTITY: too large");
  const std::string_view all = text;
  Result<std::string_view> first = TakeLine(&text, kFirstLine);
  if (!first.ok() || !first->empty()) return InvalidError("IDENTITY: not one of EmberKV");
  Result<std::string_view> format = TakeLine(&text, "format=");
  if (!format.ok()) return format.status();
  Result<uint32_t> format_number = Number(*format, "format");
  if (!format_number.ok()) return format_number.status();
  if (*format_number != kDiskFormat) {
    return MismatchError("its format is " + std::to_string(*format_number) +
                         ", this program knows " + std::to_string(kDiskFormat) +
                         ": use the version that made it, or another directory");
  }
  Result<std::string_view> cluster = TakeLine(&text, "cluster=");
  if (!cluster.ok()) return cluster.status();
  Result<std::string_view> node = TakeLine(&text, "node=");
  if (!node.ok()) return node.status();
  Result<std::string_view> shards = TakeLine(&text, "shards=");
  if (!shards.ok()) return shards.status();
  const uint64_t checksum = Xxh3Of64(AsBytes(all.substr(0, all.size() - text.size())));
  Result<std::string_view> last = TakeLine(&text, "checksum=");
  if (!last.ok()) return last.status();
  if (*last != Hex64(checksum) || !text.empty()) {
    return CorruptError("IDENTITY: its checksum differs");
  }
  Result<uint32_t> count = Number(*shards, "shards");
  if (!count.ok()) return count.status();
  if (*count == 0 || *count > kMaxShards) return InvalidError("IDENTITY: no such shard count");
  return Identity{std::string(*cluster), std::string(*node), *count};
}

Status CheckIdentity(const Identity& found, const Identity& wanted, const std::string& directory) {
  const std::string of = directory + " belongs to ";
  if (found.cluster != wanted.cluster) {
    return MismatchError(of + "cluster \"" + found.cluster + "\", this node is in \"" +
                         wanted.cluster + "\": give this node a directory of its own");
  }
  if (found.node != wanted.node) {
    return MismatchError(of + "node \"" + found.node + "\", this is \"" + wanted.node +
                         "\": start it with --node-id=" + found.node +
                         ", or give this node a directory of its own");
  }
  if (found.shards != wanted.shards) {
    return MismatchError(directory + " was made with " + std::to_string(found.shards) +
                         " shards, not " + std::to_string(wanted.shards) +
                         ": start with --shards=" + std::to_string(found.shards) +
                         ", or with an empty directory");
  }
  return OkStatus();
}

}  // namespace ember::kv
