// The sensors of simulated GPUs under the names that NVML's have, in a store that is served as
// `nibble watch --listen` serves one.
//
//   GpuTelemetry sensors(script.gpu, ranks);
//   sensors.sample(gpus, now);          // every kSamplePeriod
//   co_await telemetry::answer_samples(sensors.store(), request, writer, sleep);
#pragma once

#include <memory>
#include <vector>

#include "mock/simulated_gpu.h"
#include "telemetry/store.h"

namespace nibble::mock {

inline constexpr Nanoseconds kSamplePeriod = 100'000'000;

class GpuTelemetry {
 public:
  GpuTelemetry(const GpuScript& script, std::size_t gpus);

  // Of the time since the sample before; `gpus` as many as were declared.
  void sample(std::vector<SimulatedGpu>& gpus, Nanoseconds now);
  const std::shared_ptr<telemetry::SampleStore>& store() const { return store_; }

 private:
  const GpuScript script_;
  std::shared_ptr<telemetry::SampleStore> store_;
  std::vector<telemetry::SignalId> first_;  // of each GPU; the others follow it
};

}  // namespace nibble::mock
