#include "tests/bench/replica/prompt.h"

#include <simdjson.h>

#include <cstring>

namespace ember::bench {
namespace {

using simdjson::dom::element;

constexpr uint64_t kDefaultOutputTokens = 8;

std::string_view StringOf(const element& object, const char* name) {
  std::string_view text;
  if (object[name].get(text) != simdjson::SUCCESS) return "";
  return text;
}

// A string, or the texts of an array of parts.
void AppendText(const element& content, std::string* out) {
  std::string_view text;
  simdjson::dom::array parts;
  if (content.get(text) == simdjson::SUCCESS) {
    out->append(text);
  } else if (content.get(parts) == simdjson::SUCCESS) {
    for (const element part : parts) out->append(StringOf(part, "text"));
  }
}

std::string Render(const element& body) {
  std::string text;
  element content;
  simdjson::dom::array messages;
  if (body["messages"].get(messages) != simdjson::SUCCESS || messages.size() == 0) {
    if (body["prompt"].get(content) == simdjson::SUCCESS) AppendText(content, &text);
    return text;
  }
  for (const element message : messages) {
    text.append("<|").append(StringOf(message, "role")).append("|>\n");
    if (message["content"].get(content) == simdjson::SUCCESS) AppendText(content, &text);
    text.push_back('\n');
  }
  return text.append("<|assistant|>\n");
}

uint64_t OutputTokensOf(const element& body) {
  uint64_t tokens = 0;
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    if (body[name].get(tokens) == simdjson::SUCCESS && tokens > 0) return tokens;
  }
  return kDefaultOutputTokens;
}

}  // namespace

KeySpace BenchSpace() {
  KeySpace space{.id = {}, .seed = 0x656d626572, .tokens_per_block = kTokensPerBlock};
  space.id.bytes.fill(std::byte{0xbe});
  return space;
}

Chain ChainOf(std::string_view text) {
  static const KeySpace kSpace = BenchSpace();
  std::vector<TokenId> tokens(text.size() / sizeof(TokenId));
  if (!tokens.empty()) std::memcpy(tokens.data(), text.data(), tokens.size() * sizeof(TokenId));
  Chain chain{.hashes = HashBlocks(kSpace.id, kSpace.seed, kSpace.tokens_per_block, tokens),
              .names = {}};
  for (const BlockHash& hash : chain.hashes) {
    chain.names.push_back(std::hash<BlockHash>()(hash));
  }
  return chain;
}

Result<Prompt> Prompt::Of(std::string_view path, std::string_view body) {
  Prompt prompt{.chat = path == "/v1/chat/completions"};
  if (!prompt.chat && path != "/v1/completions") return InvalidError("no completion path");
  simdjson::dom::parser parser;
  element parsed;
  if (parser.parse(simdjson::padded_string(body)).get(parsed) != simdjson::SUCCESS ||
      !parsed.is_object()) {
    return InvalidError("bad json");
  }
  if (parsed["stream"].get(prompt.stream) != simdjson::SUCCESS) prompt.stream = false;
  prompt.output_tokens = OutputTokensOf(parsed);
  prompt.text = Render(parsed);
  prompt.tokens = prompt.text.size() / sizeof(TokenId);
  prompt.chain = ChainOf(prompt.text);
  return prompt;
}

std::string AnswerOf(uint64_t tokens) {
  std::string text;
  for (uint64_t i = 0; i < tokens; ++i) text.append("tok ");
  return text;
}

}  // namespace ember::bench
