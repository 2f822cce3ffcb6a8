// Whose long texts a chat template need not see: those that it prints as they are, wherever they
// stand. Found out by trying: conversations are rendered with their texts and with marks in their
// place, and the prompts must be equal.
#pragma once

#include <cstdint>

namespace ember::router {

class ModelTokenizer;

// Roles of prompt_outline.h; 0 for a tokenizer without a template, and for a template of which it
// can't be told what it looks for in texts.
uint32_t ProvenSlotRoles(const ModelTokenizer& tokenizer);

}  // namespace ember::router
