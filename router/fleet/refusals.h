// Refusals: what one replica refused (401, 403, 404, 429) and another then took. A wrong key, model
// or limit makes a replica refuse at once, and one that refuses at once looks idle. What all refuse
// is the client's doing and never comes here. Nor is one client's key or limit, or one path, a
// matter of other requests: unless it has refused several clients and taken nothing since, only
// requests like the refused ones are better sent elsewhere.
// Of what is wrong with a request (400, 422) a replica's word is believed, but for one that has
// found all of late wrong: then another is asked, too. A plain value of one thread.
#pragma once

#include <algorithm>
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
  static bool IsWrong(int status) { return status == 400 || status == 422; }
  // It found a request wrong.
  void OnWrong() { wrong_ = std::min(wrong_ + 1, kAllWrong); }
  // It took none of the newest requests, and found so many wrong.
  bool finds_all_wrong() const { return wrong_ >= kAllWrong; }
  // Over its life.
  uint64_t count() const { return count_; }

 private:
  static constexpr int kAllWrong = 3;
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
  int wrong_ = 0;          // since it took one
  uint64_t takes_ = 0;     // requests that it took
  uint64_t count_ = 0;
  TimePoint told_{};
};

}  // namespace ember::router
