// Which rules of cut_points.h hold for a tokenizer, found out by trying: random texts are tokenized
// whole and in pieces, each rule alone and then all of them together.
#pragma once

#include <cstdint>

namespace ember::router {

class ModelTokenizer;

// Those of `candidates` that gave equal tokens in every trial; 0 when they fail together.
uint32_t ProvenCuts(const ModelTokenizer& tokenizer, uint32_t candidates);

}  // namespace ember::router
