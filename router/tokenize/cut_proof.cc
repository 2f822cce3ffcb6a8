#include "router/tokenize/cut_proof.h"

#include <string>
#include <string_view>
#include <vector>

#include "proto/base/random.h"
#include "router/tokenize/cut_points.h"
#include "router/tokenize/model_tokenizer.h"

namespace ember::router {
namespace {

constexpr int kTrials = 40;
constexpr int kPiecesOfText = 300;

// What may stand beside a cut, and what might reach over one.
constexpr std::string_view kPieces[] = {" the",
                                        " of",
                                        " a",
                                        " I",
                                        " The",
                                        " word",
                                        "word",
                                        "s",
                                        " don't",
                                        "'s",
                                        "'LL",
                                        " 12",
                                        "3",
                                        "2026",
                                        ".",
                                        ",",
                                        ";",
                                        ":",
                                        "!?",
                                        "...",
                                        " (",
                                        ")",
                                        "\"",
                                        "'",
                                        "-",
                                        " - ",
                                        "_x",
                                        "/a",
                                        "\n",
                                        "\n\n",
                                        "\r\n",
                                        " \n",
                                        "\t",
                                        "  ",
                                        "    ",
                                        "{\n  x",
                                        "你好",
                                        "世界",
                                        "，",
                                        "。",
                                        "、",
                                        "！",
                                        "？",
                                        "日本語",
                                        "の",
                                        "カタカナ",
                                        "한국어",
                                        " 문장",
                                        " Привет",
                                        "мир",
                                        " ελληνικά",
                                        " العربية",
                                        "שלום",
                                        " हिन्दी",
                                        "ภาษา",
                                        " ไทย",
                                        "é",
                                        "e\u0301",
                                        "\u0301",
                                        "ß",
                                        "\u00a0",
                                        "\u3000",
                                        "😀",
                                        "👨‍👩‍👧",
                                        "\u200b",
                                        "<|im_end|>",
                                        "<|im_start|>",
                                        "</s>",
                                        "<s>",
                                        "[INST]",
                                        " </think>",
                                        "<|eot_id|>",
                                        "=",
                                        " == ",
                                        "();",
                                        "</p>",
                                        "#",
                                        "\\n",
                                        "A",
                                        "ABC",
                                        " ABC"};

std::string RandomText(SeededRandom& random, uint32_t mask) {
  std::string text;
  for (int i = 0; i < kPiecesOfText; ++i) {
    const uint64_t draw = random.Next();
    if (draw % 3 == 0) {
      // A place for a cut, now and then right after another one.
      if ((mask & kCutBeforeSpace) != 0) text += " be";
      if ((mask & kCutAfterLine) != 0 && draw % 2 == 0) text += "\nof";
      if ((mask & kCutBeforePunctuation) != 0 && draw % 5 == 0) text += "好，世";
    } else {
      text += kPieces[draw / 3 % std::size(kPieces)];
    }
  }
  return text;
}

bool GivesEqualTokens(const ModelTokenizer& tokenizer, std::string_view text, uint32_t mask) {
  std::vector<TokenId> whole, pieces;
  if (tokenizer.Encode(text, &whole) != PromptReason::kNone) return false;
  // From the end: every cut is the last one of what is left.
  std::vector<size_t> cuts = {text.size()};
  while (const size_t cut = LastCut(text.substr(0, cuts.back()), 0, mask)) cuts.push_back(cut);
  size_t from = 0;
  for (auto it = cuts.rbegin(); it != cuts.rend(); ++it) {
    if (tokenizer.Encode(text.substr(from, *it - from), &pieces) != PromptReason::kNone) {
      return false;
    }
    from = *it;
  }
  return whole == pieces;
}

bool Holds(const ModelTokenizer& tokenizer, uint32_t mask) {
  SeededRandom random(mask);
  for (int i = 0; i < kTrials; ++i) {
    if (!GivesEqualTokens(tokenizer, RandomText(random, mask), mask)) return false;
  }
  return true;
}

}  // namespace

uint32_t ProvenCuts(const ModelTokenizer& tokenizer, uint32_t candidates) {
  uint32_t proven = 0;
  for (uint32_t rule = 1; rule <= candidates; rule <<= 1) {
    if ((candidates & rule) != 0 && Holds(tokenizer, rule)) proven |= rule;
  }
  return proven != 0 && Holds(tokenizer, proven) ? proven : 0;
}

}  // namespace ember::router
