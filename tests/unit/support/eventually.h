// How tests wait: for a condition with a deadline, never for a time that is hoped to be enough.
#pragma once

#include <chrono>
#include <functional>

namespace ember {

// True as soon as `condition` is; false when `patience` has run out, which is more than any machine
// needs, however busy. Calls it every few milliseconds.
bool Eventually(const std::function<bool()>& condition,
                std::chrono::milliseconds patience = std::chrono::seconds(60));

// Lets time pass where time itself is the fault that is tested (a frozen node, chaos between
// kills).
void LetTimePass(std::chrono::nanoseconds duration);

}  // namespace ember
