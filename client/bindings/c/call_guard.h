// Guarded: the border between C and us. Runs a call, keeps its error's text for ember_last_error,
// and lets no exception out.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "client/bindings/c/ember.h"
#include "proto/base/status.h"

namespace ember::c {

// The calling thread's last error; empty when its last call did not fail.
std::string& LastError();

inline ember_code CodeOf(const Status& status) {
  LastError() = std::string(status.message());
  return static_cast<ember_code>(status.code());
}

// `work` returns a Status.
template <typename Work>
ember_code Guarded(Work work) noexcept {
  try {
    return CodeOf(work());
  } catch (const std::bad_alloc&) {
    LastError().clear();  // takes no memory
    LastError() = "out of memory";
  } catch (const std::exception& e) {
    LastError() = e.what();
  } catch (...) {
    LastError() = "an unknown exception";
  }
  return EMBER_INTERNAL;
}

inline std::string Text(const char* text) { return text == nullptr ? "" : text; }

}  // namespace ember::c
