#include "kernels/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "kernels/attention/attention_code.h"

namespace nibble {

const AttentionCode& attention_code(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return kAvx512Attention;
  if (isa == Isa::kAvx2) return kAvx2Attention;
#endif
  NIBBLE_CHECK(isa == Isa::kPortable);
  return kPortableAttention;
}

struct AttentionAccess {
  static std::int64_t slots(const AttentionWorkspace& workspace) { return workspace.slots_; }
  static bool fits(const AttentionParams& params) {
    return params.workspace.heads_ == params.heads &&
           params.workspace.head_dim_ == params.cache.shape().head_dim;
  }
  static float* memory(AttentionWorkspace& workspace) {
    return reinterpret_cast<float*>(workspace.memory_.data());
  }
};

namespace {

// Rows times heads that a thread works on at a time: they share the keys and values of a part,
// which stay in its L2, and their sums are 16 KB.
constexpr std::int64_t kUnitVectors = 16;

// The query heads of one key head, cut for units.
struct HeadCut {
  std::int64_t group = 0;  // query heads
  std::int64_t unit = 0;   // of them in a unit; fewer in the last
  std::int64_t units = 0;
};
HeadCut cut_heads(std::int64_t heads, std::int64_t kv_heads) {
  const std::int64_t group = heads / kv_heads;
  const std::int64_t unit = std::min(group, kUnitVectors);
  return {.group = group, .unit = unit, .units = (group + unit - 1) / unit};
}

// Some heads that share keys, of neighbouring rows of one sequence.
struct Unit {
  const CachedRows* sequence = nullptr;
  std::int64_t kv_head = 0;
  std::int64_t first_head = 0;  // of all heads
  std::int64_t heads = 0;
  std::int64_t first_row = 0;  // of the sequence's
  std::int64_t rows = 0;
  std::int64_t parts = 0;       // up to its last row
  std::int64_t first_part = 0;  // of all units before it: where its parts wait
};

// What follows from the sizes alone.
class Plan {
 public:
  Plan(const AttentionParams& params, Isa isa)
      : params_(params),
        shape_(params.cache.shape()),
        code_(attention_code(isa)),
        attend_(shape_.format == Format::kBf16 ? code_.bf16 : code_.fp32),
        heads_(cut_heads(params.heads, shape_.kv_heads)),
        unit_rows_(kUnitVectors / heads_.unit),
        padded_(rounded_to_lanes(shape_.head_dim)),
        part_blocks_(kPartTiles / params.cache.tiles_per_block()),
        scale_(params.scale != 0 ? params.scale
                                 : 1 / std::sqrt(static_cast<float>(shape_.head_dim))) {}

  std::int64_t padded() const { return padded_; }
  const AttentionCode& code() const { return code_; }
  std::int64_t part_positions() const { return part_blocks_ * shape_.block_tokens; }
  const HeadCut& heads() const { return heads_; }

  std::int64_t units_of(const CachedRows& sequence) const {
    return (sequence.rows + unit_rows_ - 1) / unit_rows_ * shape_.kv_heads * heads_.units;
  }
  // Unit `number` of one sequence: rows are innermost, so that neighbours meet the same keys.
  Unit unit(const CachedRows& sequence, std::int64_t number) const {
    const std::int64_t row_units = (sequence.rows + unit_rows_ - 1) / unit_rows_;
    const std::int64_t chunk = number / row_units;
    Unit unit{.sequence = &sequence, .kv_head = chunk / heads_.units};
    const std::int64_t within = chunk % heads_.units * heads_.unit;
    unit.first_head = unit.kv_head * heads_.group + within;
    unit.heads = std::min(heads_.unit, heads_.group - within);
    unit.first_row = number % row_units * unit_rows_;
    unit.rows = std::min(unit_rows_, sequence.rows - unit.first_row);
    const std::int64_t last = sequence.context + unit.first_row + unit.rows - 1;
    unit.parts = last / part_positions() + 1;
    return unit;
  }

  // The tiles of a part up to `end` positions of the sequence.
  void collect(const Unit& unit, std::int64_t part, std::int64_t end, AttentionPart& out) const {
    const std::int64_t tiles = params_.cache.tiles_per_block();
    out.head_dim = shape_.head_dim;
    out.padded = padded_;
    out.scale = scale_;
    out.count = 0;
    for (std::int64_t at = 0; at < part_blocks_ * tiles; ++at) {
      const std::int64_t block = part * part_blocks_ + at / tiles;
      const std::int64_t in_block = at % tiles * kLanes;
      const std::int64_t left = end - block * shape_.block_tokens - in_block;
      if (left <= 0) break;
      const auto number = unit.sequence->blocks[static_cast<std::size_t>(block)];
      out.tiles[out.count] = params_.cache.tile(params_.layer, number, unit.kv_head, at % tiles);
      out.positions[out.count] =
          static_cast<int>(std::min({kLanes, left, shape_.block_tokens - in_block}));
      ++out.count;
    }
  }

  // One row's heads over one part, in fours; each four is handed to `use(state, first, heads)`,
  // where `first` is the head's place within the unit.
  template <class Use>
  void attend(const Unit& unit, std::int64_t row, AttentionPart& part, const Use& use) const {
    const std::int64_t in_batch = unit.sequence->first_row + unit.first_row + row;
    const float* const queries =
        params_.queries.data() + in_batch * params_.stride + unit.first_head * shape_.head_dim;
    for (std::int64_t head = 0; head < unit.heads; head += kPartHeads) {
      const auto count = static_cast<int>(std::min<std::int64_t>(kPartHeads, unit.heads - head));
      part.queries = queries + head * shape_.head_dim;
      part.state = use(head, count);
      attend_[static_cast<std::size_t>(count - 1)](part);
    }
  }

  void store(const Unit& unit, std::int64_t row, std::int64_t head, float sum,
             const float* weighted) const {
    const std::int64_t in_batch = unit.sequence->first_row + unit.first_row + row;
    float* const to = params_.output.data() +
                      (in_batch * params_.heads + unit.first_head + head) * shape_.head_dim;
    const std::int64_t columns = shape_.head_dim;
    // A sum of -0 is +0, as it comes out of a merge with nothing.
#pragma GCC ivdep
    for (std::int64_t at = 0; at < columns; ++at) to[at] = (weighted[at] + 0.0F) / sum;
  }

 private:
  const AttentionParams& params_;
  const KvShape& shape_;
  const AttentionCode& code_;
  const std::array<AttentionCode::Attend, kPartHeads>& attend_;
  HeadCut heads_;
  std::int64_t unit_rows_;
  std::int64_t padded_;
  std::int64_t part_blocks_;
  float scale_;
};

// Units of all sequences; numbers must be asked for in ascending order, as a queue hands them out.
class Units {
 public:
  Units(const Plan& plan, std::span<const CachedRows> sequences)
      : plan_(plan), sequences_(sequences) {}

  std::int64_t count() const {
    std::int64_t units = 0;
    for (const CachedRows& sequence : sequences_) units += plan_.units_of(sequence);
    return units;
  }
  Unit at(std::int64_t number) {
    while (number >= begin_ + plan_.units_of(sequences_[at_])) {
      begin_ += plan_.units_of(sequences_[at_++]);
    }
    return plan_.unit(sequences_[at_], number - begin_);
  }

 private:
  const Plan& plan_;
  std::span<const CachedRows> sequences_;
  std::size_t at_ = 0;
  std::int64_t begin_ = 0;  // the first unit of that sequence
};

// Softmax so far of all vectors of a unit.
struct Sums {
  float most[kUnitVectors];
  float sum[kUnitVectors];
  alignas(64) float weighted[kUnitVectors * kMostHeadDim];

  void clear(std::int64_t vectors, std::int64_t padded) {
    std::fill_n(most, vectors, -std::numeric_limits<float>::infinity());
    std::fill_n(sum, vectors, 0.0F);
    std::fill_n(weighted, vectors * padded, 0.0F);
  }
  AttentionState state(std::int64_t vector, std::int64_t padded) {
    return {.most = most + vector, .sum = sum + vector, .weighted = weighted + vector * padded};
  }
};

// A row whose positions are one part.
void run_row(const Plan& plan, const Unit& unit, std::int64_t row, Sums& sums) {
  const std::int64_t padded = plan.padded();
  AttentionPart part;
  plan.collect(unit, 0, unit.sequence->context + unit.first_row + row + 1, part);
  plan.attend(unit, row, part, [&](std::int64_t head, int) { return sums.state(head, padded); });
  for (std::int64_t head = 0; head < unit.heads; ++head) {
    plan.store(unit, row, head, sums.sum[head], sums.weighted + head * padded);
  }
}

// A unit from its first part to its last.
void run_unit(const Plan& plan, const Unit& unit) {
  const std::int64_t padded = plan.padded();
  Sums sums;
  if (unit.parts == 1) {
    for (std::int64_t row = 0; row < unit.rows; ++row) run_row(plan, unit, row, sums);
    return;
  }
  Sums now;  // of one part, of up to four heads
  sums.clear(unit.rows * unit.heads, padded);
  for (std::int64_t number = 0; number < unit.parts; ++number) {
    for (std::int64_t row = 0; row < unit.rows; ++row) {
      AttentionPart part;
      plan.collect(unit, number, unit.sequence->context + unit.first_row + row + 1, part);
      if (part.count == 0) continue;
      plan.attend(unit, row, part, [&](std::int64_t head, int) { return now.state(head, padded); });
      plan.code().merge(now.state(0, padded), static_cast<int>(unit.heads), padded,
                        sums.state(row * unit.heads, padded));
    }
  }
  for (std::int64_t vector = 0; vector < unit.rows * unit.heads; ++vector) {
    plan.store(unit, vector / unit.heads, vector % unit.heads, sums.sum[vector],
               sums.weighted + vector * padded);
  }
}

// ---- few units: parts are spread over the threads ---------------------------------------------

// Parts of one-row units, in the order of units and then parts.
class SplitUnits {
 public:
  SplitUnits(const Plan& plan, std::span<const CachedRows> sequences, float* memory)
      : plan_(plan), units_(plan, sequences), memory_(memory), count_(units_.count()) {}

  // All parts of all units.
  std::int64_t parts() {
    std::int64_t parts = 0;
    Units units = units_;
    for (std::int64_t at = 0; at < count_; ++at) parts += units.at(at).parts;
    return parts;
  }
  std::int64_t count() const { return count_; }

  // Numbers must be asked for in ascending order.
  Unit unit(std::int64_t number) {
    for (; at_ < number; ++at_) first_part_ += units_.at(at_).parts;
    Unit unit = units_.at(number);
    unit.first_part = first_part_;
    return unit;
  }
  // The unit that `part` of all parts belongs to.
  Unit unit_of_part(std::int64_t part) {
    Unit unit = this->unit(at_);
    while (part >= first_part_ + unit.parts) unit = this->unit(at_ + 1);
    return unit;
  }
  AttentionState slot(std::int64_t part) const {
    const std::int64_t heads = plan_.heads().unit;
    float* const begin = memory_ + part * heads * (plan_.padded() + 2);
    return {.most = begin, .sum = begin + heads, .weighted = begin + 2 * heads};
  }

 private:
  const Plan& plan_;
  Units units_;
  float* memory_;
  std::int64_t count_;
  std::int64_t at_ = 0;
  std::int64_t first_part_ = 0;
};

void run_part(const Plan& plan, const SplitUnits& all, const Unit& unit, std::int64_t number) {
  const AttentionState slot = all.slot(number);
  AttentionPart part;
  plan.collect(unit, number - unit.first_part, unit.sequence->context + unit.first_row + 1, part);
  plan.attend(unit, 0, part, [&](std::int64_t head, int) {
    return AttentionState{.most = slot.most + head,
                          .sum = slot.sum + head,
                          .weighted = slot.weighted + head * plan.padded()};
  });
}

void merge_parts(const Plan& plan, const SplitUnits& all, const Unit& unit) {
  const std::int64_t padded = plan.padded();
  Sums sums;
  sums.clear(unit.heads, padded);
  for (std::int64_t part = 0; part < unit.parts; ++part) {
    plan.code().merge(all.slot(unit.first_part + part), static_cast<int>(unit.heads), padded,
                      sums.state(0, padded));
  }
  for (std::int64_t head = 0; head < unit.heads; ++head) {
    plan.store(unit, 0, head, sums.sum[head], sums.weighted + head * padded);
  }
}

// Whether it was worth while: single rows over several parts, and too few units for the threads.
bool run_split(const AttentionParams& params, const Plan& plan, ThreadPool& pool) {
  constexpr std::int64_t kUnitsPerThread = 2;
  const bool single = std::all_of(params.sequences.begin(), params.sequences.end(),
                                  [](const CachedRows& sequence) { return sequence.rows == 1; });
  SplitUnits all(plan, params.sequences, AttentionAccess::memory(params.workspace));
  if (!single || pool.threads() == 1 || all.count() >= kUnitsPerThread * pool.threads()) {
    return false;
  }
  const std::int64_t parts = all.parts();
  if (parts == all.count() || parts > AttentionAccess::slots(params.workspace)) return false;
  WorkQueue queue(parts);
  pool.share([&](int) {
    SplitUnits units = all;
    while (const auto part = queue.next()) run_part(plan, all, units.unit_of_part(*part), *part);
  });
  WorkQueue merges(all.count());
  pool.share([&](int) {
    SplitUnits units = all;
    while (const auto number = merges.next()) merge_parts(plan, all, units.unit(*number));
  });
  return true;
}

void check(const AttentionParams& params) {
  const KvShape& shape = params.cache.shape();
  NIBBLE_CHECK(shape.kv_heads > 0 && params.heads > 0 && params.heads % shape.kv_heads == 0);
  NIBBLE_CHECK(params.layer >= 0 && params.layer < shape.layers);
  NIBBLE_CHECK(params.stride >= params.heads * shape.head_dim);
  const std::int64_t rows = static_cast<std::int64_t>(params.queries.size()) / params.stride;
  NIBBLE_CHECK(static_cast<std::int64_t>(params.output.size()) ==
               rows * params.heads * shape.head_dim);
  NIBBLE_CHECK(sequences_fit(params.sequences, rows, shape));
  NIBBLE_CHECK(AttentionAccess::fits(params));
}

}  // namespace

Result<AttentionWorkspace> AttentionWorkspace::make(std::int64_t heads, std::int64_t kv_heads,
                                                    std::int64_t head_dim) {
  constexpr std::int64_t kMostHeads = 1024;
  if (heads < 1 || heads > kMostHeads || head_dim < 1 || head_dim > kMostHeadDim) {
    return input_error(
        "attention of {} heads of {} values is out of range; give 1 to {} heads of 1 to {}", heads,
        head_dim, kMostHeads, kMostHeadDim);
  }
  if (kv_heads < 1 || heads % kv_heads != 0) {
    return input_error("{} heads cannot share the keys of {}; give a divisor", heads, kv_heads);
  }
  // One row over 65,536 positions; more go the other way, whose bits are the same.
  constexpr std::int64_t kParts = 256;
  const HeadCut cut = cut_heads(heads, kv_heads);
  AttentionWorkspace workspace;
  workspace.slots_ = kParts * kv_heads * cut.units;
  workspace.heads_ = heads;
  workspace.head_dim_ = head_dim;
  const std::int64_t floats = workspace.slots_ * cut.unit * (rounded_to_lanes(head_dim) + 2);
  NIBBLE_ASSIGN_OR_RETURN(workspace.memory_,
                          HugeBuffer::allocate(static_cast<std::size_t>(floats) * sizeof(float)));
  return workspace;
}

void attention(const AttentionParams& params, Isa isa, ThreadPool& pool) {
  check(params);
  const Plan plan(params, isa);
  if (run_split(params, plan, pool)) return;
  const std::int64_t count = Units(plan, params.sequences).count();
  WorkQueue queue(count);
  pool.share([&](int) {
    Units units(plan, params.sequences);
    while (const auto number = queue.next()) run_unit(plan, units.at(*number));
  });
}

}  // namespace nibble
