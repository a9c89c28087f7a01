// What a choice of a tactic is for: an operation at its shape on one rank, for a range of tokens
// (TuningKey), and where it was measured (TuningSite). A choice holds for neither another shape
// nor another device, driver or version of the kernels.
//
//   const TuningKey key{.op = "moe.down", .experts = 256, .top_k = 8, .n = 6144, .k = 256,
//                       .tokens = 64};
//   to_string(key);   // "moe.down 256 x [6144, 256] top 8 nvfp4 x bf16, 64 tokens"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "formats/format.h"

namespace nibble::tune {

// The operation without the number of tokens.
struct TuningShape {
  std::string op = "gemm";  // "moe.gate_up", "moe.down", "gemm"
  std::int64_t experts = 1;
  std::int64_t top_k = 1;
  std::int64_t n = 0;  // rows of an expert's matrix on this rank; gate and up together
  std::int64_t k = 0;
  Format format = Format::kNvfp4;
  Format activations = Format::kBf16;
  friend bool operator==(const TuningShape&, const TuningShape&) = default;
};
std::string to_string(const TuningShape& shape);

struct TuningKey {
  TuningShape shape;
  std::int64_t tokens = 0;  // of a step: the most that the choice is for
  // The fewest that it is for; not a part of the key's identity.
  std::int64_t from_tokens = 0;

  bool is_same(const TuningKey& other) const {
    return shape == other.shape && tokens == other.tokens;
  }
  bool holds(std::int64_t count) const { return from_tokens <= count && count <= tokens; }
};
std::string to_string(const TuningKey& key);

// A key for each number of tokens, whose ranges do not meet: from the one before, but at most from
// a quarter on, because what is fastest for 64 tokens says nothing of one.
std::vector<TuningKey> keys_of(const TuningShape& shape, std::vector<std::int64_t> tokens);

struct TuningSite {
  std::string device;          // "NVIDIA H200", or the processor's title
  std::int64_t units = 0;      // SMs, or processors
  std::string driver;          // "CUDA 13.0"; "none" of a CPU
  std::string kernel_version;  // of the device code, or of nibble with the best instruction set
  friend bool operator==(const TuningSite&, const TuningSite&) = default;
};
// Another driver or other kernels make a file of the same device stale, no more.
bool is_same_device(const TuningSite& made, const TuningSite& here);
// Empty, or what differs: "it was made with driver CUDA 12.8, and this is CUDA 13.0".
std::string difference(const TuningSite& made, const TuningSite& here);

Json to_json(const TuningKey& key);
Result<TuningKey> parse_key(const Json& json, const std::string& where);
Json to_json(const TuningSite& site);
Result<TuningSite> parse_site(const Json& json, const std::string& where);

}  // namespace nibble::tune
