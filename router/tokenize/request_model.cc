#include "router/tokenize/request_model.h"

#include <algorithm>

#include "client/http/headers.h"

namespace ember::router {
namespace {

constexpr size_t kMaxModel = 1024;
constexpr size_t kMaxParts = 64;
constexpr size_t kMaxPartHead = 4096;
constexpr size_t kMaxBoundary = 70;  // RFC 2046

// Of `boundary=NAME` or `boundary="NAME"`; "" when there is none.
std::string_view BoundaryOf(std::string_view content_type) {
  constexpr std::string_view kForm = "multipart/form-data";
  if (!http::EqualNoCase(content_type.substr(0, kForm.size()), kForm)) return "";
  constexpr std::string_view kName = "boundary=";
  for (size_t at = kForm.size(); at + kName.size() < content_type.size(); ++at) {
    if (!http::EqualNoCase(content_type.substr(at, kName.size()), kName)) continue;
    std::string_view rest = content_type.substr(at + kName.size());
    if (!rest.starts_with('"')) return rest.substr(0, rest.find_first_of("; \t"));
    rest.remove_prefix(1);
    return rest.substr(0, rest.find('"'));
  }
  return "";
}

// Of a part's head.
bool IsOfModel(std::string_view head) {
  return head.find("; name=\"model\"") != head.npos || head.find(";name=\"model\"") != head.npos;
}

std::string NameOfJson(std::string_view body, std::string_view member) {
  std::string name, unescaped;
  JsonCursor json(body);
  json.Object([&](std::string_view raw) {
    if (MeaningOfName(raw, &unescaped) != member) return json.SkipValue();
    return TakeModel(&json, &name);
  });
  return name;
}

}  // namespace

bool TakeModel(JsonCursor* json, std::string* model) {
  constexpr size_t kLongestEscape = 6;
  model->clear();
  if (json->Peek() != '"') return json->SkipValue();
  std::string_view raw;
  if (!json->TakeString(&raw)) return false;
  raw = raw.substr(0, kMaxModel * kLongestEscape);
  if (!Unescape(raw, model)) model->assign(raw);
  model->resize(std::min(model->size(), kMaxModel));
  return true;
}

std::string ModelOfJson(std::string_view body) { return NameOfJson(body, "model"); }

bool AsksForStream(std::string_view body) {
  std::string_view value;
  std::string unescaped;
  JsonCursor json(body);
  json.Object([&](std::string_view raw) {
    return MeaningOfName(raw, &unescaped) == "stream" ? json.TakeValue(&value) : json.SkipValue();
  });
  return value == "true";
}

std::string LoraPathOfJson(std::string_view body) { return NameOfJson(body, "lora_path"); }

std::string ModelOfForm(std::string_view content_type, std::string_view body) {
  const std::string_view boundary = BoundaryOf(content_type);
  if (boundary.empty() || boundary.size() > kMaxBoundary) return "";
  const std::string delimiter = "--" + std::string(boundary);
  for (size_t part = 0; part < kMaxParts; ++part) {
    const size_t begin = body.find(delimiter);
    if (begin == body.npos) return "";
    body.remove_prefix(begin + delimiter.size());
    const size_t head = body.substr(0, kMaxPartHead).find("\r\n\r\n");
    if (head == body.npos || !IsOfModel(body.substr(0, head))) continue;
    body.remove_prefix(head + 4);
    const std::string_view name = body.substr(0, kMaxModel);
    const size_t end = body.substr(0, kMaxModel + 1).find("\r\n");
    if (end == body.npos && body.size() <= kMaxModel) return "";
    return std::string(name.substr(0, end));
  }
  return "";
}

}  // namespace ember::router
