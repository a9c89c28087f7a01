// Point 5: what the all-reduces of a decode step take by each algorithm over each link, and whether
// the choice changes what is left unexplained.
#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "explain/explain_parts.h"

namespace nibble {
namespace {

struct Traffic {
  double count = 0;  // all-reduces of one decode step
  double bytes = 0;  // of one
  std::int64_t ranks = 1;
};

struct NamedLink {
  std::string name;
  LinkSpeed speed;
  std::vector<FindingInput> inputs;
};

Traffic traffic_of(const Scene& scene, const Step& step) {
  Traffic traffic;
  const ParallelLayout& layout = scene.deployment().layout;
  for (const Op& op : step.ops) {
    if (op.name.ends_with(".all_reduce")) traffic.count += op.count;
  }
  const double sequences = std::ceil(std::ceil(step.concurrency / step.microbatches) /
                                     static_cast<double>(layout.attention_dp()));
  traffic.bytes = sequences * (step.rows / step.concurrency) *
                  static_cast<double>(scene.model().hidden) * bits_per_element(Format::kBf16) / 8;
  traffic.ranks = layout.attention_tp() > 1 ? layout.attention_tp() : layout.stage_gpus();
  return traffic;
}

// The link that was given, or every one that the catalog has for the machine: as specified, and as
// others measured it.
std::vector<NamedLink> links_of(const Scene& scene) {
  if (scene.deployment().link) {
    return {{"given", *scene.deployment().link, Inputs(scene).link().list()}};
  }
  std::vector<NamedLink> links;
  for (const Link& link : scene.machine().links) {
    links.push_back({link.name,
                     {link.bandwidth_gb_s.value, link.latency_us.value},
                     Inputs(scene)
                         .number("link", link.bandwidth_gb_s, "GB/s")
                         .number("hop", link.latency_us, "us")
                         .list()});
  }
  return links;
}

struct Range {
  double best_us = 0;
  double worst_us = 0;
  std::string best, worst;
};

void explain_one(Scene& scene, const LevelAnalysis& level, const Traffic& traffic,
                 const NamedLink& link, AllReduce algorithm, Range& range) {
  const double wire_us =
      traffic.count *
      all_reduce(algorithm, traffic.ranks, traffic.bytes, {link.speed.bandwidth_gb_s, 0}).time_us;
  const double with_hops_us =
      traffic.count * all_reduce(algorithm, traffic.ranks, traffic.bytes, link.speed).time_us;
  const std::string how =
      fmt::format("{} at {} GB/s", to_string(algorithm), format_number(link.speed.bandwidth_gb_s));
  if (range.best.empty() || with_hops_us < range.best_us) {
    range.best_us = with_hops_us;
    range.best = how;
  }
  if (range.worst.empty() || with_hops_us > range.worst_us) {
    range.worst_us = with_hops_us;
    range.worst = how;
  }
  Inputs inputs(scene);
  inputs.expert_sizes().layers().layout().concurrency(level.measured).cap();
  std::vector<FindingInput> all = inputs.list();
  all.insert(all.end(), link.inputs.begin(), link.inputs.end());
  scene.conclude(
      {.id = fmt::format("collectives.{}.{}", to_string(algorithm), link.name),
       .point = 5,
       .title = fmt::format("All-reduce: {}, {}", to_string(algorithm), link.name),
       .value = wire_us,
       .unit = "us",
       .formula = algorithm == AllReduce::kOneShot ? "count * (n - 1) * S / link"
                                                   : "count * 2 * (n - 1) / n * S / link",
       .inputs = std::move(all),
       .assumptions = {"not overlapped with anything; hop latency apart"},
       .sentence =
           fmt::format("{} all-reduces of {} over {} GPUs take {} by {}, and {} with {} us a hop.",
                       format_number(traffic.count), format_bytes(traffic.bytes), traffic.ranks,
                       format_time_us(wire_us), how, format_time_us(with_hops_us),
                       format_number(link.speed.latency_us))});
}

// Does the answer to "what is the step spent on" depend on the assumed collective?
void explain_verdict(Scene& scene, const LevelAnalysis& level, const Range& range) {
  if (level.waterfall.empty()) return;
  double assumed_us = 0;
  double unexplained_us = 0;
  for (const WaterfallTerm& term : level.waterfall) {
    if (term.id == "collectives") assumed_us = term.time_us;
    if (term.id == "unexplained") unexplained_us = term.time_us;
  }
  const double without_us = unexplained_us + assumed_us;
  const double most_left_us = without_us - range.best_us;
  const double least_left_us = without_us - range.worst_us;
  const char* verdict = least_left_us > range.worst_us ? "unexplained stays larger"
                        : least_left_us > 0            ? "collectives could be the larger part"
                                                       : "collectives could explain it all";
  scene.conclude({.id = "collectives.verdict",
                  .point = 5,
                  .title = "How far the collectives' assumption carries",
                  .value = range.worst_us - range.best_us,
                  .unit = "us",
                  .verdict = verdict,
                  .formula = "slowest - fastest of the table",
                  .inputs = Inputs(scene)
                                .deployment()
                                .concurrency(level.measured)
                                .cap()
                                .lengths()
                                .rate(level.measured)
                                .list(),
                  .confidence = Confidence::kLikely,
                  .sentence = fmt::format("The decode step's all-reduces take {} ({}) to {} ({}), "
                                          "so {} to {} of {} stay unexplained: {}.",
                                          format_time_us(range.best_us), range.best,
                                          format_time_us(range.worst_us), range.worst,
                                          format_time_us(std::max(0.0, least_left_us)),
                                          format_time_us(std::max(0.0, most_left_us)),
                                          format_time_us(level.measured_step_us), verdict)});
}

}  // namespace

void explain_collectives(Scene& scene) {
  if (scene.analysis.levels.empty()) return;  // named under "step"
  const LevelAnalysis level = scene.analysis.levels[scene.analysis.headline];
  if (!level.floor_missing.empty()) return;
  const Traffic traffic = traffic_of(scene, level.floor);
  if (traffic.count == 0) {
    scene.cannot_say("collectives", 5, "All-reduces",
                     fmt::format("{} all-reduces nothing in a decode step",
                                 scene.deployment().layout.describe()));
    return;
  }
  Range range;
  for (const NamedLink& link : links_of(scene)) {
    for (const AllReduce algorithm : {AllReduce::kRing, AllReduce::kOneShot, AllReduce::kTwoShot}) {
      explain_one(scene, level, traffic, link, algorithm, range);
    }
  }
  explain_verdict(scene, level, range);
}

}  // namespace nibble
