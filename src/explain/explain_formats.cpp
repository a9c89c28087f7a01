// Point 6: one shape timed in two formats: what the hardware promises, and what was measured.
#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "explain/explain_parts.h"

namespace nibble {
namespace {

bool same_shape(const MeasuredKernel& a, const MeasuredKernel& b) {
  return has_shape(a) && has_shape(b) && a.m == b.m && a.n == b.n && a.k == b.k;
}

void explain_pair(Scene& scene, const KernelAnalysis& narrow, const KernelAnalysis& wide) {
  const std::string shape =
      fmt::format("{}.{}", kernel_slug(narrow.measured), to_string(wide.measured.format));
  const std::string names = fmt::format("{} against {}", to_string(narrow.measured.format),
                                        to_string(wide.measured.format));
  const double peaks = narrow.peak_tflops / wide.peak_tflops;
  scene.conclude({.id = "formats.peak." + shape,
                  .point = 6,
                  .title = names + ": matrix rate",
                  .value = peaks,
                  .unit = "x",
                  .formula = "peak / peak",
                  .inputs = Inputs(scene)
                                .shape(narrow.measured)
                                .shape(wide.measured)
                                .peak(narrow.precision)
                                .peak(wide.precision)
                                .list(),
                  .sentence = fmt::format("{}: this chip's matrix units run {} faster.", names,
                                          times_text(peaks))});
  const double bits =
      bits_per_element(wide.measured.format) / bits_per_element(narrow.measured.format);
  scene.conclude(
      {.id = "formats.bytes." + shape,
       .point = 6,
       .title = names + ": weight bytes",
       .value = bits,
       .unit = "x",
       .formula = "bits per weight / bits per weight",
       .inputs = Inputs(scene)
                     .shape(narrow.measured)
                     .shape(wide.measured)
                     .add("narrow", bits_per_element(narrow.measured.format), "bits", "format")
                     .add("wide", bits_per_element(wide.measured.format), "bits", "format")
                     .list(),
       .sentence = fmt::format("{}: the weights take {} fewer bytes, scales included.", names,
                               times_text(bits))});
  const double measured = wide.time_us / narrow.time_us;
  scene.conclude(
      {.id = "formats.measured." + shape,
       .point = 6,
       .title = names + ": measured",
       .value = measured,
       .unit = "x",
       .verdict = measured < std::min(peaks, bits) ? "below both ratios" : "as the hardware allows",
       .formula = "time / time",
       .inputs = Inputs(scene)
                     .shape(narrow.measured)
                     .shape(wide.measured)
                     .timing(narrow.measured)
                     .timing(wide.measured)
                     .peak(narrow.precision)
                     .peak(wide.precision)
                     .list(),
       .sentence = fmt::format("{} at {}x{}x{}: {} faster as measured ({} against {}), where the "
                               "rates allow {} and the bytes {}.",
                               names, *narrow.measured.m, *narrow.measured.n, *narrow.measured.k,
                               times_text(measured), format_time_us(narrow.time_us),
                               format_time_us(wide.time_us), times_text(peaks), times_text(bits))});
}

void explain_excess(Scene& scene, const KernelAnalysis& kernel, const KernelAnalysis& partner) {
  const double floor_us = std::max(kernel.memory_us, kernel.compute_us);
  if (kernel.time_us < floor_us) return;  // an accounting error, named under point 2
  scene.conclude(
      {.id = "formats.excess." + kernel_slug(kernel.measured),
       .point = 6,
       .title = "Time above the floor",
       .value = kernel.time_us - floor_us,
       .unit = "us",
       .formula = "time - max(memory floor, compute floor)",
       .inputs = Inputs(scene)
                     .shape(kernel.measured)
                     .timing(kernel.measured)
                     .shape(partner.measured)
                     .bandwidth()
                     .peak(kernel.precision)
                     .list(),
       .assumptions = {fmt::format("{} activations, bf16 output",
                                   to_string(kernel.measured.activations))},
       .sentence = fmt::format(
           "{}: floors of {} (compute) and {} (memory, {} activations), {} measured: {} above.",
           kernel.label, format_time_us(kernel.compute_us), format_time_us(kernel.memory_us),
           to_string(kernel.measured.activations), format_time_us(kernel.time_us),
           format_time_us(kernel.time_us - floor_us))});
}

// A kernel that is faster than its tiles allow was not built from these tiles: the number then says
// what they would reach, and is no cap.
void explain_coverage(Scene& scene, const KernelAnalysis& kernel) {
  const MeasuredKernel& measured = kernel.measured;
  const std::string id = "tiles.coverage." + kernel_slug(measured);
  const double rate = kernel.flop / kernel.time_us / 1e6;
  if (!kernel.wave_coverage || rate > kernel.peak_tflops) {
    scene.cannot_say(id, 6, "Tile and wave coverage",
                     kernel.wave_coverage ? fmt::format("{} was measured above the {} peak",
                                                        kernel.label, to_string(kernel.precision))
                                          : fmt::format("the number of SMs of {} is not known",
                                                        scene.machine().name));
    return;
  }
  const double padding = padding_efficiency(kUsualTile, *measured.m);
  const double reached = kernel.peak_tflops * *kernel.wave_coverage * padding;
  const bool other_tile = rate > reached;
  const double tiles = std::ceil(*measured.m / static_cast<double>(kUsualTile.m)) *
                       std::ceil(*measured.n / static_cast<double>(kUsualTile.n));
  const std::string verdict =
      fmt::format("; {} were measured, so {} uses smaller tiles or splits K", format_number(rate),
                  measured.library.empty() ? "the library" : measured.library);
  scene.conclude(
      {.id = id,
       .point = 6,
       .title = other_tile ? "What 128x128 tiles would reach" : "Tile and wave coverage",
       .value = reached,
       .unit = "TFLOPS",
       .verdict = other_tile ? "another tile" : "",
       .formula = "peak * tiles / (whole waves * SMs) * rows / padded rows",
       .inputs = Inputs(scene).shape(measured).timing(measured).sms().peak(kernel.precision).list(),
       .assumptions = {"128x128 tiles, one block an SM, no split along K"},
       .sentence = fmt::format(
           "{}: {} of 128x128 {}fill {} of the {} SMs' slots{}: at most {} TFLOPS of {}{}.",
           kernel.label, counted(tiles, "tile"), other_tile ? "would " : "",
           percent_text(*kernel.wave_coverage), format_number(scene.machine().sms->value),
           padding < 1 ? fmt::format(", {} of their rows real", percent_text(padding)) : "",
           format_number(reached), format_number(kernel.peak_tflops), other_tile ? verdict : "")});
}

}  // namespace

void explain_formats(Scene& scene) {
  const std::vector<KernelAnalysis>& kernels = scene.analysis.kernels;
  bool paired = false;
  for (std::size_t a = 0; a < kernels.size(); ++a) {
    for (std::size_t b = a + 1; b < kernels.size(); ++b) {
      if (!same_shape(kernels[a].measured, kernels[b].measured)) continue;
      const double bits_a = bits_per_element(kernels[a].measured.format);
      const double bits_b = bits_per_element(kernels[b].measured.format);
      if (bits_a == bits_b) continue;
      paired = true;
      const bool a_is_narrow = bits_a < bits_b;
      explain_pair(scene, a_is_narrow ? kernels[a] : kernels[b],
                   a_is_narrow ? kernels[b] : kernels[a]);
      explain_excess(scene, kernels[a], kernels[b]);
      explain_excess(scene, kernels[b], kernels[a]);
    }
  }
  if (!paired) {
    scene.cannot_say("formats", 6, "One format against another",
                     "no shape was timed in two formats");
  }
  for (const KernelAnalysis& kernel : kernels) {
    if (has_shape(kernel.measured)) explain_coverage(scene, kernel);
  }
}

}  // namespace nibble
