// BodyShelf: memory of bodies that were answered, kept for the next ones: fresh memory of their
// size costs more than receiving into it. One a thread; bounded.
#pragma once

#include <string>
#include <vector>

namespace ember::http {

class BodyShelf {
 public:
  static BodyShelf& OfThread();

  // A string with room for `size` bytes, its content arbitrary.
  std::string Take(size_t size);
  void Put(std::string body);

 private:
  static constexpr size_t kLeast = 8 << 10;  // smaller ones are not worth it
  static constexpr size_t kMost = 2 << 20;
  static constexpr size_t kTotal = 16 << 20;

  std::vector<std::string> kept_;
  size_t bytes_ = 0;
};

}  // namespace ember::http
