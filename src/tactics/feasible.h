// Whether a tactic can run a product on a chip, which limit rejects it, and what would make it fit.
// Per product and tactic, never by a tile's name; no GPU is needed.
//
//   Feasibility found = feasibility(product, candidate, chip);   // by bytes and shapes alone
//   if (found.feasible()) judge_compiled(found, compiled, chip);  // and by registers
//   say(found.name, found.feasible() ? "fits" : found.reason);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cuda/cubin.h"
#include "tactics/budget.h"
#include "tactics/candidate.h"
#include "tactics/chip.h"
#include "tactics/occupancy.h"

namespace nibble {

enum class TacticLimit {
  kArchitecture,  // it has not the instruction
  kDivisibility,  // the product's sizes, or the tile's, do not divide as the kernel needs
  kBlock,         // shared memory of a block
  kSm,            // shared memory of an SM, for as many blocks as the tactic asks for
  kThreads,       // warps or blocks of an SM
  kCompiler,      // it does not compile, or with a warning that no kernel may have
  kRegisters,     // registers of an SM
  kSpills,        // registers went to memory
};
// "architecture", "divisibility", "per_block", "per_sm", "threads", "compiler", "registers",
// "spills"
std::string_view to_string(TacticLimit limit);

struct Feasibility {
  TacticCandidate candidate;
  std::string op;    // of the product
  std::string name;  // to_string of the tactic
  BlockBudget shared;
  std::optional<int> registers;  // of a thread
  std::optional<int> spill_bytes;
  std::optional<int> stack_bytes;  // of a thread, in memory: spills, and arrays left there
  std::string registers_reason;    // why they are not known; "" when they are
  BlocksPerSm blocks;
  std::optional<TacticLimit> limit;   // what rejects it; none: feasible
  std::string reason;                 // a sentence, with the numbers
  std::vector<std::string> remedies;  // what would make it fit

  bool feasible() const { return !limit.has_value(); }
  // Its registers and spills were judged too; else a feasible one fits by bytes and sizes alone.
  bool compiled() const { return registers.has_value() && spill_bytes.has_value(); }
};

Feasibility feasibility(const TacticProduct& product, const TacticCandidate& candidate,
                        const Chip& chip);

// Adds what was compiled for chip.arch: registers, spills and what these mean. A run error, as
// where there is no compiler, leaves them unknown with its sentence.
void judge_compiled(Feasibility& found, const Result<cuda::Cubin>& compiled, const Chip& chip);

// What of a list has registers that spill, or that are too many: the feasible tactic of the same
// list with the same way and tile, where there is one.
void add_neighbours(std::vector<Feasibility>& list);

}  // namespace nibble
