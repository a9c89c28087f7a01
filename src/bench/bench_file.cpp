#include "bench/bench_file.h"

#include "base/file.h"
#include "base/json.h"
#include "bench/shapes_file.h"

namespace nibble {
namespace {

constexpr std::size_t kMostResultBytes = std::size_t{64} << 20;

Result<BenchFileRow> read_row(const Json& json, const std::string& where) {
  ObjectReader reader(json, where);
  BenchFileRow row;
  row.shape.name = reader.require_string("op");
  row.shape.op = reader.require_string("kind") == "moe" ? BenchOp::kMoe : BenchOp::kGemm;
  const auto format = [&reader](const char* key) {
    const std::optional<Format> found = format_from_string(reader.require_string(key));
    if (!found) reader.fault_at(key, "is no number format");
    return found.value_or(Format::kBf16);
  };
  row.shape.format = format("format");
  row.shape.activations = format("activations");
  row.shape.experts = reader.require_integer("experts", kShapeRange);
  row.shape.top_k = reader.require_integer("top_k", kShapeRange);
  row.shape.n = reader.require_integer("n", kShapeRange);
  row.shape.k = reader.require_integer("k", kShapeRange);
  row.shape.tokens = {reader.require_integer("tokens", kShapeRange)};
  row.threads = static_cast<int>(reader.require_integer("threads", kShapeRange));
  row.cold = reader.boolean("cold").value_or(true);
  row.kernel = reader.require_string("kernel");
  row.time_us = reader.number("time_us", {.above = 0});
  row.error = reader.string("error").value_or("");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  // An accounting error has a time that cannot be right.
  if (!row.error.empty()) row.time_us.reset();
  return row;
}

}  // namespace

Result<BenchFile> read_bench(const std::string& path) {
  NIBBLE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMostResultBytes));
  NIBBLE_ASSIGN_OR_RETURN(const Json json, Json::parse(text, path));
  ObjectReader reader(json, path);
  BenchFile file{.path = path};
  if (reader.require_string("schema") != "nibble.bench/1") {
    reader.fault_at("schema", "is not nibble.bench/1: give what nibble bench --json prints");
  }
  file.version = reader.require_string("version");
  if (const Json* machine = reader.object("machine")) {
    ObjectReader machine_reader(*machine, path + ": machine");
    file.machine = machine_reader.require_string("title");
    NIBBLE_RETURN_IF_ERROR(machine_reader.finish_lenient());
  }
  const Json* rows = reader.array("rows");
  if (rows == nullptr) reader.fault_at("rows", "is missing");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  for (const Json& item : rows->as_array()) {
    NIBBLE_ASSIGN_OR_RETURN(BenchFileRow row,
                            read_row(item, fmt::format("{}: rows[{}]", path, file.rows.size())));
    file.rows.push_back(std::move(row));
  }
  return file;
}

}  // namespace nibble
