// View: the numbered member list. Every answer that depends on placement is computed from one View.
//
// A plain value; any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "proto/wire/messages.h"

namespace ember::cluster {

struct View {
  uint64_t number = 0;
  std::vector<wire::Member> members;  // sorted by id, ids unique

  bool operator==(const View&) const = default;
};

// "id=host:port,id=host:port": the static cluster. kInvalid names the entry that is wrong, a
// repeated id or a repeated address. The number is 1.
Result<View> ParseStaticView(std::string_view text);

// A view as another process gave it: sorted by id; kInvalid when it breaks the rules above.
Result<View> CheckedView(uint64_t number, std::vector<wire::Member> members);

}  // namespace ember::cluster
