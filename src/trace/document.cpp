// TraceSummary as the document nibble.trace/1, both ways (docs/schemas/nibble.trace.1.json).
#include <algorithm>

#include "base/text.h"
#include "trace/trace.h"

namespace nibble::trace {
namespace {

constexpr std::string_view kTraceSchema = "nibble.trace/1";
constexpr NumberRange kNotNegative{.min = 0, .max = 1e15};

Json text_array(const std::vector<std::string>& texts) {
  Json array = Json::array();
  for (const std::string& text : texts) array.push(text);
  return array;
}

std::vector<std::string> read_texts(ObjectReader& reader, std::string_view key) {
  std::vector<std::string> texts;
  const Json* array = reader.array(key);
  if (array == nullptr) return texts;
  for (const Json& item : array->as_array()) {
    if (!item.is_string()) {
      reader.fault_at(key, "must hold texts");
      return {};
    }
    texts.push_back(item.as_string());
  }
  return texts;
}

Json op_json(const OpTime& op) {
  Json kernels = Json::array();
  for (const KernelTime& kernel : op.kernels) {
    kernels.push(Json::object({{"name", kernel.name}, {"count", kernel.count}, {"ms", kernel.ms}}));
  }
  return Json::object({{"op", op.op},
                       {"covers", text_array(op.covers)},
                       {"count", op.count},
                       {"ms", op.ms},
                       {"kernels", std::move(kernels)}});
}

Result<OpTime> read_op(const Json& json, const std::string& where) {
  ObjectReader reader(json, where);
  OpTime op{.op = reader.require_string("op"),
            .covers = read_texts(reader, "covers"),
            .count = reader.require_number("count", kNotNegative),
            .ms = reader.require_number("ms", kNotNegative)};
  const Json* kernels = reader.array("kernels");
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  for (std::size_t index = 0; kernels != nullptr && index < kernels->as_array().size(); ++index) {
    ObjectReader kernel(kernels->as_array()[index], fmt::format("{}.kernels[{}]", where, index));
    op.kernels.push_back({.name = kernel.require_string("name"),
                          .count = kernel.require_number("count", kNotNegative),
                          .ms = kernel.require_number("ms", kNotNegative)});
    NIBBLE_RETURN_IF_ERROR(kernel.finish());
  }
  return op;
}

}  // namespace

Json to_json(const TraceSummary& summary) {
  Json ops = Json::array();
  for (const OpTime& op : summary.ops) ops.push(op_json(op));
  return Json::object({{"schema", kTraceSchema},
                       {"source", summary.source},
                       {"kind", summary.kind},
                       {"engine", summary.engine},
                       {"device", summary.device},
                       {"steps", summary.steps},
                       {"steps_by", summary.steps_by},
                       {"step_ms", summary.step_ms},
                       {"busy_ms", summary.busy_ms},
                       {"ops", std::move(ops)},
                       {"notes", text_array(summary.notes)}});
}

Result<TraceSummary> parse_trace(const Json& json, std::string_view where) {
  if (!json.is_object())
    return input_error("{} is {}; it must be a {} document", where, json.kind_name(), kTraceSchema);
  ObjectReader reader(json, std::string(where));
  if (reader.require_string("schema") != kTraceSchema)
    reader.fault_at("schema", fmt::format("must be \"{}\"", kTraceSchema));
  TraceSummary summary{.source = reader.require_string("source"),
                       .kind = reader.require_string("kind"),
                       .engine = reader.string("engine").value_or(""),
                       .device = reader.string("device").value_or(""),
                       .steps = reader.require_number("steps", {.min = 1, .max = 1e9}),
                       .steps_by = reader.require_string("steps_by"),
                       .step_ms = reader.require_number("step_ms", kNotNegative),
                       .busy_ms = reader.require_number("busy_ms", kNotNegative)};
  constexpr double kRounding = 1 + 1e-9;
  if (summary.kind != "chrome" && summary.kind != "nsys")
    reader.fault_at("kind", "must be \"chrome\" or \"nsys\"");
  if (summary.busy_ms > summary.step_ms * kRounding)
    reader.fault_at("busy_ms", "must not exceed step_ms");
  summary.notes = read_texts(reader, "notes");
  const Json* ops = reader.array("ops");
  if (ops == nullptr) reader.fault_at("ops", "is missing");
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  for (std::size_t index = 0; index < ops->as_array().size(); ++index) {
    NIBBLE_ASSIGN_OR_RETURN(
        OpTime op, read_op(ops->as_array()[index], fmt::format("{}: ops[{}]", where, index)));
    summary.ops.push_back(std::move(op));
  }
  return summary;
}

}  // namespace nibble::trace
