// What the header says of one weight matrix, whichever dialect spells it. The bytes stay where they
// are; load.h turns them into the canonical form.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "formats/format.h"

namespace nibble {

// The tensors of one module by what stands behind its name: "weight", "weight_scale", ...
struct ModuleTensors {
  std::string_view module;
  std::vector<std::pair<std::string_view, const StoredTensor*>> tensors;

  const StoredTensor* find(std::string_view suffix) const;
};

// Where a block-128 or per-row scale of FP8 weights stands; kNone for everything else.
enum class Fp8Scale { kNone, kTensor, kRow, kBlock128 };

struct Dialect;

struct StoredMatrix {
  std::string name;    // "model.layers.3.mlp.experts.7.gate_proj", "...experts.gate_up_proj"
  std::string module;  // as quantization rules name it: without the ending of a stack
  Format format = Format::kBf16;
  std::int64_t copies = 0;   // experts of a stack; 0: a matrix of its own
  std::int64_t rows = 0;     // of one copy
  std::int64_t columns = 0;  // elements, not bytes
  const StoredTensor* codes = nullptr;
  const StoredTensor* scales = nullptr;  // of blocks; of FP8 what `fp8_scale` says
  const StoredTensor* factor = nullptr;  // one fp32 for the matrix, as `dialect` spells it
  const StoredTensor* input = nullptr;   // one fp32 for the activations, likewise
  const StoredTensor* bias = nullptr;
  const Dialect* dialect = nullptr;
  Fp8Scale fp8_scale = Fp8Scale::kNone;
  bool sound = true;            // all of it is there, in the right types and shapes
  bool interleaved = false;     // even rows are gate, odd rows are up (gpt-oss)
  bool loadable = true;         // false: known, but not a form that load.h reads
  std::uint64_t bytes() const;  // with scales and factors, without the bias
  double parameters() const;
};

// Whether a matrix is what somebody claims. bf16, fp16 and fp32 count as one: which of them it is
// is no matter of quantization.
bool formats_agree(Format found, Format claimed);

// One way of spelling quantized matrices. recognise() appends the matrices that it finds among the
// tensors of a module, and says in the log what of them is missing or wrong. multiplier() makes a
// factor from a stored one; it is the only place where a reciprocal is taken.
struct Dialect {
  std::string_view name;
  void (*recognise)(const ModuleTensors& tensors, const Checkpoint& checkpoint,
                    std::vector<StoredMatrix>& out, FaultLog& log);
  float (*multiplier)(float stored);
};

extern const Dialect kModelopt;           // dialect_modelopt.cpp
extern const Dialect kCompressedTensors;  // dialect_compressed_tensors.cpp
extern const Dialect kGptOss;             // dialect_gpt_oss.cpp
extern const Dialect kUnpacked;           // dialect_unpacked.cpp: bf16, fp16, fp32, fp8, integers

}  // namespace nibble
