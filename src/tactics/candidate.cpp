#include "tactics/candidate.h"

namespace nibble {
namespace {

// A line a tile of the W4A16 product, as in w4a4_tiles.cpp. Stages are what the larger chips take
// where those have more: each limit shows what it rejects.
constexpr W4A16Tactic kW4A16Candidates[] = {
    // Three and two blocks an SM, for few tokens.
    {.rows = 64, .tokens = 8, .stages = 4, .groups = 1, .blocks_per_sm = 3},
    {.rows = 64, .tokens = 16, .stages = 3, .groups = 1, .blocks_per_sm = 3},
    {.rows = 128, .tokens = 8, .stages = 4, .groups = 2, .blocks_per_sm = 2},
    {.rows = 128, .tokens = 16, .stages = 3, .groups = 2, .blocks_per_sm = 2},
    {.rows = 128, .tokens = 32, .stages = 3, .groups = 2, .blocks_per_sm = 2},
    {.rows = 128, .tokens = 8, .stage_chunks = 4, .stages = 4, .groups = 2},
    // One block.
    {.rows = 128, .tokens = 16, .stages = 6, .groups = 2},
    {.rows = 128, .tokens = 32, .stages = 4, .groups = 2},
    {.rows = 128, .tokens = 64, .stages = 3, .groups = 2},
    {.rows = 128, .tokens = 64, .stages = 4, .groups = 2},
    {.rows = 128, .tokens = 128, .stages = 2, .groups = 2},
    {.rows = 256, .tokens = 8, .stages = 4, .groups = 2},
    {.rows = 256, .tokens = 8, .stages = 5, .groups = 2},
    {.rows = 256, .tokens = 16, .stages = 4, .groups = 2},
    {.rows = 256, .tokens = 32, .stages = 3, .groups = 2},
    {.rows = 256, .tokens = 32, .stages = 4, .groups = 4},
    {.rows = 256, .tokens = 64, .stages = 2, .groups = 4},
    {.rows = 512, .tokens = 8, .stages = 2, .groups = 4},
    {.rows = 512, .tokens = 16, .stages = 2, .groups = 4},
    {.rows = 512, .tokens = 8, .stages = 5, .groups = 4},
    {.rows = 512, .tokens = 32, .stages = 4, .groups = 4},
    // Hopper's.
    {.rows = 512, .tokens = 8, .stages = 5, .groups = 4, .cluster = 2},
    {.family = Family::kWgmma, .rows = 512, .tokens = 16, .stages = 5, .groups = 2, .cluster = 2},
    {.family = Family::kWgmma, .rows = 512, .tokens = 24, .stages = 4, .groups = 2, .cluster = 2},
    {.family = Family::kWgmma, .rows = 512, .tokens = 32, .stages = 4, .groups = 2, .cluster = 2},
    {.family = Family::kWgmma,
     .rows = 512,
     .tokens = 64,
     .stages = 4,
     .groups = 2,
     .cluster = 2,
     .fragments = 4},
    {.family = Family::kWgmma, .rows = 256, .tokens = 96, .stages = 4, .groups = 2, .cluster = 2},
    {.family = Family::kWgmma, .rows = 256, .tokens = 128, .stages = 4, .groups = 2, .cluster = 2},
};

const W4A4Tactic* w4a4_of(const TacticCandidate& candidate) {
  return std::get_if<W4A4Tactic>(&candidate.tactic);
}
const W4A16Tactic& w4a16_of(const TacticCandidate& candidate) {
  return std::get<W4A16Tactic>(candidate.tactic);
}

}  // namespace

TacticFamily TacticCandidate::family() const {
  return w4a4_of(*this) != nullptr ? TacticFamily::kW4A4 : TacticFamily::kW4A16;
}

std::string TacticCandidate::name() const {
  const W4A4Tactic* native = w4a4_of(*this);
  return native != nullptr ? to_string(*native) : to_string(w4a16_of(*this));
}

Way TacticCandidate::way() const {
  const W4A4Tactic* native = w4a4_of(*this);
  return native != nullptr ? native->way : Way::kWeightsOnM;
}

int TacticCandidate::m() const {
  const W4A4Tactic* native = w4a4_of(*this);
  return native != nullptr ? native->m : w4a16_of(*this).rows;
}

int TacticCandidate::n() const {
  const W4A4Tactic* native = w4a4_of(*this);
  return native != nullptr ? native->n : w4a16_of(*this).tokens;
}

int TacticCandidate::k() const {
  const W4A4Tactic* native = w4a4_of(*this);
  return native != nullptr ? native->k : w4a16_of(*this).stage_chunks * kChunk;
}

int TacticCandidate::stages() const {
  const W4A4Tactic* native = w4a4_of(*this);
  return native != nullptr ? native->stages : w4a16_of(*this).stages;
}

int TacticCandidate::threads() const {
  const W4A4Tactic* native = w4a4_of(*this);
  return native != nullptr ? native->threads() : w4a16_of(*this).threads();
}

int TacticCandidate::blocks_per_sm() const {
  const W4A4Tactic* native = w4a4_of(*this);
  return native != nullptr ? native->blocks_per_sm : w4a16_of(*this).blocks_per_sm;
}

int TacticCandidate::cluster() const {
  return w4a4_of(*this) != nullptr ? 1 : w4a16_of(*this).cluster;
}

TacticTile TacticCandidate::tile() const {
  return {m(), n(), k()};
}

std::vector<TacticCandidate> tactic_candidates(TacticFamily family) {
  std::vector<TacticCandidate> list;
  if (family == TacticFamily::kW4A4) {
    for (const W4A4Tactic& tactic : w4a4_candidates()) list.push_back({tactic});
  } else {
    for (const W4A16Tactic& tactic : kW4A16Candidates) list.push_back({tactic});
  }
  return list;
}

}  // namespace nibble
