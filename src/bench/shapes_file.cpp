#include "bench/shapes_file.h"

#include "base/file.h"
#include "base/json.h"

namespace nibble {
namespace {

constexpr std::size_t kMostShapesBytes = std::size_t{1} << 20;
constexpr std::size_t kMostShapes = 4096;

Result<BenchShape> read_shape(const Json& json, const std::string& where) {
  ObjectReader reader(json, where);
  BenchShape shape;
  if (const auto kind = reader.string("kind")) {
    if (*kind != "gemm" && *kind != "moe") reader.fault_at("kind", "is neither gemm nor moe");
    shape.op = *kind == "moe" ? BenchOp::kMoe : BenchOp::kGemm;
    shape.name = *kind;
  }
  const auto format = [&reader](const char* key) {
    const std::string name = reader.require_string(key);
    const std::optional<Format> found = format_from_string(name);
    if (!found) reader.fault_at(key, "is no number format");
    return found.value_or(Format::kBf16);
  };
  shape.format = format("format");
  shape.activations = format("activations");
  shape.experts = reader.require_integer("experts", kShapeRange);
  shape.top_k = reader.require_integer("top_k", kShapeRange);
  shape.n = reader.require_integer("n", kShapeRange);
  shape.k = reader.require_integer("k", kShapeRange);
  shape.tokens = {reader.require_integer("tokens", kShapeRange)};
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  shape.where = where;
  if (const Result<> takes = check_shape(shape); !takes.ok()) {
    return Error{ErrorKind::kInput, takes.error().message};
  }
  return shape;
}

}  // namespace

Result<std::vector<BenchShape>> read_shapes(const std::string& path) {
  NIBBLE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMostShapesBytes));
  NIBBLE_ASSIGN_OR_RETURN(const Json json, Json::parse(text, path));
  ObjectReader reader(json, path);
  if (reader.require_string("schema") != "nibble.shapes/1") {
    reader.fault_at("schema", "is not nibble.shapes/1");
  }
  reader.accept("how");
  reader.accept("seed");
  const Json* list = reader.array("shapes");
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  if (list == nullptr || list->as_array().empty() || list->as_array().size() > kMostShapes) {
    return input_error("{}: shapes must list 1 to {} shapes", path, kMostShapes);
  }
  std::vector<BenchShape> shapes;
  for (const Json& item : list->as_array()) {
    NIBBLE_ASSIGN_OR_RETURN(BenchShape shape,
                            read_shape(item, fmt::format("{}: shapes[{}]", path, shapes.size())));
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

}  // namespace nibble
