// One sampler for everything that is measured beside a run: a few threads, one clock, one store.
//
//   auto store = std::make_shared<SampleStore>();
//   Sampler sampler(store, std::move(sources));
//   sampler.start();
//   ...                                      // the run
//   sampler.stop();
//   for (const SourceHealth& health : sampler.health()) print(health.name, health.mean_cost_us);
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "telemetry/source.h"

namespace nibble::telemetry {

// How a source fares, and what it costs the machine that is measured.
struct SourceHealth {
  std::string name;
  Nanoseconds period = 0;
  std::uint64_t samples = 0;
  std::uint64_t failures = 0;
  std::string last_failure;
  double mean_cost_us = 0;  // wall time of a sample
  double max_cost_us = 0;
  Nanoseconds hung_for = 0;  // in the same call for longer than kHangs; 0: not
};

class Sampler {
 public:
  // In one call for so long: its signals are marked as not available.
  static constexpr Nanoseconds kHangs = 5'000'000'000;
  // So many failures in a row mark a source's signals, and it is asked less and less often. One
  // that never gave anything marks them at its first.
  static constexpr int kFailuresUntilDead = 3;
  static constexpr Nanoseconds kLongestRetry = 30'000'000'000;

  Sampler(std::shared_ptr<SampleStore> store, std::vector<std::unique_ptr<Source>> sources);
  ~Sampler();  // stop()
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  void start();
  // Waits for samples that are under way, but not for one that hangs: its thread is left behind
  // with what it uses.
  void stop(std::chrono::milliseconds patience = std::chrono::milliseconds(500));

  SampleStore& store() const { return *store_; }
  // Also marks the signals of sources that hang. By source, in the order given.
  std::vector<SourceHealth> health(Nanoseconds hangs_after = kHangs);

 private:
  struct Lane;
  std::shared_ptr<SampleStore> store_;
  std::vector<std::shared_ptr<Lane>> lanes_;
  std::vector<std::pair<std::size_t, std::size_t>> order_;  // lane and place within it
};

Json health_json(const SourceHealth& health);

}  // namespace nibble::telemetry
