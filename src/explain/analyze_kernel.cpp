// A GEMM that was timed alone: its bytes and FLOP, its two floors, and which of them holds it.
#include <algorithm>

#include "base/units.h"
#include "explain/explain_parts.h"
#include "formats/format.h"
#include "ledger/attention.h"

namespace nibble {
namespace {

constexpr double kNearRoof =
    2;  // within this factor of the larger floor, that roof explains the time

double gemm_bytes(const MeasuredKernel& kernel, Format activations) {
  return storage_bytes(kernel.format, *kernel.n, *kernel.k).total() +
         storage_bytes(activations, *kernel.m, *kernel.k).total() +
         *kernel.m * *kernel.n * kBf16Bytes;
}

std::string regime_of(const KernelAnalysis& kernel) {
  if (kernel.time_us < kernel.compute_us || kernel.time_us < kernel.memory_us) {
    return "accounting error";
  }
  const double floor_us = std::max(kernel.memory_us, kernel.compute_us);
  if (kernel.time_us > kNearRoof * floor_us) return "launch or latency";
  return kernel.memory_us >= kernel.compute_us ? "memory" : "compute";
}

}  // namespace

KernelAnalysis analyze_kernel(const Scene& scene, const MeasuredKernel& measured) {
  KernelAnalysis kernel;
  kernel.measured = measured;
  const MachineSpec& machine = scene.machine();
  kernel.precision = compute_precision(machine, measured.format, measured.activations);
  kernel.peak_tflops = machine.peak(kernel.precision)->dense_tflops.value;
  const double bandwidth = machine.bandwidth_gb_s.value;
  kernel.ridge = kernel.peak_tflops * kTera / (bandwidth * kGiga);
  if (!has_shape(measured)) {
    kernel.label = fmt::format("{} ({})", to_string(measured.format),
                               measured.shape.empty() ? "shape not stated" : measured.shape);
    return kernel;
  }
  kernel.label =
      fmt::format("{} {}x{}x{}", to_string(measured.format), *measured.m, *measured.n, *measured.k);
  kernel.flop = 2 * *measured.m * *measured.n * *measured.k;
  kernel.time_us = measured.time_us ? *measured.time_us : kernel.flop / (*measured.tflops * 1e6);
  kernel.bytes = gemm_bytes(measured, measured.activations);
  kernel.bytes_bf16_activations = gemm_bytes(measured, Format::kBf16);
  kernel.memory_us = kernel.bytes / (bandwidth * 1e3);
  kernel.memory_bf16_activations_us = kernel.bytes_bf16_activations / (bandwidth * 1e3);
  kernel.compute_us = kernel.flop / (kernel.peak_tflops * 1e6);
  kernel.intensity = kernel.flop / kernel.bytes;
  kernel.intensity_bf16_activations = kernel.flop / kernel.bytes_bf16_activations;
  kernel.regime = regime_of(kernel);
  if (machine.sms) {
    kernel.wave_coverage = wave_coverage(kUsualTile, *measured.m, *measured.n, machine.sms->value);
  }
  return kernel;
}

}  // namespace nibble
