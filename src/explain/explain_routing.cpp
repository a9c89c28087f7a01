// Points 3 and 4: how many rows an expert really gets, and which GEMMs a rank really runs.
#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "explain/explain_parts.h"

namespace nibble {
namespace {

// Concurrency that is often quoted as tokens per expert.
constexpr double kQuotedTokens[] = {16, 32, 64};

// Groups over which experts are, or could be, spread: EP ranks, else the GPUs of a stage.
std::int64_t spread_ranks(const Scene& scene) {
  const ParallelLayout& layout = scene.deployment().layout;
  const std::int64_t ranks = layout.ep > 1 ? layout.ep : layout.stage_gpus();
  return scene.model().moe->experts % ranks == 0 ? ranks : 1;
}

struct RoutingQuestion {
  std::string slug;
  double concurrency = 0;
  double tokens = 0;  // that one pass routes
  std::vector<FindingInput> inputs;
  Confidence confidence = Confidence::kLikely;
};

std::string tokens_text(const RoutingQuestion& question) {
  if (question.tokens == question.concurrency) {
    return fmt::format("{} tokens in a step", format_count(question.tokens));
  }
  return fmt::format("{} requests, {} tokens in a pass", format_count(question.concurrency),
                     format_count(question.tokens));
}

void explain_counts(Scene& scene, const RoutingQuestion& question, const RoutingStats& stats) {
  const MoeSpec& moe = *scene.model().moe;
  const std::string assumption =
      fmt::format("{} routing, tokens independent", scene.deployment().routing.source);
  scene.conclude(
      {.id = "routing.distinct." + question.slug,
       .point = 3,
       .title = "Distinct experts",
       .value = stats.distinct,
       .unit = "experts",
       .formula = "E * (1 - (1 - k/E)^tokens)",
       .inputs = question.inputs,
       .assumptions = {assumption},
       .confidence = question.confidence,
       .sentence = fmt::format("{}: {} of {} experts have a token.", tokens_text(question),
                               format_number(stats.distinct), moe.experts)});
  scene.conclude(
      {.id = "routing.rows." + question.slug,
       .point = 3,
       .title = "Rows per expert",
       .value = stats.rows_mean,
       .unit = "rows",
       .formula = "tokens * k / distinct experts",
       .inputs = question.inputs,
       .assumptions = {assumption},
       .confidence = question.confidence,
       .sentence = fmt::format(
           "{}: {} rows per active expert on average ({} over all experts), median {}, p99 {}.",
           tokens_text(question), format_number(stats.rows_mean),
           format_number(stats.rows_mean_all), format_number(stats.rows_p50),
           format_number(stats.rows_p99))});
  scene.conclude({.id = "routing.busiest." + question.slug,
                  .point = 3,
                  .title = "Busiest expert",
                  .value = stats.rows_max,
                  .unit = "rows",
                  .formula = "E[max over experts of Binomial(tokens, k/E)]",
                  .inputs = question.inputs,
                  .assumptions = {assumption},
                  .confidence = question.confidence,
                  .sentence = fmt::format("{}: the busiest expert gets {} rows, {} the mean.",
                                          tokens_text(question), format_number(stats.rows_max),
                                          times_text(stats.rows_max / stats.rows_mean_all))});
}

void explain_rank(Scene& scene, const RoutingQuestion& question, const RoutingStats& stats,
                  std::int64_t ranks) {
  const bool split = scene.deployment().layout.ep > 1;
  std::vector<FindingInput> inputs = question.inputs;
  for (FindingInput& input : Inputs(scene).layout().list()) inputs.push_back(std::move(input));
  scene.conclude(
      {.id = "routing.rank." + question.slug,
       .point = 3,
       .title = "Busiest rank",
       .value = stats.rank_rows_max,
       .unit = "rows",
       .formula = "E[max over ranks of their experts' rows]",
       .inputs = std::move(inputs),
       .assumptions = {fmt::format("{} routing; experts placed evenly over {} ranks{}",
                                   scene.deployment().routing.source, ranks,
                                   split ? "" : ", which this layout does not do")},
       .confidence = question.confidence,
       .sentence = fmt::format(
           "{}: {} {} ranks the busiest one has {} rows ({} the mean) and {} distinct experts.",
           tokens_text(question), split ? "of" : "spread over", ranks,
           format_number(stats.rank_rows_max),
           times_text(stats.rank_rows_max / stats.rank_rows_mean),
           format_number(stats.rank_distinct_max))});
}

Result<RoutingStats> answer(Scene& scene, const RoutingQuestion& question, std::int64_t ranks) {
  const MoeSpec& moe = *scene.model().moe;
  NIBBLE_ASSIGN_OR_RETURN(
      const RoutingStats stats,
      routing_stats(scene.deployment().routing, moe.experts, moe.top_k, question.tokens, ranks));
  explain_counts(scene, question, stats);
  if (ranks > 1) explain_rank(scene, question, stats, ranks);
  return stats;
}

// Tokens of one pass: a pipeline routes one microbatch at a time.
double routed_tokens(const Scene& scene, double concurrency) {
  const double sequences = running(scene.found, concurrency);
  const auto microbatches = static_cast<double>(scene.deployment().layout.in_flight());
  return std::max(1.0, std::ceil(sequences / microbatches));
}

}  // namespace

Result<> explain_routing(Scene& scene) {
  if (!scene.model().moe) {
    scene.cannot_say("routing", 3, "Tokens per expert",
                     fmt::format("{} has no experts", scene.model().name));
    return {};
  }
  const std::int64_t ranks = spread_ranks(scene);
  for (const double tokens : kQuotedTokens) {
    const auto measured = [&](const LevelAnalysis& level) {
      return level.measured.concurrency == tokens;
    };
    if (std::any_of(scene.analysis.levels.begin(), scene.analysis.levels.end(), measured)) continue;
    RoutingQuestion question{
        level_slug(tokens), tokens, tokens,
        Inputs(scene).experts().add("tokens", tokens, "tokens", "assumed").list()};
    NIBBLE_RETURN_IF_ERROR(answer(scene, question, ranks));
  }
  for (LevelAnalysis& level : scene.analysis.levels) {
    RoutingQuestion question{level_slug(level.measured.concurrency), level.measured.concurrency,
                             routed_tokens(scene, level.measured.concurrency),
                             Inputs(scene).experts().concurrency(level.measured).cap().list()};
    if (scene.deployment().layout.in_flight() > 1) {
      for (FindingInput& input : Inputs(scene).layout().list())
        question.inputs.push_back(std::move(input));
    }
    NIBBLE_ASSIGN_OR_RETURN(level.spread, answer(scene, question, ranks));
    level.spread_ranks = ranks;
  }
  return {};
}

void explain_shapes(Scene& scene) {
  if (!scene.model().moe) {
    scene.cannot_say("shapes", 4, "Shapes on the rank",
                     fmt::format("{} has no experts", scene.model().name));
    return;
  }
  const ParallelLayout& layout = scene.deployment().layout;
  const double each =
      static_cast<double>(scene.model().moe->intermediate) / static_cast<double>(layout.moe_tp());
  const auto hidden = static_cast<double>(scene.model().hidden);
  const auto explain = [&](std::string id, std::string name, double n, double k, double changing,
                           std::string formula) {
    Inputs inputs(scene);
    inputs.expert_sizes().layout();
    bool timed = false;
    for (const MeasuredKernel& kernel : scene.found.kernels) {
      if (!has_shape(kernel)) continue;
      inputs.given("N", *kernel.n, "columns", kernel.path + ".n");
      inputs.given("K", *kernel.k, "elements", kernel.path + ".k");
      timed = timed || (*kernel.n == n && *kernel.k == k);
    }
    scene.conclude(
        {.id = std::move(id),
         .point = 4,
         .title = name + " on the rank",
         .value = changing,
         .unit = "elements",
         .verdict = timed ? "was timed" : "was not timed",
         .formula = std::move(formula),
         .inputs = inputs.list(),
         .sentence = fmt::format(
             "{}: under {} an expert keeps {} of its {} intermediate columns on a GPU: "
             "{} is [m, {}, {}]; {}.",
             name, layout.describe(), format_number(each), scene.model().moe->intermediate, name, n,
             k, timed ? "that shape was timed" : "no kernel of the case has that shape")});
  };
  explain("shapes.gate_up", "gate_up", 2 * each, hidden, 2 * each, "2 * intermediate / moe_tp");
  explain("shapes.down", "down", hidden, each, each, "intermediate / moe_tp");
}

}  // namespace nibble
