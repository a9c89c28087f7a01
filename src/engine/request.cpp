#include "engine/request.h"

#include "base/check.h"

namespace nibble::engine {

std::string_view to_string(Finish finish) {
  switch (finish) {
    case Finish::kStop:
      return "stop";
    case Finish::kLength:
      return "length";
    case Finish::kCancelled:
      return "abort";
    case Finish::kFailed:
      return "error";
  }
  NIBBLE_CHECK(false);
  return "";
}

}  // namespace nibble::engine
