// The number formats that quantization configs name: ModelOpt's quant_algo, and the tensor
// descriptions of config_groups.
//
//   algorithm_format("W4A16_NVFP4", where)           // {nvfp4, bf16}
//   tensor_format({"num_bits": 4, "type": "float", "group_size": 16}, where, warnings)   // nvfp4
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/quantization.h"

namespace nibble {

// bf16 activations stand for "as the model computes". Unknown names are answered with the nearest.
Result<ModuleFormat> algorithm_format(std::string_view name, std::string_view where);

// Of weights, activations or a KV cache. Integers in groups other than 128 are counted as if of
// 128, with a warning.
enum class TensorRole { kWeights, kActivations };
Result<Format> tensor_format(const Json& tensor, TensorRole role, const std::string& where,
                             std::vector<std::string>& warnings);

// Of formats whose blocks have one size by definition.
std::optional<std::int64_t> block_size(Format format);

// Says that 4-bit integers in groups of `group` are counted as groups of 128, unless they are.
void note_integer_groups(std::int64_t group, std::string_view where,
                         std::vector<std::string>& warnings);

}  // namespace nibble
