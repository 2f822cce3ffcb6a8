// Identity: whose data directory this is. The file IDENTITY in it, written before anything else:
// lines of key=value for people, the last one the XXH3-64 of all before it.
#pragma once

#include <string>

#include "proto/base/checksum.h"

namespace ember::kv {

struct Identity {
  std::string cluster;  // may be empty
  std::string node;
  uint32_t shards = 1;

  // Stands in every region file, so that one moved in from elsewhere is told.
  Checksum Digest() const;
  bool operator==(const Identity&) const = default;
};

std::string EncodeIdentity(const Identity& identity);
// kInvalid: no such file. kCorrupt: its checksum differs. kMismatch: of a newer format.
Result<Identity> DecodeIdentity(std::string_view text);
// OK, or kMismatch that says what differs and what to do about it.
Status CheckIdentity(const Identity& found, const Identity& wanted, const std::string& directory);

}  // namespace ember::kv
