// nibble.load/1 as a whole: setting, levels, series, phases.
#include "diagnose/read_load.h"

#include <algorithm>
#include <fmt/format.h>

#include "diagnose/read_level.h"

namespace nibble::diagnose {
namespace {

// The first moment that any level of the document tells; 0: none does.
std::int64_t first_moment(const Json::Array& levels) {
  std::int64_t first = 0;
  for (const Json& level : levels) {
    for (const auto& [object, member] :
         {std::pair{"telemetry", "begin_ns"}, std::pair{"steady", "start_ns"}}) {
      const Json* part = level.find(object);
      const Json* moment = part == nullptr ? nullptr : part->find(member);
      if (moment == nullptr || !moment->is_integer() || moment->as_integer() <= 0) continue;
      first = first == 0 ? moment->as_integer() : std::min(first, moment->as_integer());
    }
  }
  return first;
}

void add_phases(Evidence& evidence) {
  evidence.phases.clear();
  for (const LevelEvidence& level : evidence.levels) {
    if (level.start_s == 0 && level.end_s == 0) continue;
    evidence.phases.push_back({level.name, {level.start_s, level.end_s}});
  }
  std::stable_sort(evidence.phases.begin(), evidence.phases.end(),
                   [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
}

}  // namespace

Result<> read_load(const Json& json, const ReadContext& context, Evidence& evidence) {
  if (!json.is_object()) {
    return input_error("{}: the document is {}, not an object", context.name, json.kind_name());
  }
  NIBBLE_RETURN_IF_ERROR(check_first_levels(context, evidence));
  ObjectReader reader(json, context.name);
  if (reader.string("schema").value_or("nibble.load/1") != "nibble.load/1") {
    reader.fault_at("schema", "is not nibble.load/1");
  }
  const std::optional<std::string> model = reader.string("model_id");
  const std::optional<std::string> date = reader.string("date");
  const std::optional<std::string> part = reader.string("incomplete_reason");
  const Json* setup = reader.object("setup");
  const Json* levels = reader.array("levels");
  const Json* series = reader.object("series");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  if (levels == nullptr || levels->as_array().empty()) {
    return input_error("{}: levels is empty: a load test of one level at least is needed",
                       context.name);
  }
  Setting& setting = evidence.setting;
  if (setting.model.empty()) setting.model = model.value_or("");
  if (setup != nullptr) NIBBLE_RETURN_IF_ERROR(read_load_setting(*setup, context, setting));
  if (part) setting.notes.push_back(fmt::format("{} is a part: {}", context.name, *part));
  if (evidence.zero_ns == 0) evidence.zero_ns = first_moment(levels->as_array());
  NIBBLE_RETURN_IF_ERROR(
      read_load_series(series, fmt::format("{}: series", context.name), evidence));
  for (std::size_t index = 0; index < levels->as_array().size(); ++index) {
    NIBBLE_RETURN_IF_ERROR(read_load_level(levels->as_array()[index],
                                           fmt::format("levels[{}]", index), context, evidence));
  }
  add_phases(evidence);
  add_source(evidence, "load test", context, date);
  return {};
}

}  // namespace nibble::diagnose
