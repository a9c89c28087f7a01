// The tactics that are thought of for a product: one list, whatever the device.
//
//   for (const TacticCandidate& candidate : tactic_candidates(TacticFamily::kW4A4))
//     say(candidate.name(), to_string(candidate.tile()), candidate.stages());
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "kernels/gemm/device/w4a16.h"
#include "kernels/gemm/device/w4a4.h"
#include "tactics/product.h"

namespace nibble {

struct TacticCandidate {
  std::variant<W4A4Tactic, W4A16Tactic> tactic;

  TacticFamily family() const;
  std::string name() const;  // one line: to_string of the tactic
  Way way() const;           // W4A16: weights on M
  int m() const;             // of a tile
  int n() const;
  int k() const;  // values of a stage
  TacticTile tile() const;
  int stages() const;
  int threads() const;
  int blocks_per_sm() const;  // that it asks for
  int cluster() const;

  friend bool operator==(const TacticCandidate&, const TacticCandidate&) = default;
};

std::vector<TacticCandidate> tactic_candidates(TacticFamily family);

}  // namespace nibble
