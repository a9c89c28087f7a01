#include "capi/error.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace nibble::capi {
namespace {

// Long enough for a compiler's log; the rest of a longer one is left out.
thread_local std::array<char, 4096> last_sentence = {};

}  // namespace

nibble_status report(nibble_status status, std::string_view sentence) noexcept {
  const std::size_t length = std::min(sentence.size(), last_sentence.size() - 1);
  std::memcpy(last_sentence.data(), sentence.data(), length);
  last_sentence[length] = '\0';
  return status;
}

nibble_status status_of(ErrorKind kind) noexcept {
  return kind == ErrorKind::kRun ? NIBBLE_RUN_FAILED : NIBBLE_INVALID_ARGUMENT;
}

extern "C" {

const char* nibble_version() {
  return NIBBLE_VERSION;
}

int32_t nibble_abi_version() {
  return NIBBLE_ABI_VERSION;
}

const char* nibble_last_error() {
  return last_sentence.data();
}

const char* nibble_status_text(nibble_status status) {
  switch (status) {
    case NIBBLE_OK:
      return "ok";
    case NIBBLE_INVALID_ARGUMENT:
      return "invalid argument";
    case NIBBLE_NO_DEVICE:
      return "no device";
    case NIBBLE_OUT_OF_MEMORY:
      return "out of memory";
    case NIBBLE_RUN_FAILED:
      return "run failed";
    case NIBBLE_INTERNAL:
      return "internal error";
    case NIBBLE_BAD_TUNING:
      return "bad tuning file";
  }
  return "unknown status";
}

}  // extern "C"

}  // namespace nibble::capi
