#include "client/http/body_shelf.h"

#include <algorithm>

namespace ember::http {

BodyShelf& BodyShelf::OfThread() {
  thread_local BodyShelf shelf;
  return shelf;
}

std::string BodyShelf::Take(size_t size) {
  std::string body;
  if (size >= kLeast) {
    const auto fits = [size](const std::string& s) {
      return s.capacity() >= size && s.capacity() / 4 <= size;
    };
    const auto it = std::find_if(kept_.rbegin(), kept_.rend(), fits);
    if (it != kept_.rend()) {
      body = std::move(*it);
      bytes_ -= body.capacity();
      *it = std::move(kept_.back());
      kept_.pop_back();
      return body;
    }
  }
  body.reserve(size);
  return body;
}

void BodyShelf::Put(std::string body) {
  const size_t size = body.capacity();
  if (size < kLeast || size > kMost || bytes_ + size > kTotal) return;
  bytes_ += size;
  kept_.push_back(std::move(body));
}

}  // namespace ember::http
