// What a shape takes of the memory, before anything is made: rows that cannot be measured are
// refused before others are.
//
//   NIBBLE_RETURN_IF_ERROR(check_memory(shape, available_memory_bytes()));
#pragma once

#include "base/result.h"
#include "bench/rig.h"

namespace nibble {

// "moe.json: shapes[3]", or the row's name when its numbers are options.
std::string place_of(const BenchShape& shape);

// A matrix as the kernels store it: whole tiles of 16 rows and 128 columns, with scales.
double packed_bytes(Format format, std::int64_t rows, std::int64_t columns);
// One expert of the shape, packed.
double expert_memory_bytes(const BenchShape& shape);
// The least that measuring takes: all experts packed, some as they were before, and activations and
// outputs of the largest number of tokens.
double least_memory_bytes(const BenchShape& shape);
// A usage error that names the shape and both numbers.
Result<> check_memory(const BenchShape& shape, double available_bytes);

}  // namespace nibble
