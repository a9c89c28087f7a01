// NIBBLE_CHECK is for our own mistakes: never reachable from input, files, the network or a peer.
#pragma once

namespace nibble {

// Prints the failed condition with its place and aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace nibble

#define NIBBLE_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::nibble::check_failed(#condition, __FILE__, __LINE__))
