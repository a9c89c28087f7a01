// A backend whose times and faults are made up, and what tests of the tuner share.
//
//   InjectedBackend backend(5);                 // the default is the first of five
//   backend.time = [&](int tactic, std::size_t round) { return 100 * (1 + noise()); };
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/stats.h"
#include "tactics/tune/backend.h"
#include "tactics/tune/tuning_file.h"

namespace nibble::tune {

// Tactic i of a test: distinct, and in range.
inline AnyTactic tactic_number(int at) {
  return CpuTactic{.isa = Isa::kAvx2, .threads = at + 1};
}
inline int number_of(const AnyTactic& tactic) {
  return std::get<CpuTactic>(tactic).threads - 1;
}

inline TuningShape test_shape() {
  return {.op = "moe.down", .experts = 256, .top_k = 8, .n = 6144, .k = 256};
}
inline TuningKey test_key(std::int64_t tokens = 64) {
  return {test_shape(), tokens, tokens};
}
inline TuningSite test_site() {
  return {.device = "NVIDIA H200", .units = 132, .driver = "CUDA 13.0", .kernel_version = "abc"};
}

// What the tuner writes of a key with a single candidate.
inline TuningEntry untuned_entry(const TuningKey& key, const AnyTactic& only) {
  TuningEntry entry{
      .key = key, .checked_tokens = checked_tokens(key), .choice = only, .fallback = only};
  entry.rounds = 16;
  entry.times = {
      {only, {.median_us = 100, .rounds = 16, .ratio = 1, .standing = Standing::kChosen}}};
  entry.note = "untuned: single candidate";
  return entry;
}

// Normal noise by Box and Muller, from our own generator: the same on every machine.
class Noise {
 public:
  explicit Noise(std::uint64_t seed) : random_(seed) {}
  double operator()() {
    const double radius = std::sqrt(-2 * std::log(std::max(random_.uniform(), 1e-300)));
    return radius * std::cos(6.283185307179586 * random_.uniform());
  }

 private:
  Random random_;
};

class InjectedBackend : public TuneBackend {
 public:
  explicit InjectedBackend(int candidates) {
    for (int at = 0; at < candidates; ++at) found.feasible.push_back(tactic_number(at));
    found.fallback = tactic_number(0);
  }

  // Microseconds; below 0: it faults.
  std::function<double(int tactic, std::size_t round)> time = [](int, std::size_t) {
    return 100.0;
  };
  std::function<Result<CheckRun>(int tactic, std::int64_t tokens, int repeats)> checked =
      [](int, std::int64_t, int repeats) -> Result<CheckRun> { return right(repeats); };
  Candidates found;
  std::vector<int> timed;  // tactics, in order

  static CheckRun right(int repeats) {
    return {.error = 1e-3,
            .limit = 4e-3,
            .where = "token 0",
            .digests = std::vector<std::uint64_t>(static_cast<std::size_t>(repeats), 77)};
  }

  Result<BackendIdentity> identity() override {
    return BackendIdentity{.site = test_site(), .compiler = "NVRTC 13.0"};
  }
  Result<Candidates> candidates(const TuningKey&) override { return found; }
  Result<CheckRun> check(const TuningKey&, const AnyTactic& tactic, std::int64_t tokens,
                         int repeats) override {
    return checked(number_of(tactic), tokens, repeats);
  }
  Result<double> time_us(const TuningKey&, const AnyTactic& tactic, std::size_t round) override {
    timed.push_back(number_of(tactic));
    const double us = time(number_of(tactic), round);
    if (us < 0) return run_error("CUDA_ERROR_ILLEGAL_INSTRUCTION");
    return us;
  }
};

}  // namespace nibble::tune
