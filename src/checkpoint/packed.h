// What the dialects with packed 4-bit codes have in common: a tensor of codes, one of block scales,
// and perhaps a factor, under names that differ.
#pragma once

#include <optional>

#include "checkpoint/stored_matrix.h"

namespace nibble {

struct PackedNames {
  std::string_view codes, scales, factor, input, bias;
};

// The matrix whose codes are `names.codes`; nothing when there are none, or when they are no bytes.
// NVFP4 when the scales are e4m3, MXFP4 when they are e8m0 (or bytes).
std::optional<StoredMatrix> read_packed(const ModuleTensors& tensors, const Checkpoint& checkpoint,
                                        const Dialect& dialect, const PackedNames& names,
                                        FaultLog& log);

// Whether scales of this type belong to blocks of 4-bit codes.
bool is_block_scale(Dtype dtype);

// Checks of single tensors; each says what is wrong and returns whether the tensor is right.
class TensorChecks {
 public:
  TensorChecks(const Dialect& dialect, FaultLog& log) : dialect_(dialect), log_(log) {}
  bool has_type(const StoredTensor& tensor, Dtype wanted);
  bool has_shape(const StoredTensor& tensor, const std::vector<std::int64_t>& wanted);
  bool is_scalar(const StoredTensor& tensor, Dtype wanted);
  void missing(std::string_view module, std::string_view suffix, const Checkpoint& checkpoint);

 private:
  const Dialect& dialect_;
  FaultLog& log_;
};

}  // namespace nibble
