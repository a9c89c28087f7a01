#include "diagnose/evidence.h"

namespace nibble::diagnose {

Datum measured(double value, std::string source) {
  return {.value = value, .source = std::move(source), .origin = Origin::kMeasured, .reason = {}};
}

Datum recorded(double value, std::string source) {
  return {.value = value, .source = std::move(source), .origin = Origin::kRecorded, .reason = {}};
}

Datum derived(double value, std::string source) {
  return {.value = value, .source = std::move(source), .origin = Origin::kDerived, .reason = {}};
}

Datum missing(std::string reason) {
  return {.value = std::nullopt,
          .source = {},
          .origin = Origin::kMeasured,
          .reason = std::move(reason)};
}

}  // namespace nibble::diagnose
