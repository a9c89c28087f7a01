// The nibble.inspect/1 document (docs/schemas/nibble.inspect.1.json). Every member is always there;
// what is not known is null.
#include "base/json_parts.h"
#include "base/text.h"
#include "cli/inspect.h"

namespace nibble::cli {
namespace {

Json number_or_null(std::optional<float> value) {
  return value ? Json(static_cast<double>(*value)) : Json();
}

Json files_json(const CheckpointReport& report) {
  Json list = Json::array();
  for (const FileReport& file : report.files) {
    list.push(Json::object()
                  .set("name", file.name)
                  .set("readable", file.readable)
                  .set("bytes", file.readable ? Json(file.bytes) : Json())
                  .set("header_bytes", file.readable ? Json(file.header_bytes) : Json())
                  .set("tensors", file.readable ? Json(file.tensors) : Json()));
  }
  return list;
}

Json parts_json(const CheckpointReport& report) {
  Json list = Json::array();
  for (const PartReport& part : report.parts) {
    list.push(Json::object()
                  .set("part", to_string(part.region))
                  .set("tensors", part.tensors)
                  .set("matrices", part.matrices)
                  .set("parameters", part.parameters)
                  .set("bytes", part.bytes));
  }
  return list;
}

Json scope_json(const CheckpointReport& report) {
  Json list = Json::array();
  for (const ScopeReport& row : report.scope) {
    Json claimed;
    if (row.claimed) {
      claimed = Json::object()
                    .set("weights", to_string(row.claimed->weights))
                    .set("activations", to_string(row.claimed->activations));
    }
    list.push(Json::object()
                  .set("part", to_string(row.region))
                  .set("found", to_string(row.found))
                  .set("claimed", std::move(claimed))
                  .set("agrees", row.claimed ? Json(row.agrees) : Json())
                  .set("matrices", row.matrices)
                  .set("parameters", row.parameters)
                  .set("bytes", row.bytes)
                  .set("with_input_scale", row.with_input_scale)
                  .set("examples", string_list(row.examples)));
  }
  return list;
}

Json ignored_json(const CheckpointReport& report) {
  Json list = Json::array();
  for (const IgnoredTensors& ignored : report.ignored) {
    list.push(Json::object()
                  .set("reason", ignored.reason)
                  .set("tensors", ignored.tensors)
                  .set("bytes", ignored.bytes)
                  .set("examples", string_list(ignored.examples)));
  }
  return list;
}

Json values_json(const CheckpointReport& report) {
  if (!report.deep) return {};
  Json list = Json::array();
  for (const ValueReport& row : report.values) {
    const ValueStats& values = row.values;
    const bool scaled = values.scales > 0;
    list.push(Json::object()
                  .set("part", to_string(row.region))
                  .set("format", to_string(row.format))
                  .set("matrices", row.matrices)
                  .set("values", values.values)
                  .set("zeros", values.zeros)
                  .set("not_finite", values.not_finite)
                  .set("rms", values.rms())
                  .set("max_abs", values.max_abs)
                  .set("block_scales", values.scales)
                  .set("nan_scales", values.nan_scales)
                  .set("negative_scales", values.negative_scales)
                  .set("zero_scales", values.zero_scales)
                  .set("min_block_scale", scaled ? Json(values.min_scale) : Json())
                  .set("max_block_scale", scaled ? Json(values.max_scale) : Json())
                  .set("min_factor", number_or_null(row.min_factor))
                  .set("max_factor", number_or_null(row.max_factor)));
  }
  return list;
}

Json faults_json(const CheckpointReport& report) {
  Json list = Json::array();
  for (const Fault& fault : report.faults) {
    list.push(Json::object()
                  .set("severity", to_string(fault.severity))
                  .set("id", fault.id)
                  .set("sentence", fault.sentence)
                  .set("count", fault.count)
                  .set("examples", string_list(fault.examples)));
  }
  return list;
}

Json parameters_json(const CheckpointReport& report) {
  Json described;
  if (report.described) {
    described = Json::object()
                    .set("total", report.described->total)
                    .set("active", report.described->active)
                    .set("mtp", report.described->mtp);
  }
  return Json::object().set("found", report.parameters).set("described", std::move(described));
}

}  // namespace

Json inspect_document(const CheckpointReport& report) {
  return Json::object()
      .set("schema", "nibble.inspect/1")
      .set("path", report.path)
      .set("name", report.name)
      .set("architecture", text_or_null(report.architecture))
      .set("claim", text_or_null(report.claim))
      .set("dialects", string_list(report.dialects))
      .set("tensors", report.tensors)
      .set("bytes", report.bytes)
      .set("parameters", parameters_json(report))
      .set("files", files_json(report))
      .set("parts", parts_json(report))
      .set("scope", scope_json(report))
      .set("ignored", ignored_json(report))
      .set("kv_scales", Json::object()
                            .set("count", report.kv_scales)
                            .set("min", number_or_null(report.min_kv_scale))
                            .set("max", number_or_null(report.max_kv_scale)))
      .set("deep", report.deep)
      .set("values", values_json(report))
      .set("servable", report.count(Severity::kError) == 0)
      .set("faults", faults_json(report));
}

}  // namespace nibble::cli
