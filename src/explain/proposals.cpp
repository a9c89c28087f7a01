// Point 12: what to change, with an upper bound of what each change could win per step, what that
// depends on, and the cheapest experiment that would settle it.
#include <algorithm>

#include "base/units.h"
#include "explain/explain_parts.h"

namespace nibble {
namespace {

// The headline step, cut into what decode takes and what lies between decode steps.
struct Budget {
  double measured_us = 0;
  double floor_us = 0;        // of the decode step
  double decode_loss_us = 0;  // inside decode steps: median ITL - floor, or all that is unexplained
  double between_us = 0;      // measured - median ITL
  bool has_itl = false;
  double collectives_us = 0;
  double launches_us = 0;
};

Budget budget_of(const LevelAnalysis& level) {
  Budget budget;
  budget.measured_us = level.measured_step_us;
  budget.floor_us = level.floor.step_us;
  double unexplained_us = 0;
  for (const WaterfallTerm& term : level.waterfall) {
    if (term.id == "collectives") budget.collectives_us = term.time_us;
    if (term.id == "launches") budget.launches_us = term.time_us;
    if (term.id == "unexplained") unexplained_us = term.time_us;
  }
  budget.has_itl = level.measured.itl_ms && level.measured.itl_ms->p50;
  if (!budget.has_itl) {
    budget.decode_loss_us = unexplained_us;
    return budget;
  }
  const double itl_us = std::min(*level.measured.itl_ms->p50 * 1e3, budget.measured_us);
  budget.decode_loss_us = std::max(0.0, itl_us - budget.floor_us);
  budget.between_us = budget.measured_us - itl_us;
  return budget;
}

class Proposer {
 public:
  Proposer(const Scene& scene, const LevelAnalysis& level)
      : scene_(scene), level_(level), budget_(budget_of(level)) {}

  std::vector<Proposal> all() {
    running_requests();
    prefill_schedule();
    collectives();
    graphs();
    grouped_gemm();
    continuous_decode();
    expert_parallelism();
    data_parallel_attention();
    large_tiles();
    std::stable_sort(
        proposals_.begin(), proposals_.end(),
        [](const Proposal& a, const Proposal& b) { return a.at_most_us > b.at_most_us; });
    return std::move(proposals_);
  }

 private:
  void add(std::string id, std::string title, double at_most_us, std::string depends_on,
           std::string experiment, std::string evidence) {
    Proposal proposal{std::move(id),
                      std::move(title),
                      std::min(at_most_us, budget_.measured_us),
                      1,
                      std::move(depends_on),
                      std::move(experiment),
                      std::move(evidence)};
    const double left_us = budget_.measured_us - proposal.at_most_us;
    if (left_us > 0) proposal.at_most_ratio = budget_.measured_us / left_us;
    proposals_.push_back(std::move(proposal));
  }

  std::string loss_text() const {
    return fmt::format("{} {}", format_time_us(budget_.decode_loss_us),
                       budget_.has_itl
                           ? "lie between the decode floor and the median gap between chunks"
                           : "of the step are unexplained");
  }

  void running_requests() {
    if (!scene_.found.max_running_requests) return;
    const double most = scene_.analysis.levels.back().measured.concurrency;
    const auto cap = static_cast<double>(*scene_.found.max_running_requests);
    if (most <= cap || !mean_context(scene_.found)) return;
    const Result<Capacity> capacity = kv_capacity(scene_.deployment());
    if (!capacity) return;
    const double fit = capacity->sequences(*mean_context(scene_.found));
    const double ratio = std::max(1.0, std::min(most, fit) / cap);
    add("max_running_requests", "raise max_running_requests", budget_.measured_us * (1 - 1 / ratio),
        "a step that gets no longer with more sequences, and memory for them",
        fmt::format("set it to {} and repeat concurrency {}, with TTFT, ITL and queue length",
                    format_count(std::min(most, fit)), format_count(most)),
        fmt::format("{} against a cap of {}; the cache holds {} at their mean length",
                    counted(most, "request"), format_count(cap), format_count(fit)));
  }

  void prefill_schedule() {
    if (!budget_.has_itl || budget_.between_us <= 0) return;
    add("prefill_schedule", "prefill in fewer or mixed passes", budget_.between_us,
        "how much of the time between decode steps is prefill, and not ramp and drain of a short "
        "test",
        "repeat the level with ten times the requests and look at the steady window alone",
        fmt::format("a token takes {}, the median gap between chunks is {}",
                    format_time_us(budget_.measured_us),
                    format_time_us(budget_.measured_us - budget_.between_us)));
  }

  void collectives() {
    if (budget_.collectives_us <= 0) return;
    add("all_reduce", "another all-reduce, or fewer bytes in it",
        budget_.collectives_us + budget_.decode_loss_us,
        "the collectives' real time, which was not measured",
        "time one all-reduce of the step's size alone, by each algorithm",
        fmt::format("{} at the floor; {}", format_time_us(budget_.collectives_us), loss_text()));
  }

  void graphs() {
    add("cuda_graphs", "piecewise CUDA graphs", budget_.launches_us + budget_.decode_loss_us,
        "whether decode runs eagerly today", "count kernel gaps in one traced decode step",
        fmt::format("{} of gaps at the floor; {}", format_time_us(budget_.launches_us),
                    loss_text()));
  }

  void grouped_gemm() {
    if (!scene_.model().moe) return;
    add("grouped_gemm", "persistent grouped GEMM for few rows", budget_.decode_loss_us,
        "how far the expert GEMMs are from their memory floor",
        "time one layer's two grouped GEMMs alone, cold, at the rank's shapes", loss_text());
  }

  void continuous_decode() {
    add("continuous_decode_steps", "several decode steps per scheduler pass",
        budget_.decode_loss_us, "how much of the loss is scheduler and host; costs TTFT",
        "run with 1 and with 4 steps at the same concurrency", loss_text());
  }

  // Another layout's floor against this one's.
  void layout(std::string id, std::string title, const ParallelLayout& other,
              std::string depends_on, std::string experiment) {
    Deployment deployment = scene_.deployment();
    deployment.layout = other;
    const Result<Step> step = decode_step(deployment, level_.running);
    if (!step) return;
    const double floor_win_us = std::max(0.0, budget_.floor_us - step->step_us);
    add(std::move(id), std::move(title), floor_win_us + budget_.decode_loss_us,
        std::move(depends_on), std::move(experiment),
        fmt::format("floor {} against {}; {}", format_time_us(step->step_us),
                    format_time_us(budget_.floor_us), loss_text()));
  }

  void expert_parallelism() {
    ParallelLayout other = scene_.deployment().layout;
    if (!scene_.model().moe || other.ep > 1 || other.stage_gpus() == 1) return;
    other.ep = other.stage_gpus();
    layout("expert_parallelism", fmt::format("expert parallelism ({})", other.describe()), other,
           fmt::format("balance: the busiest rank sets the step; whole experts, [m, {}, {}]",
                       2 * scene_.model().moe->intermediate, scene_.model().hidden),
           "one run with expert parallelism at the same concurrency");
  }

  void data_parallel_attention() {
    ParallelLayout other = scene_.deployment().layout;
    if (other.dp_attention || other.tp == 1 || scene_.model().attention.kind != AttentionKind::kMla)
      return;
    other.dp_attention = true;
    other.ep = other.stage_gpus();
    layout("dp_attention", fmt::format("data-parallel attention ({})", other.describe()), other,
           "attention weights whole on every GPU; the latent cache is no longer repeated, so more "
           "sequences fit",
           "one run with data-parallel attention at the same concurrency");
  }

  void large_tiles() {
    if (scene_.found.tactics_failed.empty() || !scene_.model().moe) return;
    const LayerTiles tiles = layer_tiles(scene_, level_);
    add("large_tiles", "make the failed large tiles start", tiles.win_us * tiles.layers,
        "many more rows per expert than this load has",
        "compare memory floor and padded MMA time of a layer",
        fmt::format("{} rows per expert: a layer reads for {} and multiplies padded rows for {}",
                    format_number(tiles.rows), format_time_us(tiles.memory_us),
                    format_time_us(tiles.padded_128_us)));
  }

  const Scene& scene_;
  const LevelAnalysis& level_;
  const Budget budget_;
  std::vector<Proposal> proposals_;
};

void explain_tuned(Scene& scene, const MeasuredLevel& tuned) {
  const std::optional<double> after =
      output_rate(scene.found, tuned.output_tok_s, tuned.total_tok_s);
  const std::string id = "tuning." + level_slug(tuned.concurrency);
  for (std::size_t index = 0; index < scene.analysis.levels.size(); ++index) {
    const LevelAnalysis before = scene.analysis.levels[index];
    if (before.measured.concurrency != tuned.concurrency || before.output_tok_s <= 0 || !after)
      continue;
    const double ratio = *after / before.output_tok_s;
    scene.conclude({.id = id,
                    .point = 12,
                    .title = "After tuning",
                    .value = ratio,
                    .unit = "x",
                    .verdict = ratio > 1 ? "faster" : "not faster",
                    .formula = "rate after / rate before",
                    .inputs = Inputs(scene)
                                  .concurrency(tuned)
                                  .rate(tuned)
                                  .concurrency(before.measured)
                                  .rate(before.measured)
                                  .list(),
                    .sentence = fmt::format(
                        "Tuning took {} from {} to {} tok/s, {}; which change won it is "
                        "not stated.",
                        counted(tuned.concurrency, "request"), format_number(before.output_tok_s),
                        format_number(*after), times_text(ratio))});
    return;
  }
  scene.cannot_say(id, 12, "After tuning",
                   "no level before tuning has the same concurrency and a rate");
}

}  // namespace

void propose(Scene& scene) {
  for (const MeasuredLevel& tuned : scene.found.after_tuning) explain_tuned(scene, tuned);
  const bool known = !scene.analysis.levels.empty() &&
                     !scene.analysis.levels[scene.analysis.headline].waterfall.empty();
  if (!known) {
    scene.cannot_say("proposals", 12, "Proposals", "no level has a rate that its floor allows");
    return;
  }
  const LevelAnalysis level = scene.analysis.levels[scene.analysis.headline];
  scene.analysis.proposals = Proposer(scene, level).all();
  for (const Proposal& proposal : scene.analysis.proposals) {
    Inputs inputs(scene);
    inputs.deployment().concurrency(level.measured).cap().lengths().rate(level.measured);
    if (level.measured.itl_ms && level.measured.itl_ms->p50) {
      inputs.given("itl_p50", *level.measured.itl_ms->p50, "ms",
                   level.measured.path + ".itl_ms.p50");
    }
    if (proposal.id == "max_running_requests") {
      inputs.memory().concurrency(scene.analysis.levels.back().measured);
    }
    scene.conclude(
        {.id = "proposal." + proposal.id,
         .point = 12,
         .title = proposal.title,
         .value = proposal.at_most_us,
         .unit = "us",
         .verdict = proposal.at_most_us > 0 ? "" : "wins nothing at this load",
         .formula = "what its floor terms and the loss it could touch take, at most",
         .inputs = inputs.list(),
         .assumptions = {"upper bound, not a forecast; bounds overlap and do not add up"},
         .confidence = Confidence::kPossible,
         .sentence =
             fmt::format("{}: at most {} a step, {} in throughput ({}). Depends on {}. Cheapest "
                         "experiment: {}.",
                         proposal.title, format_time_us(proposal.at_most_us),
                         times_text(proposal.at_most_ratio), proposal.evidence, proposal.depends_on,
                         proposal.experiment)});
  }
}

}  // namespace nibble
