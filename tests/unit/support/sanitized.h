// Whether this program and what it starts are built with a sanitizer: slower, and with memory of
// its own, so bounds of time and of resident memory say nothing there.
#pragma once

namespace ember {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define EMBER_TEST_SANITIZED true
#endif
#endif
#ifndef EMBER_TEST_SANITIZED
#define EMBER_TEST_SANITIZED false
#endif

inline constexpr bool kSanitized = EMBER_TEST_SANITIZED;

}  // namespace ember
