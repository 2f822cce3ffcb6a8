// ReplicaEstimate: what one replica's replies teach about it: its prefill time, its load rate from
// the store, what of our work is still ahead of a new request, and how its cache is used.
//
// Prefill is taken to be served in order of arrival: the time between two first tokens, or from a
// request's arrival to its first token when nothing was ahead of it, is the younger request's own.
// Engines that compute several prompts at once share that time among them, and the sum, which is
// what queues are made of, is right all the same.
// A plain value of one thread; time comes in.
#pragma once

#include <cstdint>
#include <map>

#include "proto/base/time.h"
#include "proto/model/routing.h"
#include "router/estimate/decaying_sum.h"
#include "router/estimate/prefill_fit.h"
#include "router/estimate/quantile_window.h"

namespace ember::router {

// What a reply says of its prompt.
struct ReplyTokens {
  uint64_t prompt = 0;
  uint64_t cached = 0;     // not computed: found in the replica or loaded
  uint64_t loaded = 0;     // of those, from the store
  uint64_t predicted = 0;  // of the replica's own, as its decision expected; 0: none
  uint64_t output = 0;     // of the answer; 0: there is none, or its length is not known
};

class ReplicaEstimate {
 public:
  using FlightNumber = uint64_t;

  // A request was sent; `expected_ms` is its load and prefill as predicted.
  FlightNumber OnSent(double expected_ms, TimePoint now);
  // The first byte of its reply's body came. Once a flight; after OnEnd ignored.
  void OnFirstToken(FlightNumber flight, TimePoint now);
  // The reply came as a whole: its prefill ended at some time before. Instead of OnFirstToken.
  void OnWholeReply(FlightNumber flight, TimePoint now);
  // The reply has ended and said this. After one of these and before OnEnd, else ignored.
  void OnReply(FlightNumber flight, const ReplyTokens& tokens, TimePoint now);
  // The reply ended, or never came. Once a flight.
  void OnEnd(FlightNumber flight);

  // The engine, which other routers may use as well, reports so many requests without a first
  // token.
  void OnReport(uint32_t waiting, TimePoint now);
  // The same, where a report tells more: so much prefill of others' requests.
  void OnOthers(double prefill_ms, TimePoint now);

  // What is ahead of a request that is sent now, in ms of prefill: of ours what was predicted, of
  // others' what the last report said, the less the older it is.
  double BacklogMs(TimePoint now) const;
  // What the replica's agent has told itself: it sees the engine from nearby, and wins.
  struct Told {
    bool prefill = false;
    bool load_rate = false;
  };
  // Fills in what is known here: prefill model, load rates, backlog, cache use. The rest of `view`
  // stays, and what was told.
  void Describe(TimePoint now, Told told, Replica* view) const;

 private:
  struct Flight {
    TimePoint sent;
    double expected_ms = 0;
    double prefill_ms = 0;  // measured, once the first token came
    bool whole = false;     // and is no more than a bound
  };
  using Flights = std::map<FlightNumber, Flight>;  // in the order in which they were sent

  // Since when the replica has computed nothing but this flight, if it is the oldest that waits.
  TimePoint ServedSince(const Flight& flight) const;
  void Answers(FlightNumber flight, double prefill_ms, bool whole);
  void Learn(const Flight& flight, const ReplyTokens& tokens, TimePoint now);
  void LearnPrefill(const Flight& flight, const ReplyTokens& tokens, TimePoint now);

  Flights waiting_;        // for their first token
  Flights answering_;      // have it
  double waiting_ms_ = 0;  // sum of expected_ms of waiting_
  TimePoint last_first_token_;
  double others_ms_ = 0;  // at the last report
  TimePoint reported_;
  FlightNumber next_ = 1;
  PrefillFit prefill_;
  TimePoint prefill_seen_;              // when a reply last showed it
  QuantileWindow loads_{64};            // ms a token
  double load_tokens_per_ms_ = 0;       // the median of loads_; 0: there are none
  double load_tail_tokens_per_ms_ = 0;  // its slowest tenth
  double typical_prefill_ms_ = 0;
  double beyond_tokens_ = 0;  // to be added to matches, so that on average they come true
  DecayingSum requests_{seconds(10)};
  DecayingSum prompt_tokens_{seconds(10)};
  DecayingSum cached_tokens_{seconds(10)};
};

}  // namespace ember::router
