// Rotary position embedding as Llama and Qwen have it: the first half of a head is rotated against
// its second half.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Rope rope, Rope::make({.head_dim = 128, .theta = 1e6}));
//   rope.angles(positions, cosines, sines);          // once a step, for all layers
//   rotate({.x = qkv, .stride = 5120, .heads = 36, .head_dim = 128, .cosines = cosines,
//           .sines = sines}, pool);                  // queries and keys, in place
//
//   x[i], x[i + d/2] = x[i] cos - x[i + d/2] sin, x[i + d/2] cos + x[i] sin; angle p *
//   theta^(-2i/d)
//
// Angles are taken in double precision. A row depends on nothing but its position.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"

namespace nibble {

enum class RopeScaling {
  kNone,
  kLinear,  // positions divided by `factor`
  kYarn,    // arXiv 2309.00071: slow angles divided by `factor`, fast ones kept
};

struct RopeConfig {
  std::int64_t head_dim = 0;  // even
  double theta = 10000;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;
  // kYarn only.
  double original_context = 0;  // original_max_position_embeddings
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;         // the ramp's ends are whole dimensions
  double attention_factor = 0;  // on cosines and sines; 0: 0.1 ln(factor) + 1
};

class Rope {
 public:
  // An input error for numbers that are out of range.
  static Result<Rope> make(const RopeConfig& config);

  // -> cosines and sines: [positions, head_dim / 2]. Does not allocate.
  void angles(std::span<const std::int64_t> positions, std::span<float> cosines,
              std::span<float> sines) const;

 private:
  std::vector<double> frequencies_;  // [head_dim / 2]
  double size_ = 1;                  // of a cosine at 0
};

struct RotateParams {
  std::span<float> x;  // [rows, stride], a row begins with its [heads, head_dim]
  std::int64_t stride = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::span<const float> cosines;  // [rows, head_dim / 2]
  std::span<const float> sines;
};

// Sizes that do not fit together are our caller's mistake (NIBBLE_CHECK). Does not allocate.
void rotate(const RotateParams& params, ThreadPool& pool);

}  // namespace nibble
