// Status and Result<T>: how every function of EmberKV reports failure. No exceptions of ours.
//
// Ten codes, each tied to what the caller does about it; a new code needs a new reaction.
// A miss in a lookup is a value (see model/miss_reason.h), never a Status.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "proto/base/check.h"

namespace ember {

enum class StatusCode : uint8_t {
  kOk = 0,
  kNotFound = 1,     // recompute
  kBusy = 2,         // other copy, or back off
  kUnavailable = 3,  // other copy, and report the peer's health
  kDeadline = 4,     // as kUnavailable
  kCorrupt = 5,      // drop the copy, count it, treat as a miss
  kNoSpace = 6,      // admission said no
  kInvalid = 7,      // the caller's fault; retrying cannot help
  kMismatch = 8,     // layout, version or identity differs; never guess
  kCancelled = 9,    // the operation was asked to stop
  kInternal = 10,    // a bug of ours; log and give up this operation
};

// "not_found" etc.: used in logs, metric labels and messages.
std::string_view StatusCodeName(StatusCode code);
// The code for a number from the wire; anything unknown becomes kInternal.
StatusCode StatusCodeFromWire(uint32_t value);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) {
    if (code != StatusCode::kOk) rep_ = std::make_shared<const Rep>(Rep{code, std::move(message)});
  }

  bool ok() const { return rep_ == nullptr; }
  StatusCode code() const { return rep_ ? rep_->code : StatusCode::kOk; }
  std::string_view message() const { return rep_ ? std::string_view(rep_->message) : ""; }
  // "unavailable: connect 127.0.0.1:7101: Connection refused"
  std::string ToString() const;
  // The same code with "context: " put before the message.
  Status WithContext(std::string_view context) const;

 private:
  struct Rep {
    StatusCode code;
    std::string message;
  };
  std::shared_ptr<const Rep> rep_;
};

inline Status OkStatus() { return {}; }
inline Status NotFoundError(std::string m) { return {StatusCode::kNotFound, std::move(m)}; }
inline Status BusyError(std::string m) { return {StatusCode::kBusy, std::move(m)}; }
inline Status UnavailableError(std::string m) { return {StatusCode::kUnavailable, std::move(m)}; }
inline Status DeadlineError(std::string m) { return {StatusCode::kDeadline, std::move(m)}; }
inline Status CorruptError(std::string m) { return {StatusCode::kCorrupt, std::move(m)}; }
inline Status NoSpaceError(std::string m) { return {StatusCode::kNoSpace, std::move(m)}; }
inline Status InvalidError(std::string m) { return {StatusCode::kInvalid, std::move(m)}; }
inline Status MismatchError(std::string m) { return {StatusCode::kMismatch, std::move(m)}; }
inline Status CancelledError(std::string m) { return {StatusCode::kCancelled, std::move(m)}; }
inline Status InternalError(std::string m) { return {StatusCode::kInternal, std::move(m)}; }

// A value or the Status that says why there is none. Holding an OK Status is a programmer error.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {  // NOLINT
    EMBER_CHECK(!std::get<1>(state_).ok(), "a Result needs a value or an error");
  }

  bool ok() const { return state_.index() == 0; }
  Status status() const { return ok() ? Status() : std::get<1>(state_); }
  T& value() & {
    EMBER_CHECK(ok(), "value() of a failed Result");
    return std::get<0>(state_);
  }
  const T& value() const& {
    EMBER_CHECK(ok(), "value() of a failed Result");
    return std::get<0>(state_);
  }
  T&& value() && {
    EMBER_CHECK(ok(), "value() of a failed Result");
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace ember

// Returns the Status from the calling function (not coroutine) when it is an error.
#define EMBER_RETURN_IF_ERROR(expr)                                                        \
  do {                                                                                     \
    if (::ember::Status ember_status_ = (expr); !ember_status_.ok()) return ember_status_; \
  } while (0)
// The same inside a coroutine.
#define EMBER_CO_RETURN_IF_ERROR(expr)                                                        \
  do {                                                                                        \
    if (::ember::Status ember_status_ = (expr); !ember_status_.ok()) co_return ember_status_; \
  } while (0)
