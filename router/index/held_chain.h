// BlockChain: a prompt's blocks from its start; HeldChain: what one replica says that one of its
// slots holds, from the start of the chain. Plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/model/block_hash.h"

namespace ember::router {

using BlockChain = std::vector<BlockHash>;

struct HeldChain {
  uint32_t slot = 0;
  BlockChain blocks;
};

}  // namespace ember::router
