// A number that is scripted: the same always, drawn from a distribution, or taken from a list.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Distribution itl_ms, parse_distribution("gamma:10,5"));
//   Random random(stream_seed(script.seed, request, Draw::kItl));
//   const double ms = itl_ms.at(random, token);   // the same for the same seed, request and token
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/stats.h"

namespace nibble::mock {

enum class DistributionKind : std::uint8_t {
  kConstant,
  kUniform,      // low .. high
  kNormal,       // mean, stddev; what falls below 0 is 0
  kLognormal,    // mean and stddev of the values themselves, not of their logarithm
  kExponential,  // mean
  kGamma,        // mean, stddev
  kList,         // replayed from its start when it ends
};

struct Distribution {
  DistributionKind kind = DistributionKind::kConstant;
  double first = 0;   // the constant, the low end, or the mean
  double second = 0;  // the high end, or the standard deviation
  std::vector<double> list = {};

  static Distribution constant(double value) { return {.first = value}; }
  bool is_constant() const { return kind == DistributionKind::kConstant; }

  // Never negative. `position` counts draws of one purpose; a list is read at position mod size.
  double at(Random& random, std::uint64_t position) const;
  // As at(), rounded to a whole number of at least `least`.
  std::int64_t count_at(Random& random, std::uint64_t position, std::int64_t least) const;

  friend bool operator==(const Distribution&, const Distribution&) = default;
};

// What a script allows its numbers to be.
struct DistributionRange {
  double min = 0;
  double max = 0;
};

// The form of a flag: "50", "uniform:40..60", "normal:50,5", "lognormal:50,5", "gamma:50,5",
// "exponential:50", "list:50,60,70". The fault is a clause that follows what was given: "is no
// ...".
Result<Distribution> parse_distribution(std::string_view text, DistributionRange range);
// The form of a script: 50, [50, 60, 70] or {"kind": "gamma", "mean": 50, "stddev": 5}.
Result<Distribution> distribution_from_json(const Json& json, const std::string& where,
                                            DistributionRange range);
Json to_json(const Distribution& distribution);

// What a number is drawn for: each purpose has its own sequence, so that none moves another.
enum class Draw : std::uint64_t {
  kTtft = 1,
  kItl,
  kChunkTokens,
  kOutputTokens,
  kEarlyEnd,
  kReasoning,
  kWords,
  kNoise,
  kStepNoise,
  kFault = 100,  // plus the fault's place in the script
};

std::uint64_t stream_seed(std::uint64_t seed, std::uint64_t index, Draw purpose,
                          std::uint64_t part = 0);

// Uniform in (0, 1): never an end, so that logarithms and quantiles are finite.
double open_uniform(Random& random);

}  // namespace nibble::mock
