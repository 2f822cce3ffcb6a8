#include "router/tokenize/prompt_outline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

#include "proto/base/checksum.h"
#include "router/tokenize/json_cursor.h"
#include "router/tokenize/prompt_changes.h"
#include "router/tokenize/prompt_members.h"
#include "router/tokenize/request_model.h"
#include "router/tokenize/slot_marks.h"

namespace ember::router {
namespace {

constexpr size_t kMinSlot = 64;      // shorter texts are not worth a slot
constexpr size_t kMaxBlank = 64;     // white space that stays beside a slot
constexpr size_t kMaxDepth = 64;     // of a message
constexpr size_t kMaxOrdered = 3;    // levels of a message whose members' order does not count
constexpr size_t kMostOrdered = 64;  // members of an object that has more stay as they came
constexpr size_t kMaxSlots = 999'999;
constexpr size_t kMaxIds = 4u << 20;  // longer than any context
constexpr size_t kLargeData = 4096;   // an image's bytes, which no template prints
constexpr std::string_view kBilling = "x-anthropic-billing-header";  // the template's side drops it

uint32_t RoleBit(std::string_view role) {
  if (role == "system") return kSystemRole;
  if (role == "user") return kUserRole;
  if (role == "assistant") return kAssistantRole;
  if (role == "tool") return kToolRole;
  return 0;
}

bool IsOneOf(std::string_view key, std::span<const std::string_view> keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

constexpr std::array<std::string_view, 2> kTextKeys = {"content", "text"};
// Under these a text is printed as JSON, or read as such.
constexpr std::array<std::string_view, 5> kPrintedKeys = {"tool_calls", "function", "arguments",
                                                          "input", "tools"};
// Templates print these at any length, but look into them, so that they are no slots.
constexpr std::array<std::string_view, 7> kWrittenKeys = {
    "reasoning", "reasoning_content", "thinking", "output", "arguments", "input", "refusal"};

class OutlineReader {
 public:
  OutlineReader(PromptApi api, std::string_view body, uint32_t roles, PromptOutline* out,
                size_t enough)
      : api_(api),
        members_(MembersOf(api)),
        json_(body),
        roles_(roles),
        enough_(enough),
        out_(*out) {}

  PromptReason Read() {
    out_.add_special_tokens = api_ == PromptApi::kCompletion;
    if (api_ != PromptApi::kCompletion) out_.request = "{";
    const bool whole = json_.Object([this](std::string_view key) { return Member(key); });
    if (!whole || json_.Peek() != '\0') {
      return reason_ == PromptReason::kNone ? PromptReason::kInvalid : reason_;
    }
    if (api_ != PromptApi::kCompletion) out_.request += '}';
    if (is_text()) Arrange();
    out_.several = prompts_ > 1 || answers_[0] || answers_[1] || changes_.several();
    out_.prompt_logprobs = prompt_logprobs_ || changes_.uncached() ||
                           (echo_ && (logprobs_ || api_ == PromptApi::kChat));
    out_.doubtful = changes_.doubtful() || unclear_;
    out_.most_tokens = changes_.most_tokens();
    if (!has_prompt_) return PromptReason::kNoPrompt;
    return changes_.another() ? PromptReason::kUnsupported : PromptReason::kNone;
  }

 private:
  bool is_text() const { return enough_ != std::string::npos; }

  bool Member(std::string_view raw) {
    const std::string_view key = MeaningOfName(raw, &name_);
    if (key == "model") return TakeModel(&json_, &out_.model);
    if (key == "lora_path") return Name(&out_.lora_path);
    if (key == "cache_salt") return Name(&out_.salt);
    if (key == "prompt_logprobs") return Given(&prompt_logprobs_);
    if (key == "logprobs") return Given(&logprobs_);
    if (key == "n" || key == "best_of") return Answers(&answers_[key == "n" ? 0 : 1]);
    if (PromptChanges::Has(key)) return Change(key);
    if (key == "echo") return Given(&echo_);
    if (key == "add_special_tokens") {
      std::string_view value;
      if (!Flag(&value)) return false;
      out_.add_special_tokens = value == "true";
      return true;
    }
    if (api_ == PromptApi::kCompletion) return key == "prompt" ? Prompt() : json_.SkipValue();
    const auto place = static_cast<size_t>(std::ranges::find(members_, key) - members_.begin());
    const bool no_system = place == kSystemPlace && api_ == PromptApi::kChat;
    if (place == members_.size() || no_system) return json_.SkipValue();
    const size_t begin = out_.request.size();
    if (is_text()) end_ = begin + enough_;
    const bool whole = Key(members_[place]) && MemberValue(place);
    written_[place] = {begin, out_.request.size()};
    return whole;
  }

  bool MemberValue(size_t place) {
    const std::string_view key = members_[place];
    if (place == kSystemPlace) {
      return Value(key, kSystemRole, api_ == PromptApi::kResponses ? 0 : 1);
    }
    if (place > kMessagesPlace) {
      std::string_view value;
      return Flag(&value) && (Put(value), true);
    }
    if (place != kMessagesPlace) return Copy();
    has_prompt_ = true;
    return Value(key, kUserRole, 0);
  }

  // The members in their order; of equal ones the last, as engines have it.
  void Arrange() {
    std::string text;
    for (auto [begin, end] : written_) {
      if (begin == end || IsNothing(begin, end)) continue;
      text += ',';
      if (out_.request[begin] == ',') ++begin;
      text.append(out_.request, begin, end - begin);
    }
    out_.request = std::move(text);
  }

  // A member that is as if it were not there.
  bool IsNothing(size_t begin, size_t end) const {
    const std::string_view member = std::string_view(out_.request).substr(begin, end - begin);
    return member.ends_with("\":null") || member.ends_with("\":[]");
  }

  bool Given(bool* out) {
    const char first = json_.Peek();
    *out = first != 'n' && first != 'f';
    return json_.SkipValue();
  }

  bool Change(std::string_view key) {
    std::string_view value;
    if (!json_.TakeValue(&value)) return false;
    changes_.Set(key, value);
    return true;
  }

  // True, false or nothing; of other values that engines take for one of them nobody knows which.
  bool Flag(std::string_view* value) {
    if (!json_.TakeValue(value)) return false;
    unclear_ = unclear_ || (*value != "true" && *value != "false" && *value != "null");
    return true;
  }

  // Whether more than one is asked for, or may be.
  bool Answers(bool* several) {
    std::string_view count;
    if (!json_.TakeValue(&count)) return false;
    *several = count != "1" && count != "0" && count != "null";
    return true;
  }

  bool Name(std::string* out) {
    std::string_view raw;
    out->clear();
    if (json_.Peek() != '"') return json_.SkipValue();
    return json_.TakeString(&raw) && raw.size() <= 1024 && Unescape(raw, out);
  }

  // A string, ids, or a list of either: of several prompts the first.
  bool Prompt() {
    out_.slots.clear();
    out_.ids.clear();
    prompts_ = 1;
    if (json_.Peek() == '"') return PromptText();
    if (json_.Peek() != '[') return json_.SkipValue();
    bool first = true, ids = false;
    prompts_ = 0;
    return json_.Array([&] {
      const char c = json_.Peek();
      if (!ids) ++prompts_;
      const bool counts = std::exchange(first, false) || ids;
      if (!counts) return json_.SkipValue();
      if (c == '"') return !ids && PromptText();
      if (c == '[') return !ids && json_.Array([this] { return Id(); });
      ids = true;
      return Id();
    });
  }

  bool PromptText() {
    has_prompt_ = true;
    out_.slots.emplace_back();
    return json_.TakeString(&out_.slots.back());
  }

  bool Id() {
    has_prompt_ = true;
    uint64_t id = 0;
    if (!json_.TakeDigits(&id) || id > std::numeric_limits<TokenId>::max()) return false;
    if (out_.ids.size() < kMaxIds) out_.ids.push_back(static_cast<TokenId>(id));
    return true;
  }

  bool Key(std::string_view key) {
    if (out_.request.back() != '{') out_.request += ',';
    out_.request += '"';
    Put(key);
    out_.request += "\":";
    return true;
  }

  bool Copy() {
    std::string_view value;
    if (!json_.TakeValue(&value)) return false;
    Put(value);
    return true;
  }

  // Appends to the request, which is wanted up to `end_`.
  void Put(std::string_view text) {
    const size_t had = out_.request.size();
    if (had < end_) out_.request += text.substr(0, end_ - had);
  }

  // Stands for data that no template prints. A text that is compared must differ where that does.
  void PutData(std::string_view raw) {
    if (!is_text()) {
      out_.request += "null";
    } else if (out_.request.size() < end_) {
      out_.request += fmt::format("\"{:016x}\"", Xxh3Of64(AsBytes(raw)));
    }
  }

  // A value in which texts may be slots. `role`: whose, where the value itself does not say.
  // `level` 0: the list of messages, or a text in its place; 1: of a message's members.
  bool Value(std::string_view key, uint32_t role, size_t level) {
    if (level > kMaxDepth) {
      reason_ = PromptReason::kTooDeep;
      return false;
    }
    switch (json_.Peek()) {
      case '"':
        return Text(key, role, level);
      case '{':
        return IsOneOf(key, kPrintedKeys) && level > 0 ? Copy() : Members(role, level);
      case '[':
        if (IsOneOf(key, kPrintedKeys) && level > 0) return Copy();
        return List(key, role, level);
      default:
        return Copy();
    }
  }

  bool List(std::string_view key, uint32_t role, size_t level) {
    out_.request += '[';
    bool first = true;
    return json_.Array([&] {
      if (!std::exchange(first, false)) out_.request += ',';
      return Value(level == 0 ? "" : key, role, level + 1);
    }) && (out_.request += ']', true);
  }

  bool Members(uint32_t role, size_t level) {
    const size_t request = out_.request.size(), slots = out_.slots.size();
    const size_t begin = json_.at();
    // A message of the list says whose it is, and so do tool results among its parts.
    const bool message = level == 1;
    uint32_t owner = message ? 0 : role;
    out_.request += '{';
    const bool ordered = is_text() && level <= kMaxOrdered;
    std::vector<std::pair<std::string, size_t>> places;  // names, and where they begin
    const bool whole = json_.Object([&](std::string_view raw) {
      std::string unescaped;
      const std::string_view key = MeaningOfName(raw, &unescaped);
      if (ordered && places.size() <= kMostOrdered) places.emplace_back(key, out_.request.size());
      Key(raw);
      if (key != "role" && key != "type") return Value(key, role, level + 1);
      const size_t value = json_.at();
      if (!Copy()) return false;
      std::string_view text = json_.Since(value);
      while (!text.empty() && text.front() != '"') text.remove_prefix(1);
      text = text.size() >= 2 ? text.substr(1, text.size() - 2) : "";
      if (key == "role" && message) owner = RoleBit(text);
      if (key == "type" && text == "tool_result") owner = kToolRole;
      return true;
    });
    if (!whole) return false;
    Order(&places);
    out_.request += '}';
    if (out_.slots.size() > slots && (owner & roles_) == 0) {
      out_.request.resize(request);
      out_.slots.resize(slots);
      out_.request += json_.Since(begin);
    }
    return true;
  }

  // Puts the request's last members into our order, names downwards: whose a text is comes first.
  void Order(std::vector<std::pair<std::string, size_t>>* places) {
    const auto down = [](const auto& a, const auto& b) { return a.first > b.first; };
    if (places->size() > kMostOrdered || std::ranges::is_sorted(*places, down)) return;
    const size_t begin = places->front().second;
    std::vector<std::pair<std::string, std::string>> members(places->size());
    for (size_t i = places->size(); i-- > 0; out_.request.resize((*places)[i].second)) {
      std::string text = out_.request.substr((*places)[i].second);
      if (i > 0) text.erase(0, 1);  // the comma
      members[i] = {std::move((*places)[i].first), std::move(text)};
    }
    std::ranges::stable_sort(members, down);
    for (const auto& [name, member] : members) {
      if (out_.request.size() > begin) out_.request += ',';
      out_.request += member;
    }
  }

  bool Text(std::string_view key, uint32_t role, size_t level) {
    json_.Peek();
    const size_t begin = json_.at();
    std::string_view raw;
    if (!json_.TakeString(&raw)) return false;
    const bool alone = level == 0 || (level == 1 && key == "system");
    const bool may = alone ? (role & roles_) != 0 : IsOneOf(key, kTextKeys);
    if (!may && !alone && level > 1 && raw.size() > kLargeData && !IsOneOf(key, kTextKeys) &&
        !IsOneOf(key, kWrittenKeys)) {
      PutData(raw);
      return true;
    }
    const size_t before = may && raw.size() >= kMinSlot ? RawBlankPrefix(raw) : raw.size();
    const size_t after = before < raw.size() ? RawBlankSuffix(raw) : 0;
    if (before + after + kMinSlot / 2 > raw.size() || before > kMaxBlank || after > kMaxBlank ||
        out_.slots.size() >= kMaxSlots || roles_ == 0 || raw.substr(before).starts_with(kBilling)) {
      // In texts that are compared a message's text is a list of one part.
      const bool part = is_text() && level == 2 && key == "content";
      if (part) Put(R"([{"type":"text","text":)");
      Put(json_.Since(begin));
      if (part) Put("}]");
      return true;
    }
    out_.request += '"';
    out_.request += raw.substr(0, before);
    PutMark(out_.slots.size(), &out_.request);
    out_.request += raw.substr(raw.size() - after);
    out_.request += '"';
    out_.slots.push_back(raw.substr(before, raw.size() - before - after));
    return true;
  }

  const PromptApi api_;
  const MemberNames members_;
  std::array<std::pair<size_t, size_t>, std::tuple_size_v<MemberNames>> written_{};  // begin, end
  std::string name_;
  JsonCursor json_;
  const uint32_t roles_;
  const size_t enough_;
  size_t end_ = std::string::npos;
  PromptOutline& out_;
  bool has_prompt_ = false;
  bool prompt_logprobs_ = false;
  bool logprobs_ = false;
  bool echo_ = false;
  bool unclear_ = false;
  PromptChanges changes_;
  size_t prompts_ = 1;
  std::array<bool, 2> answers_{};  // whether `n`, `best_of` ask for several
  PromptReason reason_ = PromptReason::kNone;
};

}  // namespace

PromptReason PromptOutline::Of(PromptApi api, std::string_view body, uint32_t roles,
                               PromptOutline* out, size_t enough) {
  return OutlineReader(api, body, roles, out, enough).Read();
}

}  // namespace ember::router
