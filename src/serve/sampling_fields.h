// How a token is chosen, as a request's body and a checkpoint's generation_config.json name it:
// both are read here, so that both have the same names and ranges.
//
//   engine::Sampling sampling = bounds.defaults;
//   read_distribution(fields, bounds.vocabulary, sampling);   // fields: FieldReader, ObjectReader
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/json.h"
#include "engine/request.h"

namespace nibble::serve {

// From here down vLLM takes the largest logit, as at 0: a quotient would leave the range of floats.
inline constexpr double kLeastTemperature = 1e-5;

// Replaces what the fields give and leaves the rest.
template <class Reader>
void read_distribution(Reader& fields, std::int64_t most_top_k, engine::Sampling& sampling) {
  sampling.temperature =
      fields.number("temperature", {.min = 0, .max = 100}).value_or(sampling.temperature);
  if (sampling.temperature < kLeastTemperature) sampling.temperature = 0;
  sampling.top_p = fields.number("top_p", {.max = 1, .above = 0.0}).value_or(sampling.top_p);
  const NumberRange top_k = {.min = -1, .max = static_cast<double>(most_top_k)};
  sampling.top_k = std::max<std::int64_t>(  // -1, too, is all
      0, fields.integer("top_k", top_k).value_or(sampling.top_k));
  sampling.min_p = fields.number("min_p", {.min = 0, .max = 1}).value_or(sampling.min_p);
  // Wide enough for all uses; beyond it quotients leave the range of floats.
  sampling.repetition_penalty = fields.number("repetition_penalty", {.min = 0.01, .max = 100})
                                    .value_or(sampling.repetition_penalty);
}

}  // namespace nibble::serve
