// Waiting, in tests, for what another thread or process brings about: for the state itself, never
// for a time after which it should have come.
//
//   ASSERT_TRUE(eventually([&] { return mock.stats().running == 3; }));
#pragma once

#include <chrono>
#include <thread>

namespace nibble {

// Whether `condition` comes true within a minute, which only a failure takes.
template <class Condition>
bool eventually(const Condition& condition) {
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > patience) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace nibble
