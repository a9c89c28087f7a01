#include "diagnose/proposals.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "base/text.h"
#include "base/units.h"

namespace nibble::diagnose {
namespace {

// A bar from here on speaks for its proposal without a verdict.
constexpr double kWorthALook = 0.05;
constexpr double kWorthAWord = 0.01;  // less is within what two runs differ by
// From here on the KV cache, and no cap, is what requests wait for.
constexpr double kCacheFull = 0.9;
constexpr double kLeastChunk = 16;
constexpr double kMostChunk = 16384;

std::string replaced(std::string_view text, const std::string& value) {
  std::string result(text);
  for (std::size_t at = result.find("{N}"); at != std::string::npos; at = result.find("{N}")) {
    result.replace(at, 3, value);
  }
  return result;
}

double power_of_two_from(double least) {
  return std::exp2(std::ceil(std::log2(std::max(1.0, least))));
}

// All that come at once, as far as the KV cache holds them.
std::optional<double> running_to_ask_for(const Evidence& evidence, const LevelEvidence& level) {
  double most = 0;
  for (const LevelEvidence& other : evidence.levels) {
    most = std::max(most, other.get(Fact::kUsers).value_or(other.get(Fact::kInFlight).value_or(0)));
  }
  if (!(most >= 1) || most > 1e9) return std::nullopt;
  double wanted = power_of_two_from(most);
  const auto running = level.get(Fact::kRunning);
  const auto used = level.get(Fact::kKvUsage);
  if (running && used && *used > 0 && *running > 0) {
    wanted = std::min(wanted, std::floor(*running / *used));
  }
  return std::max(1.0, wanted);
}

// By kernels alone, else the ledger's price of the prompts that come in while a step runs.
std::optional<double> price_of_prompt_token(const LevelEvidence& level) {
  if (level[Fact::kPrefillPerToken].known()) return level.get(Fact::kPrefillPerToken);
  const auto prompts = level.get(Fact::kPromptRate);
  const auto rate = level.get(Fact::kOutputRate);
  std::optional<double> running = level.get(Fact::kRunning);
  if (!running) running = level.get(Fact::kInFlight);
  if (!level.prefill_floor || !prompts || !rate || !running) return std::nullopt;
  const double tokens = *prompts * *running / *rate;
  return tokens > 0 ? std::optional(*level.prefill_floor / tokens) : std::nullopt;
}

// As many prompt tokens as take the time of a step without them, beside the rows of decode that the
// same limit counts.
std::optional<double> chunk_to_ask_for(const LevelEvidence& level) {
  const std::optional<double> price = price_of_prompt_token(level);
  std::optional<double> step;
  for (const Fact fact : {Fact::kKernels, Fact::kFloor, Fact::kServerStep, Fact::kItlP50}) {
    if (!step) step = level.get(fact);
  }
  if (!price || !step || !(*price > 0) || !(*step > 0)) return std::nullopt;
  const double chunk = std::exp2(std::floor(std::log2(*step / *price)));
  const double rows = std::min(kMostChunk, level.get(Fact::kRunning).value_or(0));
  const double both = std::clamp(chunk, kLeastChunk, kMostChunk) + std::max(0.0, rows);
  return std::ceil(both / kLeastChunk) * kLeastChunk;
}

// nullopt: the evidence does not give it.
std::optional<std::string> value_text(ProposalValue value, const Evidence& evidence,
                                      const LevelEvidence& level) {
  std::optional<double> number;
  switch (value) {
    case ProposalValue::kNone:
      return "";
    case ProposalValue::kBestTactic:
      if (evidence.setting.best_tactic.empty()) return std::nullopt;
      return evidence.setting.best_tactic;
    case ProposalValue::kRunning:
    case ProposalValue::kGraphBatch:
      number = running_to_ask_for(evidence, level);
      break;
    case ProposalValue::kChunk:
      number = chunk_to_ask_for(level);
      break;
    case ProposalValue::kPowerLimit:
      number = evidence.setting.power_limit_w;
      break;
  }
  return number ? std::optional(fmt::format("{:.0f}", *number)) : std::nullopt;
}

struct EngineHow {
  std::string_view slug;
  std::string_view title;
  std::string_view ProposalDef::*how;
};
constexpr EngineHow kEngines[] = {
    {"nibble", "nibble serve", &ProposalDef::nibble},
    {"vllm", "vLLM", &ProposalDef::vllm},
    {"sglang", "SGLang", &ProposalDef::sglang},
    {"trtllm", "TensorRT-LLM", &ProposalDef::trtllm},
    {"llamacpp", "llama.cpp", &ProposalDef::llamacpp},
};

bool lists_id(std::string_view list, std::string_view id) {
  for (const std::string& one : split(list, ' ')) {
    if (one == id) return true;
  }
  return false;
}

double bars_ms(const LevelDiagnosis& level, std::string_view ids) {
  double sum = 0;
  for (const WaterfallBar& bar : level.waterfall) {
    if (bar.ms && lists_id(ids, bar.id)) sum += *bar.ms;
  }
  return sum;
}

const Verdict* possible_verdict(const Diagnosis& diagnosis, const LevelDiagnosis& level,
                                Class cls) {
  for (const std::vector<Verdict>* list : {&level.verdicts, &diagnosis.verdicts}) {
    for (const Verdict& verdict : *list) {
      if (verdict.cls == cls && verdict.certainty >= Certainty::kPossible) return &verdict;
    }
  }
  return nullptr;
}

bool is_named(const Diagnosis& diagnosis, Class cls) {
  return std::any_of(diagnosis.verdicts.begin(), diagnosis.verdicts.end(),
                     [&](const Verdict& verdict) {
                       return verdict.cls == cls && verdict.certainty >= Certainty::kLikely;
                     });
}

// Both a cap and a full cache leave requests in the queue: the cache's use tells which. A cap that
// more could run under holds nothing back.
bool other_cause_of_queue(const ProposalDef& def, const Evidence& evidence,
                          const LevelEvidence& level) {
  const bool full = level.get(Fact::kKvUsage).value_or(0) > kCacheFull;
  if (def.cls == Class::kSchedulerCap) {
    const auto wanted = running_to_ask_for(evidence, level);
    const auto cap = evidence.setting.max_running;
    return full || (wanted && cap && *wanted <= *cap);
  }
  return def.cls == Class::kKvCapacity && !full;
}

std::string evidence_text(const Verdict* verdict, double own_ms, const LevelDiagnosis& level,
                          std::string_view own) {
  std::string text;
  if (own_ms > 0 && level.measured_ms) {
    text = fmt::format("{}: {} ms of the {} ms a token takes at {}", join(split(own, ' '), ", "),
                       format_number(own_ms, 3), format_number(*level.measured_ms, 3), level.name);
  }
  if (verdict == nullptr) return text;
  if (!text.empty()) text += "; ";
  text += fmt::format("{} is {} ({:.0f} %)", info_of(verdict->cls).title,
                      to_string(verdict->certainty), verdict->confidence * 100);
  if (!verdict->evidence_for.empty()) text += ": " + verdict->evidence_for.front().sentence;
  return text;
}

double ratio_without(double measured_ms, double ms) {
  const double left = measured_ms - ms;
  // Nothing would be left: the bars set no bound.
  return left > 0 ? measured_ms / left : std::numeric_limits<double>::infinity();
}

void rank_proposals(std::vector<Proposal>& proposals) {
  std::stable_sort(proposals.begin(), proposals.end(), [](const Proposal& a, const Proposal& b) {
    return a.at_most_ms > b.at_most_ms;
  });
}

std::optional<Proposal> proposal_of(const ProposalDef& def, const Diagnosis& diagnosis,
                                    const LevelDiagnosis& level) {
  const Verdict* verdict = possible_verdict(diagnosis, level, def.cls);
  const LevelEvidence& facts = diagnosis.evidence.levels[diagnosis.headline];
  const double own_ms = bars_ms(level, def.own) * def.part;
  const double measured_ms = level.measured_ms.value_or(0);
  if (verdict == nullptr) {
    const bool large = measured_ms > 0 && own_ms > kWorthALook * measured_ms;
    if (!large || other_cause_of_queue(def, diagnosis.evidence, facts)) return std::nullopt;
    // A clock is low by power, by heat or by choice, and a slow collective by many things.
    if (def.cls == Class::kPowerCap || def.cls == Class::kThermal ||
        def.cls == Class::kLinkDegraded) {
      return std::nullopt;
    }
  }
  const auto how = how_text(def, diagnosis.evidence, diagnosis.headline);
  if (!how) return std::nullopt;
  Proposal proposal{.id = std::string(def.id),
                    .title = std::string(def.title),
                    .at_most_ms = own_ms,
                    .at_most_ratio = 1,
                    .cost = std::string(def.cost),
                    .depends_on = std::string(def.depends_on),
                    .how = *how,
                    .evidence = evidence_text(verdict, own_ms, level, def.own),
                    .because = def.cls};
  if (verdict != nullptr) proposal.at_most_ms += bars_ms(level, def.also) * def.part;
  proposal.at_most_ms = std::min(proposal.at_most_ms, measured_ms);
  proposal.at_most_ratio = measured_ms > 0 ? ratio_without(measured_ms, proposal.at_most_ms) : 1;
  return proposal;
}

struct CaseLink {
  std::string_view id;    // of a case's proposal
  std::string_view ours;  // of the table; empty: we have none
  Class cls;
};
constexpr CaseLink kCaseLinks[] = {
    {"max_running_requests", "raise_running_cap", Class::kSchedulerCap},
    {"prefill_schedule", "smaller_prefill_chunks", Class::kPrefillInterference},
    {"all_reduce", "cheaper_collectives", Class::kCollectives},
    {"cuda_graphs", "fewer_host_gaps", Class::kLaunchHost},
    {"grouped_gemm", "better_kernels", Class::kKernelInefficiency},
    {"continuous_decode_steps", "", Class::kLaunchHost},
    {"expert_parallelism", "", Class::kCollectives},
    {"dp_attention", "", Class::kKvCapacity},
    {"large_tiles", "best_tactic", Class::kWrongTactic},
};

const ProposalDef* def_named(std::string_view id) {
  for (const ProposalDef& def : proposal_table()) {
    if (def.id == id) return &def;
  }
  return nullptr;
}

Proposal from_case(const nibble::Proposal& stated, const CaseAnalysis& analysis,
                   const Diagnosis& diagnosis) {
  constexpr double kUsPerMs = 1e3;
  const auto link = std::find_if(std::begin(kCaseLinks), std::end(kCaseLinks),
                                 [&](const CaseLink& one) { return one.id == stated.id; });
  const bool linked = link != std::end(kCaseLinks);
  const ProposalDef* ours = linked ? def_named(link->ours) : nullptr;
  const LevelAnalysis& level = analysis.levels[analysis.headline];
  Proposal proposal{
      .id = stated.id,
      .title = stated.title,
      .at_most_ms = stated.at_most_us / kUsPerMs,
      .at_most_ratio = stated.at_most_ratio,
      .cost = "a restart to try",
      .depends_on = stated.depends_on,
      .how = "cheapest experiment: " + stated.experiment,
      .evidence = fmt::format("at {} request{}: {}", format_count(level.measured.concurrency),
                              level.measured.concurrency == 1 ? "" : "s", stated.evidence),
      .because = linked ? link->cls : Class::kUnexplained};
  if (ours == nullptr || diagnosis.evidence.levels.empty()) return proposal;
  proposal.cost = std::string(ours->cost);
  // What the case found to fit is the cap times what it wins.
  std::optional<double> value;
  const std::optional<double> cap = diagnosis.evidence.setting.max_running;
  if (ours->value == ProposalValue::kRunning && cap) {
    value = std::round(*cap * stated.at_most_ratio);
  }
  const auto how = how_text(*ours, diagnosis.evidence, diagnosis.headline, value);
  if (how) proposal.how = fmt::format("{}; {}", *how, proposal.how);
  return proposal;
}

}  // namespace

std::optional<std::string> how_text(const ProposalDef& def, const Evidence& evidence,
                                    std::size_t level, std::optional<double> wanted) {
  const auto value = wanted ? std::optional(fmt::format("{:.0f}", *wanted))
                            : value_text(def.value, evidence, evidence.levels[level]);
  const auto filled = [&](std::string_view text) {
    if (text.find("{N}") == std::string_view::npos) return std::string(text);
    return replaced(text, value.value_or("N"));
  };
  if (!def.any.empty()) return filled(def.any);
  std::string all;
  for (const EngineHow& engine : kEngines) {
    const std::string_view how = def.*engine.how;
    if (engine.slug == evidence.setting.engine) {
      return how.empty() ? std::nullopt : std::optional(filled(how));
    }
    if (how.empty()) continue;
    all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", engine.title, filled(how));
  }
  return all;
}

std::string most_to_win(const Diagnosis& diagnosis) {
  if (diagnosis.proposals.empty()) return "";
  const Proposal& best = diagnosis.proposals.front();
  if (best.at_most_ratio < 1 + kWorthAWord) return "";
  if (!std::isfinite(best.at_most_ratio)) {
    return fmt::format(" Most to win: {}; all of the time is in it.", best.title);
  }
  return fmt::format(" Most to win: {}, at most {} x the throughput.", best.title,
                     format_number(best.at_most_ratio, 3));
}

std::vector<Proposal> propose(const Diagnosis& diagnosis) {
  std::vector<Proposal> proposals;
  if (diagnosis.headline >= diagnosis.levels.size() ||
      diagnosis.headline >= diagnosis.evidence.levels.size()) {
    return proposals;
  }
  const LevelDiagnosis& level = diagnosis.levels[diagnosis.headline];
  const double least_ms = kWorthAWord * level.measured_ms.value_or(0);
  for (const ProposalDef& def : proposal_table()) {
    auto proposal = proposal_of(def, diagnosis, level);
    // What is named first is to be mended, although nobody can say what that wins.
    const bool named = proposal && is_named(diagnosis, proposal->because);
    if (named || (proposal && proposal->at_most_ms > least_ms)) {
      proposals.push_back(*std::move(proposal));
    }
  }
  rank_proposals(proposals);
  return proposals;
}

void add_case(const CaseAnalysis& analysis, Diagnosis& diagnosis) {
  diagnosis.findings.insert(diagnosis.findings.end(), analysis.findings.begin(),
                            analysis.findings.end());
  for (const nibble::Proposal& stated : analysis.proposals) {
    if (!(stated.at_most_us > 0)) continue;  // the numbers say that it wins nothing
    Proposal proposal = from_case(stated, analysis, diagnosis);
    const auto link = std::find_if(std::begin(kCaseLinks), std::end(kCaseLinks),
                                   [&](const CaseLink& one) { return one.id == stated.id; });
    if (link != std::end(kCaseLinks)) {
      std::erase_if(diagnosis.proposals, [&](const Proposal& own) { return own.id == link->ours; });
    }
    diagnosis.proposals.push_back(std::move(proposal));
  }
  rank_proposals(diagnosis.proposals);
  std::stable_partition(diagnosis.proposals.begin(), diagnosis.proposals.end(),
                        [&](const Proposal& proposal) {
                          return proposal.at_most_ms > 0 && is_named(diagnosis, proposal.because);
                        });
  if (!diagnosis.verdicts.empty()) {
    diagnosis.sentence = whole_sentence(diagnosis);
  }
}

}  // namespace nibble::diagnose
