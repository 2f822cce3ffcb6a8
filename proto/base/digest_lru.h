// DigestLru: values by a 128-bit digest, the least recently used out first. What bounds it is the
// caller's: it drops the oldest while it has too much. One thread.
#pragma once

#include <cstring>
#include <list>
#include <unordered_map>
#include <utility>

#include "proto/base/checksum.h"

namespace ember::router {

template <typename Value>
class DigestLru {
 public:
  // Null when it is not there. The pointer is good until the next Put or Drop.
  Value* Find(const Checksum& digest) {
    const auto it = entries_.find(digest);
    if (it == entries_.end()) return nullptr;
    uses_.splice(uses_.begin(), uses_, it->second.use);
    return &it->second.value;
  }
  bool Contains(const Checksum& digest) const { return entries_.contains(digest); }
  // Replaces nothing: false, and the value is not taken, when the digest is there.
  bool Put(const Checksum& digest, Value value) {
    const auto [it, fresh] = entries_.try_emplace(digest);
    if (!fresh) return false;
    uses_.push_front(digest);
    it->second = {std::move(value), uses_.begin()};
    return true;
  }
  // False: it was not there.
  bool Drop(const Checksum& digest) {
    const auto it = entries_.find(digest);
    if (it == entries_.end()) return false;
    uses_.erase(it->second.use);
    entries_.erase(it);
    return true;
  }
  // The least recently used. There must be one.
  const Value& Oldest() const { return entries_.find(uses_.back())->second.value; }
  // The same, out of here.
  Value DropOldest() {
    const auto it = entries_.find(uses_.back());
    Value value = std::move(it->second.value);
    uses_.pop_back();
    entries_.erase(it);
    return value;
  }
  // Calls `f` with each value, in no order. It may change them.
  template <typename F>
  void ForEach(const F& f) {
    for (auto& [digest, entry] : entries_) f(entry.value);
  }
  void Clear() {
    entries_.clear();
    uses_.clear();
  }
  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    Value value;
    std::list<Checksum>::iterator use;
  };
  // Digests are uniform already.
  struct FirstBytes {
    size_t operator()(const Checksum& digest) const {
      size_t v;
      std::memcpy(&v, digest.data(), sizeof v);
      return v;
    }
  };

  std::unordered_map<Checksum, Entry, FirstBytes> entries_;
  std::list<Checksum> uses_;  // most recently used first
};

}  // namespace ember::router
