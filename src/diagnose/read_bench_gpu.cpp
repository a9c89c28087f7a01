#include "diagnose/read_bench_gpu.h"

#include <fmt/format.h>
#include <utility>

#include "base/text.h"

namespace nibble::diagnose {
namespace {

constexpr double kMostOfRow = 1e15;

Result<GpuRow> parse_gpu_row(const Json& json, const std::string& where) {
  ObjectReader reader(json, where);
  GpuRow row;
  const std::string kind = reader.string("kind").value_or("gemm");
  row.part = reader.string("part").value_or(kind == "moe" ? "layer" : "dense");
  row.format = reader.string("format").value_or("");
  row.experts = reader.number("experts", {.min = 1, .max = kMostOfRow}).value_or(1);
  row.top_k = reader.number("top_k", {.min = 1, .max = kMostOfRow}).value_or(1);
  row.n = reader.number("n", {.min = 0, .max = kMostOfRow}).value_or(0);
  row.k = reader.number("k", {.min = 0, .max = kMostOfRow}).value_or(0);
  row.tokens = reader.number("tokens", {.min = 0, .max = kMostOfRow}).value_or(0);
  row.time_us = reader.number("time_us", {.max = kMostOfRow, .above = 0});
  row.kernel = printable(reader.string("kernel").value_or(""));
  row.error = printable(reader.string("error").value_or(""));
  const Json* conditions = reader.object("conditions");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  if (conditions != nullptr) {
    NIBBLE_ASSIGN_OR_RETURN(row.conditions,
                            parse_gpu_conditions(*conditions, where + ": conditions"));
  }
  if (!row.error.empty()) row.time_us.reset();
  if (!row.time_us && row.error.empty()) row.error = "the row has no time";
  return row;
}

// Rows of this GPU; what was imported, or timed on another, is no part of it.
Result<> take_rows(const Json& list, const std::string& on, const std::string& where,
                   GpuEvidence& gpu) {
  for (std::size_t index = 0; index < list.as_array().size(); ++index) {
    const Json& item = list.as_array()[index];
    const Json* of = item.find("on");
    const bool here = of != nullptr && *of == Json(on);
    if (!here) continue;
    NIBBLE_ASSIGN_OR_RETURN(GpuRow row,
                            parse_gpu_row(item, fmt::format("{}: rows[{}]", where, index)));
    gpu.rows.push_back(std::move(row));
  }
  return {};
}

}  // namespace

Result<> read_bench_gpu(const Json& json, const ReadContext& context, Evidence& evidence) {
  ObjectReader reader(json, context.name);
  const std::string on = printable(reader.string("on").value_or(""));
  const Json* roofs = reader.object("gpu_roofs");
  const Json* rows = reader.array("rows");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  if (!on.starts_with("cuda:") || roofs == nullptr) return {};
  NIBBLE_ASSIGN_OR_RETURN(GpuRoofs measured, parse_gpu_roofs(*roofs, context.name + ": gpu_roofs"));
  measured.title = printable(measured.title);
  if (!evidence.gpu) {
    evidence.gpu.emplace();
    evidence.gpu->on = on;
    evidence.gpu->catalog = find_in_catalog(measured.title);
    evidence.gpu->source = context.name;
    evidence.gpu->roofs = std::move(measured);
  } else if (evidence.gpu->roofs.title != measured.title) {
    return input_error("{}: its kernels were timed on {}, and those of {} on {}; give one of them",
                       context.name, measured.title, evidence.gpu->source,
                       evidence.gpu->roofs.title);
  } else {
    for (auto& [key, roof] : measured.roofs) evidence.gpu->roofs.roofs.try_emplace(key, roof);
  }
  if (rows == nullptr) return {};
  return take_rows(*rows, on, context.name, *evidence.gpu);
}

}  // namespace nibble::diagnose
