// The boundary: what a call of the C API does with errors. No exception crosses it, and the
// sentence of what went wrong stays with the thread.
//
//   nibble_status nibble_thing_run(nibble_thing* thing) {
//     return guarded([&]() -> Result<> {
//       NIBBLE_RETURN_IF_ERROR(check_given(thing, "thing"));
//       return thing->run();
//     });
//   }
#pragma once

#include <exception>
#include <new>
#include <nibble/nibble.h>
#include <string_view>
#include <type_traits>

#include "base/result.h"

namespace nibble::capi {

// Keeps the sentence for nibble_last_error(), and returns the status. Allocates nothing.
nibble_status report(nibble_status status, std::string_view sentence) noexcept;
// What a kind of error is called here.
nibble_status status_of(ErrorKind kind) noexcept;

// Runs `call`, which gives a Result<> or has reported itself and gives a status.
template <class Call>
nibble_status guarded(const Call& call) noexcept {
  try {
    if constexpr (std::is_same_v<decltype(call()), nibble_status>) {
      return call();
    } else {
      const Result<> result = call();
      if (result.ok()) return NIBBLE_OK;
      return report(status_of(result.error().kind), result.error().message);
    }
  } catch (const std::bad_alloc&) {
    return report(NIBBLE_OUT_OF_MEMORY, "the host's memory does not suffice for this call");
  } catch (const std::exception& exception) {
    return report(NIBBLE_INTERNAL, exception.what());
  } catch (...) {
    return report(NIBBLE_INTERNAL, "an exception of no known type");
  }
}

}  // namespace nibble::capi
