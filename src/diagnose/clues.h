// What speaks for and against each class: tables of clues, each a question to one level.
//
//   const LevelView view(evidence, 3);
//   for (const ClueDef& clue : clues_of(Class::kSchedulerCap)) {
//     const Heard heard = clue.hear(view);   // holds: "32 of 64 requests in flight run."
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/diagnosis.h"
#include "diagnose/evidence.h"

namespace nibble::diagnose {

// One level with what follows from its facts, and the levels around it. A number that cannot be
// (not finite, below zero) counts as missing. All times are ms, all shares 0 to 1.
class LevelView {
 public:
  LevelView(const Evidence& evidence, std::size_t level) : evidence_(&evidence), level_(level) {}

  const Evidence& evidence() const { return *evidence_; }
  const Setting& setting() const { return evidence_->setting; }
  const LevelEvidence& level() const { return evidence_->levels[level_]; }
  std::optional<double> get(Fact fact) const;
  std::string text(Fact fact) const;  // of a fact that is known

  // The nearest level with fewer users, and the one with the fewest; only levels that count.
  std::optional<LevelView> below() const;
  std::optional<LevelView> lowest() const;

  std::optional<double> in_flight() const;    // asked for, where it was not counted
  std::optional<double> outside() const;      // in flight, neither running nor waiting
  std::optional<double> step() const;         // wall time of a running request's token
  std::optional<double> served_step() const;  // the step alone, without the gap to the next
  std::optional<double> floor() const;        // of a step that decodes
  std::optional<double> whole_floor() const;  // with the prompts that come in meanwhile
  // What a step should take by its kernels alone: decodes, and prompts where their price is known.
  std::optional<double> kernels() const;
  std::optional<double> busy() const;            // of the time: steps, SMs active or utilization
  std::optional<double> gpu_busy() const;        // SMs active or utilization
  std::optional<double> gap_share() const;       // of the time in which requests run: no step
  std::optional<double> gap() const;             // between two steps
  std::optional<double> prompt_rate() const;     // computed prompt tokens/s
  std::optional<double> prompt_share() const;    // of the time, by the price of a prompt token
  std::optional<double> token_gap() const;       // between tokens, as the client sees them
  std::optional<double> gain() const;            // output rate, to that of below()
  std::optional<double> predicted_gain() const;  // by kernels, else by the floor
  std::optional<double> more_users() const;      // in flight, to that of below()

 private:
  const Evidence* evidence_;
  std::size_t level_;
};

std::optional<double> quotient(std::optional<double> top, std::optional<double> bottom);

std::string number_text(double value);  // "4.21", "1,024"

enum class Says : std::uint8_t { kHolds, kAgainst, kNothing, kUnknown };
struct Heard {
  Says says = Says::kUnknown;
  std::string sentence;  // with its numbers; of kUnknown: why, where no missing fact is the reason
};
Heard holds(std::string sentence);
Heard against(std::string sentence);
Heard nothing();  // the signal is there and between its thresholds
Heard unknown(std::string reason = "");

enum class Role : std::uint8_t {
  kPlain,
  kNeeded,  // unless it holds, the class is not named
  kVeto,    // speaking against, it kills the class; unknown, nothing is certain
};
// Where a clue is asked. This depends on the setting, never on what was measured: a clue that does
// not apply leaves the sum of weights, one whose facts are missing stays in it.
enum class Applies : std::uint8_t { kAlways, kGpu, kSeveralGpus, kTrace };

struct ClueDef {
  std::string_view id;
  double weight = 0;
  Role role = Role::kPlain;
  Applies applies = Applies::kAlways;
  std::vector<Fact> facts;   // that it rests on; the first are used where they are known
  std::string_view settles;  // "whether requests wait for a slot"
  Heard (*hear)(const LevelView& view) = nullptr;
};
bool applies(const ClueDef& clue, const Evidence& evidence);
std::span<const ClueDef> clues_of(Class cls);

// The tables, by file.
std::span<const ClueDef> scheduler_cap_clues();
std::span<const ClueDef> kv_capacity_clues();
std::span<const ClueDef> front_end_clues();
std::span<const ClueDef> client_limited_clues();
std::span<const ClueDef> launch_host_clues();
std::span<const ClueDef> kernel_inefficiency_clues();
std::span<const ClueDef> wrong_tactic_clues();
std::span<const ClueDef> prefill_interference_clues();
std::span<const ClueDef> collectives_clues();
std::span<const ClueDef> link_degraded_clues();
std::span<const ClueDef> expert_imbalance_clues();
std::span<const ClueDef> power_cap_clues();
std::span<const ClueDef> thermal_clues();
std::span<const ClueDef> degenerate_output_clues();
std::span<const ClueDef> prefix_cache_clues();
std::span<const ClueDef> healthy_clues();
std::span<const ClueDef> at_the_roof_clues();
std::span<const ClueDef> unexplained_clues();

// Questions that several classes ask, clues_shared.cpp.
// What the prompts of a level take of the time, by the price of a prompt token, else by the floor
// of the prompts that come in while a step runs; nullopt where neither is known.
struct PromptTime {
  double share = 0;
  std::string text;
};
std::optional<PromptTime> prompt_time(const LevelView& view);

// Whether the trace's steps are as long as this level's: a profile of another load, or of another
// server, says nothing of it.
bool trace_is_of(const LevelView& view);

Heard hear_fewer_run(const LevelView& view);      // running below in flight
Heard hear_requests_wait(const LevelView& view);  // in the server's queue
Heard hear_throughput_flat(const LevelView& view);
Heard hear_ttft_grew(const LevelView& view);
Heard hear_outside(const LevelView& view);  // requests that neither run nor wait
Heard hear_queue_empty(const LevelView& view);
Heard hear_engine_has_time(const LevelView& view);
Heard hear_client_on_time(const LevelView& view);
Heard hear_all_run(const LevelView& view);
Heard hear_no_gaps(const LevelView& view);
Heard hear_busy_but_cold(const LevelView& view);  // SMs busy, power as of waiting
Heard hear_above_floor(const LevelView& view);
Heard hear_clock_down(const LevelView& view);

}  // namespace nibble::diagnose
