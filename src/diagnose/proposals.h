// What to change, ranked by what it can win at most at the headline level.
//
//   diagnosis.proposals = propose(diagnosis);            // diagnosis.h
//   add_case(analysis, diagnosis);                       // a case's own findings and proposals
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "diagnose/diagnosis.h"
#include "explain/explain.h"

namespace nibble::diagnose {

// Which number takes the place of {N} in a flag.
enum class ProposalValue : std::uint8_t {
  kNone,
  kRunning,     // requests at once: the load's, as far as the KV cache holds them
  kChunk,       // prompt tokens a step, so that they take no longer than a step without them
  kBestTactic,  // what the server says that this machine could run
  kPowerLimit,  // W
  kGraphBatch,  // sequences that CUDA graphs must cover
};

// A proposal before it is held against the numbers: a row of proposals_table.cpp.
struct ProposalDef {
  std::string_view id;
  std::string_view title;
  Class cls;
  // Loss bars that it removes. `own` speak for it by themselves, the others only with its class.
  std::string_view own;   // "host"
  std::string_view also;  // "launches unexplained"
  double part = 1;        // of the bars, at most
  std::string_view cost;
  std::string_view depends_on;
  ProposalValue value = ProposalValue::kNone;
  // By engine; empty: nothing to set there.
  std::string_view nibble, vllm, sglang, trtllm, llamacpp;
  std::string_view any;  // where the engine does not matter
};
std::span<const ProposalDef> proposal_table();

// "--max-num-seqs 128" for the engine of the evidence; of all engines where it is not known.
// nullopt: there is nothing to set in it. `value` takes the place of what the evidence gives.
std::optional<std::string> how_text(const ProposalDef& def, const Evidence& evidence,
                                    std::size_t level, std::optional<double> value = {});

// " Most to win: a higher power limit, at most 1.2 x the throughput."; empty without proposals.
std::string most_to_win(const Diagnosis& diagnosis);

// Takes over findings and proposals of a case; a proposal that both have is the case's, with our
// cost and flag. Ranks anew: a case's bounds all hold what is unexplained, so that those of a class
// that is named stand before the others.
void add_case(const CaseAnalysis& analysis, Diagnosis& diagnosis);

}  // namespace nibble::diagnose
