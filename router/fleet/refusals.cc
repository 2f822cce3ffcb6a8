#include "router/fleet/refusals.h"

#include <algorithm>

namespace ember::router {
namespace {

constexpr int kRun = 2, kLongestRun = 16;
constexpr Duration kFirst = milliseconds(250), kLongest = seconds(8), kTold = seconds(60);
constexpr int kClients = 3;       // refused in turn: it is not their doing
constexpr size_t kMostRuns = 64;  // that one replica has; those whose time was over first give way
constexpr int kNotFound = 404;    // about what is asked for, the others about who asks

}  // namespace

Refusals::Kind Refusals::Kind::Of(std::string_view client, std::string_view path,
                                  std::string_view model) {
  return {.client = Xxh3Of(AsBytes(client)),
          .subject = Xxh3Of(AsBytes(path), Xxh3Of64(AsBytes(model)))};
}

bool Refusals::Run::Lengthen(TimePoint now) {
  if (now < until) return false;
  length = std::min(length + 1, kLongestRun);
  if (length < kRun) return false;
  until = now + std::min(kLongest, kFirst * (1 << (length - kRun)));
  return true;
}

Refusals::Run& Refusals::RunOf(const Checksum& of, bool of_client) {
  const auto known = std::ranges::find(runs_, of, &Run::of);
  if (known != runs_.end()) return *known;
  if (runs_.size() >= kMostRuns) runs_.erase(std::ranges::min_element(runs_, {}, &Run::until));
  return runs_.emplace_back(Run{.of = of, .of_client = of_client});
}

bool Refusals::OnAlone(int status, const Kind& kind, TimePoint now) {
  ++count_;
  bool avoided = false;
  if (IsWrong(status)) {
    avoided = whole_.Lengthen(now);
  } else {
    const bool of_client = status != kNotFound;
    Run& run = RunOf(of_client ? kind.client : kind.subject, of_client);
    run.takes = takes_;
    avoided = run.Lengthen(now);
    const auto clients = std::ranges::count_if(
        runs_, [this](const Run& r) { return r.of_client && r.takes == takes_; });
    if (of_client && clients >= kClients) avoided |= whole_.Lengthen(now);
  }
  if (!avoided || (told_ != TimePoint() && now < told_ + kTold)) return false;
  told_ = now;
  return true;
}

void Refusals::OnTaken(const Kind& kind) {
  ++takes_;
  whole_ = {};
  wrong_ = 0;
  std::erase_if(runs_,
                [&](const Run& r) { return r.of == (r.of_client ? kind.client : kind.subject); });
}

bool Refusals::avoided(const Kind& kind, TimePoint now) const {
  return now < whole_.until || std::ranges::any_of(runs_, [&](const Run& r) {
           return now < r.until && r.of == (r.of_client ? kind.client : kind.subject);
         });
}

}  // namespace ember::router
