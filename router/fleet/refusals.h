// Refusals: what one replica refused (401, 403, 404, 429) and another then took. A wrong key, model
// or limit makes a replica refuse at once, and one that refuses at once looks idle. What all refuse
// is the client's doing and never comes here. Nor is one client's key or limit, or one path, a
// matter of other requests: unless it has refused several clients and taken nothing since, only
// requests like the refused ones are better sent elsewhere. A plain value of one thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "proto/base/checksum.h"
#include "proto/base/time.h"

namespace ember::router {

class Refusals {
 public:
  // What requests have in common that may be refused alike: who asks, and what for.
  struct Kind {
    static Kind Of(std::string_view client, std::string_view path, std::string_view model);
    Checksum client{}, subject{};
  };

  // It refused a request that another replica took. True: this should be told.
  bool OnAlone(int status, const Kind& kind, TimePoint now);
  // It took a request.
  void OnTaken(const Kind& kind);
  // Such requests are better sent to others now, where there are any. Ends by itself, so that it is
  // tried again.
  bool avoided(const Kind& kind, TimePoint now) const;
  // Over its life.
  uint64_t count() const { return count_; }

 private:
  // Refusals of one client, or of what one path and model is, since the last was taken.
  struct Run {
    Checksum of{};
    bool of_client = false;
    int length = 0;
    TimePoint until{};  // avoided
    uint64_t takes{};   // takes_ at the newest

    // True: avoided from now on.
    bool Lengthen(TimePoint now);
  };
  Run& RunOf(const Checksum& of, bool of_client);

  std::vector<Run> runs_;  // few: most replicas have none
  Run whole_;              // of whoever asks, once several clients were refused
  uint64_t takes_ = 0;     // requests that it took
  uint64_t count_ = 0;
  TimePoint told_{};
};

}  // namespace ember::router
