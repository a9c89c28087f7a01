// Signals over time out of nibble.load/1.
#include <fmt/format.h>

#include "diagnose/read_load.h"

namespace nibble::diagnose {
namespace {

Result<Series> parse_series(const Json& json, const std::string& where) {
  ObjectReader reader(json, where);
  Series series{.name = reader.require_string("name"), .unit = "", .points = {}};
  series.unit = reader.string("unit").value_or("");
  const Json* points = reader.array("points");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  if (points == nullptr) return series;
  for (const Json& point : points->as_array()) {
    const bool pair = point.is_array() && point.as_array().size() == 2 &&
                      point.as_array()[0].is_number() && point.as_array()[1].is_number();
    if (!pair) return input_error("{}.points holds {}, not [time, number]", where, point.dump(0));
    series.points.emplace_back(point.as_array()[0].as_number(), point.as_array()[1].as_number());
  }
  return series;
}

}  // namespace

Result<> read_load_series(const Json* json, const std::string& where, Evidence& evidence) {
  if (json == nullptr) return {};
  ObjectReader reader(*json, where);
  const std::optional<std::int64_t> zero = reader.integer("t0_ns", {.min = 0, .max = 4e18});
  const std::optional<std::string> none = reader.string("telemetry_reason");
  const Json* list = reader.array("signals");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  if (zero) evidence.zero_ns = *zero;
  if (none) evidence.setting.notes.push_back(fmt::format("no signals over time: {}", *none));
  if (list == nullptr) return {};
  for (std::size_t index = 0; index < list->as_array().size(); ++index) {
    NIBBLE_ASSIGN_OR_RETURN(
        Series series,
        parse_series(list->as_array()[index], fmt::format("{}.signals[{}]", where, index)));
    evidence.series.push_back(std::move(series));
  }
  return {};
}

}  // namespace nibble::diagnose
