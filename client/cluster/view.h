// View: the numbered member list. Every answer that depends on placement is computed from one View.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/model/block_hash.h"
#include "proto/wire/messages.h"

namespace ember::cluster {

struct View {
  uint64_t number = 0;
  std::vector<wire::Member> members;  // sorted by id, ids unique
};

// "id=host:port,id=host:port": the static cluster. kInvalid names the entry that is wrong, a
// repeated id or a repeated address. The number is 1.
Result<View> ParseStaticView(std::string_view text);

// The ordered owners of a placement group: the first `copies` members by weighted rendezvous hashing
// (Highest Random Weight, Thaler and Ravishankar 1998; weights as in Mosko's -w/ln(h) form), zones
// spread where there are several. Indexes into view.members. Adding or removing one member moves only
// that member's share.
std::vector<size_t> Owners(const View& view, const NamespaceId& ns, const BlockHash& placement,
                           size_t copies);

}  // namespace ember::cluster
