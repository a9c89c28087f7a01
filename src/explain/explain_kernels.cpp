// Points 1 and 2: what each GEMM that was timed alone is worth against its two roofs.
#include <algorithm>

#include "base/units.h"
#include "explain/explain_parts.h"
#include "formats/format.h"
#include "ledger/attention.h"

namespace nibble {
namespace {

double weight_bytes(const MeasuredKernel& kernel) {
  return storage_bytes(kernel.format, *kernel.n, *kernel.k).total();
}

void explain_ridge(Scene& scene, const KernelAnalysis& kernel) {
  const std::string id = fmt::format("ridge.{}", to_string(kernel.precision));
  for (const Finding& known : scene.analysis.findings) {
    if (known.id == id) return;
  }
  scene.conclude(
      {.id = id,
       .point = 1,
       .title = fmt::format("Ridge of {}", to_string(kernel.precision)),
       .value = kernel.ridge,
       .unit = "FLOP/B",
       .formula = "peak / bandwidth",
       .inputs = Inputs(scene).peak(kernel.precision).bandwidth().list(),
       .sentence = fmt::format("The {} roofs meet at {} FLOP/B: {} TFLOPS dense over {} GB/s.",
                               to_string(kernel.precision), format_number(kernel.ridge),
                               format_number(kernel.peak_tflops),
                               format_number(scene.machine().bandwidth_gb_s.value))});
}

// The intensity as commonly written, 2MNK / (MK + NK), counts elements: it becomes FLOP/B only when
// every element has the same size, and it leaves the output out.
void explain_elements(Scene& scene, const KernelAnalysis& kernel) {
  const MeasuredKernel& measured = kernel.measured;
  const std::string slug = kernel_slug(measured);
  const double elements = (*measured.m + *measured.n) * *measured.k;
  const double per_element = kernel.flop / elements;
  scene.conclude({.id = "intensity.elements." + slug,
                  .point = 1,
                  .title = "FLOP per element",
                  .value = per_element,
                  .unit = "FLOP/element",
                  .formula = "2*M*N*K / (M*K + N*K)",
                  .inputs = Inputs(scene).shape(measured).list(),
                  .sentence = fmt::format("{}: 2MNK/(MK+NK) is {} FLOP per element, not per byte.",
                                          kernel.label, format_number(per_element))});
  scene.conclude(
      {.id = "intensity.bf16." + slug,
       .point = 1,
       .title = "Intensity with bf16 operands",
       .value = per_element / kBf16Bytes,
       .unit = "FLOP/B",
       .formula = "2*M*N*K / (2 B * (M*K + N*K))",
       .inputs = Inputs(scene).shape(measured).list(),
       .assumptions = {"both operands at 2 B per element, output left out"},
       .sentence = fmt::format("{}: with bf16 operands the same formula gives {} FLOP/B.",
                               kernel.label, format_number(per_element / kBf16Bytes))});
}

void explain_intensity(Scene& scene, const KernelAnalysis& kernel) {
  const MeasuredKernel& measured = kernel.measured;
  const std::string slug = kernel_slug(measured);
  explain_elements(scene, kernel);
  scene.conclude(
      {.id = "intensity." + slug,
       .point = 1,
       .title = "Arithmetic intensity",
       .value = kernel.intensity_bf16_activations,
       .unit = "FLOP/B",
       .formula = "2*M*N*K / (weight bytes + 2 B * M*K + 2 B * M*N)",
       .inputs = Inputs(scene).shape(measured).list(),
       .assumptions = {"bf16 activations and output"},
       .sentence = fmt::format(
           "{}: {} weights take {} B each; with bf16 activations and output {} over {} are "
           "{} FLOP/B.",
           kernel.label, to_string(measured.format),
           format_number(bits_per_element(measured.format) / 8),
           format_quantity(kernel.flop, "FLOP"), format_bytes(kernel.bytes_bf16_activations),
           format_number(kernel.intensity_bf16_activations))});
  if (measured.activations != Format::kBf16) {
    scene.conclude(
        {.id = "intensity.native." + slug,
         .point = 1,
         .title = fmt::format("Intensity with {} activations", to_string(measured.activations)),
         .value = kernel.intensity,
         .unit = "FLOP/B",
         .formula = "2*M*N*K / (weight bytes + activation bytes + 2 B * M*N)",
         .inputs = Inputs(scene).shape(measured).list(),
         .assumptions = {"activations quantized beforehand, bf16 output"},
         .sentence =
             fmt::format("{}: with {} activations {} FLOP/B.", kernel.label,
                         to_string(measured.activations), format_number(kernel.intensity))});
  }
  explain_ridge(scene, kernel);
  const double below = kernel.ridge / kernel.intensity_bf16_activations;
  scene.conclude(
      {.id = "intensity.below_ridge." + slug,
       .point = 1,
       .title = "Distance from the ridge",
       .value = below,
       .unit = "x",
       .verdict = below > 1 ? "memory roof" : "compute roof",
       .formula = "(peak / bandwidth) / intensity",
       .inputs = Inputs(scene).shape(measured).peak(kernel.precision).bandwidth().list(),
       .assumptions = {"bf16 activations and output"},
       .sentence = fmt::format(
           "{}: {} FLOP/B lies {} {} the {} ridge of {} FLOP/B, so the {} roof is the lower one.",
           kernel.label, format_number(kernel.intensity_bf16_activations),
           times_text(below > 1 ? below : 1 / below), below > 1 ? "below" : "above",
           to_string(kernel.precision), format_number(kernel.ridge),
           below > 1 ? "memory" : "compute")});
}

// "4.596 us (4.508 us with nvfp4 activations)": point 2's memory floor, and the one that the kernel
// itself cannot beat, where they differ.
std::string memory_floors(const KernelAnalysis& kernel) {
  const std::string floor = format_time_us(kernel.memory_bf16_activations_us);
  if (kernel.measured.activations == Format::kBf16) return floor;
  return fmt::format("{} ({} with {} activations)", floor, format_time_us(kernel.memory_us),
                     to_string(kernel.measured.activations));
}

void explain_floors(Scene& scene, const KernelAnalysis& kernel) {
  const MeasuredKernel& measured = kernel.measured;
  const std::string slug = kernel_slug(measured);
  scene.conclude({.id = "kernel.time." + slug,
                  .point = 2,
                  .title = "Measured time",
                  .value = kernel.time_us,
                  .unit = "us",
                  .formula = measured.time_us ? "time" : "2*M*N*K / rate",
                  .inputs = Inputs(scene).shape(measured).timing(measured).list(),
                  .sentence = fmt::format(
                      "{}: {} at {} TFLOPS, {}.", kernel.label, format_time_us(kernel.time_us),
                      format_number(kernel.flop / kernel.time_us / 1e6),
                      measured.library.empty() ? "library not stated" : measured.library)});
  scene.conclude({.id = "kernel.memory_floor." + slug,
                  .point = 2,
                  .title = "Memory floor",
                  .value = kernel.memory_bf16_activations_us,
                  .unit = "us",
                  .formula = "(weight bytes + 2 B * M*K + 2 B * M*N) / bandwidth",
                  .inputs = Inputs(scene).shape(measured).bandwidth().list(),
                  .assumptions = {"bf16 activations and output, everything from DRAM once"},
                  .sentence = fmt::format("{}: {} at full bandwidth take {}.", kernel.label,
                                          format_bytes(kernel.bytes_bf16_activations),
                                          memory_floors(kernel))});
  scene.conclude(
      {.id = "kernel.compute_floor." + slug,
       .point = 2,
       .title = "Compute floor",
       .value = kernel.compute_us,
       .unit = "us",
       .formula = "2*M*N*K / peak",
       .inputs = Inputs(scene).shape(measured).peak(kernel.precision).list(),
       .sentence = fmt::format("{}: {} at the {} peak take {}.", kernel.label,
                               format_quantity(kernel.flop, "FLOP"), to_string(kernel.precision),
                               format_time_us(kernel.compute_us))});
}

void explain_ratios(Scene& scene, const KernelAnalysis& kernel) {
  const MeasuredKernel& measured = kernel.measured;
  const std::string slug = kernel_slug(measured);
  const double over_memory = kernel.time_us / kernel.memory_bf16_activations_us;
  const double over_compute = kernel.time_us / kernel.compute_us;
  scene.conclude(
      {.id = "kernel.over_memory." + slug,
       .point = 2,
       .title = "Time over the memory floor",
       .value = over_memory,
       .unit = "x",
       .formula = "time / memory floor",
       .inputs = Inputs(scene).shape(measured).timing(measured).bandwidth().list(),
       .assumptions = {"bf16 activations and output"},
       .sentence = fmt::format("{}: {} the memory floor.", kernel.label, times_text(over_memory))});
  scene.conclude(
      {.id = "kernel.over_compute." + slug,
       .point = 2,
       .title = "Time over the compute floor",
       .value = over_compute,
       .unit = "x",
       .formula = "time / compute floor",
       .inputs = Inputs(scene).shape(measured).timing(measured).peak(kernel.precision).list(),
       .sentence =
           fmt::format("{}: {} the compute floor.", kernel.label, times_text(over_compute))});
}

std::string regime_sentence(const KernelAnalysis& kernel) {
  const std::string floors = fmt::format(
      "{} against a memory floor of {} and a compute floor of {}", format_time_us(kernel.time_us),
      memory_floors(kernel), format_time_us(kernel.compute_us));
  if (kernel.regime == "accounting error") {
    const bool above_peak = kernel.time_us < kernel.compute_us;
    return fmt::format("{}: {}: faster than {}; {}.", kernel.label, floors,
                       above_peak ? "the peak allows" : "DRAM allows",
                       above_peak
                           ? "the peak, the clock or the FLOP count is wrong"
                           : "the weights were hot in L2, or the bytes or the bandwidth are wrong");
  }
  if (kernel.regime == "launch or latency") {
    return fmt::format(
        "{}: {}: neither memory- nor compute-bound; launch or latency, or the timing includes the "
        "host.",
        kernel.label, floors);
  }
  const bool two_floors = kernel.regime == "memory" && kernel.measured.activations != Format::kBf16;
  return fmt::format(
      "{}: {}: {}-bound, {} of that roof{}.", kernel.label, floors, kernel.regime,
      percent_text(std::max(kernel.memory_us, kernel.compute_us) / kernel.time_us),
      two_floors ? fmt::format(" with {} activations", to_string(kernel.measured.activations))
                 : "");
}

void explain_regime(Scene& scene, const KernelAnalysis& kernel) {
  const MeasuredKernel& measured = kernel.measured;
  const std::string slug = kernel_slug(measured);
  scene.conclude(
      {.id = "kernel.regime." + slug,
       .point = 2,
       .title = "What holds the kernel",
       .value = kernel.time_us / std::max(kernel.memory_us, kernel.compute_us),
       .unit = "x",
       .verdict = kernel.regime,
       .formula = "time / max(memory floor, compute floor)",
       .inputs =
           Inputs(scene).shape(measured).timing(measured).bandwidth().peak(kernel.precision).list(),
       .assumptions = {fmt::format("{} activations, bf16 output, DRAM traffic once; within "
                                   "2 x of the larger floor that roof explains the time",
                                   to_string(measured.activations))},
       .confidence =
           kernel.regime == "launch or latency" ? Confidence::kLikely : Confidence::kDerived,
       .sentence = regime_sentence(kernel)});
}

// The highest share of the peak that the bandwidth lets this shape reach.
void explain_yardstick(Scene& scene, const KernelAnalysis& kernel) {
  const MeasuredKernel& measured = kernel.measured;
  const std::string slug = kernel_slug(measured);
  const double ceiling = std::min(1.0, kernel.intensity_bf16_activations / kernel.ridge);
  const double reached = kernel.flop / kernel.time_us / 1e6 / kernel.peak_tflops;
  scene.conclude({.id = "kernel.ceiling." + slug,
                  .point = 2,
                  .title = "Bandwidth ceiling",
                  .value = ceiling * 100,
                  .unit = "%",
                  .formula = "min(1, intensity / ridge)",
                  .inputs = Inputs(scene).shape(measured).bandwidth().peak(kernel.precision).list(),
                  .assumptions = {"bf16 activations and output"},
                  .sentence = fmt::format(
                      "{}: bandwidth allows {} of the {} peak{}.", kernel.label,
                      percent_text(ceiling), to_string(kernel.precision),
                      ceiling < 1 ? "; below the ridge a share of peak is no yardstick" : "")});
  if (kernel.regime == "accounting error") return;
  scene.conclude(
      {.id = "kernel.share_of_peak." + slug,
       .point = 2,
       .title = "Share of peak",
       .value = reached * 100,
       .unit = "%",
       .formula = "rate / peak",
       .inputs = Inputs(scene).shape(measured).timing(measured).peak(kernel.precision).list(),
       .sentence = fmt::format("{}: {} of the {} peak.", kernel.label, percent_text(reached),
                               to_string(kernel.precision))});
}

void explain_cache(Scene& scene, const KernelAnalysis& kernel) {
  const MeasuredKernel& measured = kernel.measured;
  const std::string slug = kernel_slug(measured);
  const double bytes = weight_bytes(measured);
  if (!scene.machine().l2_mb) {
    scene.cannot_say("kernel.cache." + slug, 2, "Cold or hot",
                     fmt::format("the L2 size of {} is not known", scene.machine().name));
    return;
  }
  const double cache_bytes = scene.machine().l2_mb->value * kMega;
  const bool fits = bytes <= cache_bytes;
  const char* stated = !measured.cold ? "not stated" : *measured.cold ? "cold" : "hot";
  std::string verdict = fits ? fmt::format("fits L2, cold: {}", stated) : "larger than L2";
  std::string meaning = "a repeated timing still reads DRAM";
  if (fits) {
    meaning = measured.cold
                  ? fmt::format("the timing was {}", stated)
                  : "whether the timing was cold is not stated, and a repeated one reads L2";
  }
  scene.conclude(
      {.id = "kernel.cache." + slug,
       .point = 2,
       .title = "Cold or hot",
       .value = bytes,
       .unit = "B",
       .verdict = std::move(verdict),
       .formula = "N * K * bytes per weight",
       .inputs = Inputs(scene).shape(measured).number("L2", *scene.machine().l2_mb, "MB").list(),
       .sentence = fmt::format("{}: {} of weights against {} of L2: {}.", kernel.label,
                               format_bytes(bytes), format_bytes(cache_bytes), meaning)});
}

// Only a rate: no floors, but it can still be above the peak.
void explain_rate(Scene& scene, const KernelAnalysis& kernel) {
  const MeasuredKernel& measured = kernel.measured;
  const double share = *measured.tflops / kernel.peak_tflops;
  const std::string id = "kernel.share_of_peak." + kernel_slug(measured);
  scene.conclude(
      {.id = id,
       .point = 2,
       .title = "Share of peak",
       .value = share * 100,
       .unit = "%",
       .verdict = share > 1 ? "accounting error" : "within the peak",
       .formula = "rate / peak",
       .inputs = Inputs(scene).timing(measured).peak(kernel.precision).list(),
       .sentence =
           share > 1
               ? fmt::format(
                     "{}: {} TFLOPS is more than the {} peak of {} TFLOPS: the peak is wrong.",
                     kernel.label, format_number(*measured.tflops), to_string(kernel.precision),
                     format_number(kernel.peak_tflops))
               : fmt::format("{}: {} TFLOPS is {} of the {} peak of {} TFLOPS.", kernel.label,
                             format_number(*measured.tflops), percent_text(share),
                             to_string(kernel.precision), format_number(kernel.peak_tflops))});
}

}  // namespace

void explain_kernels(Scene& scene) {
  for (const MeasuredKernel& measured : scene.found.kernels) {
    scene.analysis.kernels.push_back(analyze_kernel(scene, measured));
  }
  bool shaped = false;
  for (const KernelAnalysis& kernel : scene.analysis.kernels) {
    if (!has_shape(kernel.measured)) {
      explain_rate(scene, kernel);
      continue;
    }
    shaped = true;
    explain_intensity(scene, kernel);
    explain_floors(scene, kernel);
    explain_ratios(scene, kernel);
    explain_regime(scene, kernel);
    explain_yardstick(scene, kernel);
    explain_cache(scene, kernel);
  }
  if (shaped) return;
  const std::string reason = "the case has no kernel with m, n, k and a time";
  scene.cannot_say("intensity", 1, "Arithmetic intensity", reason);
  scene.cannot_say("kernel.regime", 2, "What holds the kernels", reason);
  scene.lacks("kernel timings with m, n, k: what the kernels lose against their floors");
}

}  // namespace nibble
