// The conclusions: what holds a deployment back, where its time goes, what to change.
//
//   const Diagnosis diagnosis = conclude(evidence);
//   diagnosis.verdicts.front().sentence
//   for (const WaterfallBar& bar : diagnosis.levels.back().waterfall) ...
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/finding.h"
#include "base/json.h"
#include "diagnose/evidence.h"

namespace nibble::diagnose {

// docs/diagnosis.md has the table: signals, thresholds and their sources.
enum class Class : std::uint8_t {
  kHealthy,    // nothing holds it back that can be named: throughput grows with the load
  kAtTheRoof,  // weights (or FLOP) at the speed of the machine: do not optimise
  kSchedulerCap,
  kKvCapacity,
  kKernelInefficiency,
  kWrongTactic,
  kCollectives,
  kLaunchHost,
  kFrontEnd,
  kPrefillInterference,
  kPowerCap,
  kThermal,
  kLinkDegraded,
  kExpertImbalance,
  kClientLimited,
  kDegenerateOutput,
  kPrefixCacheInflation,
  kUnexplained,  // something holds it back, and nothing that is known says what
};
inline constexpr std::size_t kClasses = static_cast<std::size_t>(Class::kUnexplained) + 1;

struct ClassInfo {
  Class cls;
  std::string_view name;    // of the JSON: "scheduler_cap"
  std::string_view title;   // "scheduler cap"
  std::string_view regime;  // "queue", "memory", "compute", "latency", "link", "machine", "load"
  std::string_view means;   // one sentence for who has never heard of it
};
std::span<const ClassInfo> class_infos();
const ClassInfo& info_of(Class cls);
std::optional<Class> class_from_name(std::string_view name);

enum class Certainty : std::uint8_t { kNone, kPossible, kLikely, kCertain };
std::string_view to_string(Certainty certainty);

// One thing that speaks for or against a class, in a sentence with its numbers.
struct Clue {
  std::string id;  // "running_at_cap"
  std::string sentence;
  double weight = 0;
  std::vector<Fact> facts;  // that it rests on
};

struct Verdict {
  Class cls = Class::kUnexplained;
  std::string level;      // name of the level it is of; empty: of the whole
  double confidence = 0;  // 0 to 1: weight of evidence for, less against, over all there could be
  Certainty certainty = Certainty::kNone;
  std::vector<Clue> evidence_for;
  std::vector<Clue> evidence_against;
  std::vector<Clue> missing;  // what would be told by signals that are not there, with the reason
  std::string claim;          // the verdict in a few words, without its grounds
  std::string sentence;       // the verdict for people, with its numbers
  std::string experiment;     // the cheapest one that would settle it
  std::string experiment_id;  // that nibble can run itself; empty: none
};

struct WaterfallBar {
  std::string
      id;  // "expert_weights", ..., "kernels" or "kernels_timed" (a partial sum), "prefill",
           // "host", "queue", "front_end", "clocks", "collectives_excess", "unexplained"
  std::string title;
  std::optional<double> ms;  // a token and user; nullopt: not known, see reason
  std::string note;
  std::string reason;
  Origin origin = Origin::kDerived;
};

struct LevelDiagnosis {
  std::string name;
  double users = 0;
  std::optional<double> measured_ms;    // a token and user: in flight / output rate
  std::vector<WaterfallBar> waterfall;  // known bars add up to measured_ms, in tokens/s too
  std::string waterfall_reason;         // why there is none, or that it is an accounting error
  std::vector<Verdict> verdicts;        // best first; one at least
  std::optional<double> joules_per_token, joules_floor;
  std::string joules_reason, joules_floor_reason;  // why there is none
};

struct Proposal {
  std::string id;
  std::string title;
  double at_most_ms = 0;     // a token and user at the level that it is ranked by
  double at_most_ratio = 1;  // of throughput
  std::string cost;          // "a restart", "days of kernel work"
  std::string depends_on;
  std::string how;       // for the engine at hand: the flag with its name and value
  std::string evidence;  // why: the clue or bar it rests on
  Class because = Class::kUnexplained;
};

struct Experiment {  // that nibble ran
  std::string id;
  std::string question;
  std::string outcome;  // what came out, with numbers
  Class about = Class::kUnexplained;
  std::optional<bool> confirms;
};

struct Diagnosis {
  Evidence evidence;
  std::vector<LevelDiagnosis> levels;
  std::size_t headline = 0;         // index of the level that waterfall and proposals are ranked by
  std::vector<Verdict> verdicts;    // of the whole, best first; one at least
  std::vector<Proposal> proposals;  // best first
  std::vector<Finding> findings;    // of the case and the fit
  std::vector<Experiment> experiments;
  std::string sentence;  // the whole in one
};

// Never fails: what is not known is a reason. Deterministic.
Diagnosis conclude(Evidence evidence);

// The parts of conclude(), each its file.
std::vector<Verdict> classify_level(const Evidence& evidence, std::size_t level);
std::vector<Verdict> classify_whole(const Evidence& evidence,
                                    const std::vector<LevelDiagnosis>& levels);
void build_waterfall(const Evidence& evidence, std::size_t level, LevelDiagnosis& diagnosis);
std::vector<Proposal> propose(const Diagnosis& diagnosis);
// The whole in one sentence or two: the verdict, what there is to win, and what weakens both.
std::string whole_sentence(const Diagnosis& diagnosis);

Json to_json(const Diagnosis& diagnosis);  // nibble.diagnosis/1

}  // namespace nibble::diagnose
