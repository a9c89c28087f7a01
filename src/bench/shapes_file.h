// nibble.shapes/1: shapes that were chosen before they were measured (docs/measured/shapes.json).
//
//   NIBBLE_ASSIGN_OR_RETURN(const std::vector<BenchShape> shapes, read_shapes("shapes.json"));
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "bench/rig.h"

namespace nibble {

inline constexpr NumberRange kShapeRange{.min = 1, .max = 1 << 20};  // of each number of a shape

Result<std::vector<BenchShape>> read_shapes(const std::string& path);

}  // namespace nibble
