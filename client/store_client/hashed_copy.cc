#include "client/store_client/hashed_copy.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <system_error>
#include <thread>

namespace ember {
namespace {

// The copy is hashed while it is in the processor's own cache.
constexpr size_t kPiece = 64 << 10;
constexpr size_t kLine = 64;
// What a second thread must have to do to be worth its start.
constexpr size_t kBytesForThread = 4 << 20;
// Two move about twice what one does; more only take processors from others.
constexpr size_t kMaxThreads = 2;

// For much at once memcpy takes the processor's string move, which some (AMD's Zen 3) do at a third
// of the speed when the two sides lie differently in their pages, as a caller's buffer does.
void Copy(std::byte* to, const std::byte* from, size_t size) {
  size_t at = 0;
  for (; at + kLine <= size; at += kLine) std::memcpy(to + at, from + at, kLine);
  std::memcpy(to + at, from + at, size - at);
}

void Run(HashedCopy* copy) {
  ChecksumStream hash;
  for (size_t at = 0; at < copy->to.size(); at += kPiece) {
    const MutableByteSpan to = copy->to.subspan(at, std::min(kPiece, copy->to.size() - at));
    Copy(to.data(), copy->from.data() + at, to.size());
    hash.Update(to);
  }
  copy->checksum = hash.Digest();
}

}  // namespace

void RunCopies(std::span<HashedCopy> copies) {
  // Asked once: the library reads a file of /sys each time, which takes as long as a small load.
  static const size_t processors = std::thread::hardware_concurrency();
  size_t bytes = 0;
  for (const HashedCopy& copy : copies) bytes += copy.to.size();
  const size_t useful = std::min({copies.size(), bytes / kBytesForThread, kMaxThreads, processors});
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < copies.size();) Run(&copies[i]);
  };
  std::vector<std::thread> helpers;
  try {
    while (helpers.size() + 1 < useful) helpers.emplace_back(work);
  } catch (const std::system_error&) {
    // The system has no thread for it; this one does it all.
  }
  work();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace ember
