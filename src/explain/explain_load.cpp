// Points 8 and 13: what throughput over concurrency says, by Little's law and by its flat end.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "base/units.h"
#include "explain/explain_parts.h"

namespace nibble {
namespace {

constexpr double kFlat = 0.2;  // growth below a fifth of proportional counts as a plateau
// Median ITL and throughput may differ by this much in a steady test...
constexpr double kSteady = 0.1;
// ...and from this factor on, prefill, TTFT and tail alone seldom explain it.
constexpr double kTooShort = 1.5;

std::string requests_text(const LevelAnalysis& level) {
  return counted(level.measured.concurrency, "request");
}

// Requests in the system over their rate: the time that each takes per generated token.
void explain_time_per_token(Scene& scene, const LevelAnalysis& level) {
  const std::string slug = level_slug(level.measured.concurrency);
  const double per_token_ms = level.measured.concurrency / level.output_tok_s * 1e3;
  scene.conclude(
      {.id = fmt::format("little.{}.step", slug),
       .point = 13,
       .title = "Time per token and request",
       .value = per_token_ms,
       .unit = "ms",
       .formula = "concurrency / output rate",
       .inputs = Inputs(scene).concurrency(level.measured).rate(level.measured).cap().list(),
       .assumptions = {"Little's law: all requests were in the system while the rate was measured"},
       .sentence = fmt::format(
           "{} at {} tok/s: {} ms per token and request{}.", requests_text(level),
           format_number(level.output_tok_s), format_number(per_token_ms),
           level.running < level.measured.concurrency
               ? fmt::format(", queueing included; {} for the {} that run",
                             format_time_us(level.measured_step_us), format_count(level.running))
               : "")});
}

void explain_gap(Scene& scene, const LevelAnalysis& level) {
  if (!level.measured.itl_ms || !level.measured.itl_ms->p50) return;
  const double itl_ms = *level.measured.itl_ms->p50;
  const std::string slug = level_slug(level.measured.concurrency);
  const double implied = level.running / itl_ms * 1e3;
  Inputs inputs(scene);
  inputs.concurrency(level.measured)
      .cap()
      .given("itl_p50", itl_ms, "ms", level.measured.path + ".itl_ms.p50");
  scene.conclude(
      {.id = fmt::format("little.{}.implied_rate", slug),
       .point = 13,
       .title = "Rate that the median ITL would give",
       .value = implied,
       .unit = "tok/s",
       .formula = "running / median ITL",
       .inputs = inputs.list(),
       .assumptions = {"one token a chunk"},
       .sentence = fmt::format("{} in flight at a median ITL of {} ms would be {} tok/s.",
                               format_count(level.running), format_number(itl_ms),
                               format_count(std::round(implied)))});
  const double ratio = implied / level.output_tok_s;
  const double step_ms = level.measured_step_us / 1e3;
  inputs.rate(level.measured);
  std::string tail;
  if (level.measured.itl_ms->p99) {
    inputs.given("itl_p99", *level.measured.itl_ms->p99, "ms", level.measured.path + ".itl_ms.p99");
    tail = fmt::format(" (P99 {} ms)", format_number(*level.measured.itl_ms->p99));
  }
  const bool steady = ratio < 1 + kSteady && ratio > 1 - kSteady;
  const std::string rest =
      ratio >= kTooShort
          ? fmt::format(
                "prefill, TTFT, tail{}, ramp and drain, which is consistent with a load "
                "test too short to be steady",
                tail)
          : fmt::format("prefill, TTFT and tail{}", tail);
  scene.conclude(
      {.id = fmt::format("little.{}.ratio", slug),
       .point = 13,
       .title = "Time outside the median gap",
       .value = ratio,
       .unit = "x",
       .verdict = steady               ? "steady"
                  : ratio >= kTooShort ? "not steady"
                  : ratio > 1          ? "prefill, TTFT and tail"
                                       : "accounting error",
       .formula = "(running / median ITL) / output rate",
       .inputs = inputs.list(),
       .assumptions = {"one token a chunk"},
       .confidence = Confidence::kLikely,
       .sentence =
           steady ? fmt::format("{}: median ITL and throughput agree within {}.",
                                requests_text(level), format_quantity(kSteady, "ratio"))
           : ratio > 1
               ? fmt::format(
                     "{}: a step must explain {} ms, not the {} ms between chunks: the factor {} "
                     "is {}.",
                     requests_text(level), format_number(step_ms), format_number(itl_ms),
                     format_number(ratio, 3), rest)
               : fmt::format(
                     "{}: {} ms per token is less than the median ITL of {} ms: chunks hold "
                     "several tokens, or fewer requests ran than assumed.",
                     requests_text(level), format_number(step_ms), format_number(itl_ms))});
}

// How much of proportional growth the rate shows between two levels.
double elasticity(const LevelAnalysis& low, const LevelAnalysis& high) {
  return std::log(high.output_tok_s / low.output_tok_s) /
         std::log(high.measured.concurrency / low.measured.concurrency);
}

std::string absent_signals(const MeasuredLevel& level) {
  std::vector<std::string> absent;
  if (!level.queue_length) absent.emplace_back("queue length");
  if (!level.ttft_ms) absent.emplace_back("TTFT");
  if (!level.itl_ms) absent.emplace_back("ITL");
  return join(absent, ", ");
}

void explain_absent(Scene& scene, const LevelAnalysis& level) {
  const std::string absent = absent_signals(level.measured);
  if (absent.empty()) return;
  const std::string slug = level_slug(level.measured.concurrency);
  scene.conclude(
      {.id = "plateau.missing_signals",
       .point = 8,
       .title = "Missing signals",
       .verdict = absent,
       .inputs = Inputs(scene).concurrency(level.measured).list(),
       .sentence = fmt::format("At {} the case has no {}: growing TTFT and queue at the same ITL "
                               "would prove the cap, a growing ITL would disprove it.",
                               requests_text(level), absent)});
  scene.lacks(fmt::format(
      "{} at concurrency {}: whether requests wait for the scheduler's cap or for the GPUs", absent,
      slug));
}

void explain_flat_end(Scene& scene, const LevelAnalysis& low, const LevelAnalysis& high) {
  const double growth = elasticity(low, high);
  const bool flat = growth < kFlat;
  const bool capped = low.running == high.running;
  const bool stated = scene.found.max_running_requests.has_value();
  const char* verdict = !flat    ? "no plateau"
                        : capped ? "consistent with max_running_requests"
                        : stated ? "not explained by max_running_requests"
                                 : "flat, max_running_requests not stated";
  scene.conclude({.id = "plateau",
                  .point = 8,
                  .title = "Plateau",
                  .value = growth,
                  .unit = "",
                  .verdict = verdict,
                  .formula = "ln(rate ratio) / ln(concurrency ratio); 1: proportional, 0: flat",
                  .inputs = Inputs(scene)
                                .concurrency(low.measured)
                                .rate(low.measured)
                                .concurrency(high.measured)
                                .rate(high.measured)
                                .cap()
                                .list(),
                  .confidence = flat ? Confidence::kPossible : Confidence::kDerived,
                  .sentence = fmt::format(
                      "From {} to {} throughput goes from {} to {} tok/s: {}{}.",
                      format_count(low.measured.concurrency), requests_text(high),
                      format_number(low.output_tok_s), format_number(high.output_tok_s), verdict,
                      flat && capped ? fmt::format(" = {}, which is not yet a proof",
                                                   *scene.found.max_running_requests)
                                     : "")});
  if (flat) explain_absent(scene, high);
}

}  // namespace

void explain_little(Scene& scene) {
  bool any_rate = false;
  bool any_gap = false;
  for (std::size_t index = 0; index < scene.analysis.levels.size(); ++index) {
    const LevelAnalysis level = scene.analysis.levels[index];
    if (level.output_tok_s <= 0) continue;
    any_rate = true;
    explain_time_per_token(scene, level);
    explain_gap(scene, level);
    any_gap = any_gap || (level.measured.itl_ms && level.measured.itl_ms->p50);
  }
  if (!any_rate) {
    scene.cannot_say("little", 13, "Little's law", "no level has an output rate");
  } else if (!any_gap) {
    scene.cannot_say("little.ratio", 13, "Time outside the median gap",
                     "no level has a median ITL");
    scene.lacks("median ITL: how much of the time per token lies between decode steps");
  }
}

void explain_plateau(Scene& scene) {
  std::vector<const LevelAnalysis*> rated;
  for (const LevelAnalysis& level : scene.analysis.levels) {
    if (level.output_tok_s > 0) rated.push_back(&level);
  }
  if (rated.size() < 2) {
    scene.cannot_say("plateau", 8, "Plateau", "fewer than two levels have an output rate");
    return;
  }
  std::size_t chosen = rated.size() - 1;  // the last pair, unless an earlier one is the flat one
  for (std::size_t index = 1; index < rated.size(); ++index) {
    if (elasticity(*rated[index - 1], *rated[index]) < kFlat) chosen = index;
  }
  const LevelAnalysis low = *rated[chosen - 1];
  const LevelAnalysis high = *rated[chosen];
  explain_flat_end(scene, low, high);
}

}  // namespace nibble
