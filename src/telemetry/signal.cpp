#include "telemetry/signal.h"

#include <cmath>

#include "base/text.h"

namespace nibble::telemetry {
namespace {

constexpr std::size_t kMaxText = 400;  // of a name, a unit or a reason from another host

bool printable_ascii(const std::string& text) {
  for (const char letter : text) {
    if (letter < 0x20 || letter > 0x7e) return false;
  }
  return true;
}

Json limit(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

}  // namespace

std::string_view owner_of(std::string_view name) {
  const std::size_t point = name.rfind('.');
  return point == std::string_view::npos ? std::string_view() : name.substr(0, point);
}

std::string_view quantity_of(std::string_view name) {
  const std::size_t point = name.rfind('.');
  return point == std::string_view::npos ? name : name.substr(point + 1);
}

Json signal_json(const Signal& signal) {
  Json json = Json::object()
                  .set("name", signal.name)
                  .set("unit", signal.unit)
                  .set("source", signal.source)
                  .set("kind", signal.kind == SignalKind::kCounter ? "counter" : "gauge")
                  .set("available", signal.available);
  if (!signal.available) json.set("reason", signal.reason);
  if (std::isfinite(signal.low)) json.set("low", limit(signal.low));
  if (std::isfinite(signal.high)) json.set("high", limit(signal.high));
  return json;
}

Result<Signal> parse_signal(const Json& json, const std::string& where) {
  if (!json.is_object()) return input_error("{}: a signal is {}", where, json.kind_name());
  ObjectReader reader(json, where);
  Signal signal;
  signal.name = reader.require_string("name");
  signal.unit = reader.string("unit").value_or("");
  signal.source = reader.string("source").value_or("");
  const std::string kind = reader.string("kind").value_or("gauge");
  if (kind != "gauge" && kind != "counter") {
    return input_error("{}: a signal is of the unknown kind \"{}\"", where, printable(kind));
  }
  signal.kind = kind == "counter" ? SignalKind::kCounter : SignalKind::kGauge;
  signal.available = reader.boolean("available").value_or(true);
  signal.reason = reader.string("reason").value_or("");
  signal.low = reader.number("low").value_or(signal.low);
  signal.high = reader.number("high").value_or(signal.high);
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  for (const std::string* text : {&signal.name, &signal.unit, &signal.source, &signal.reason}) {
    if (text->size() > kMaxText) return input_error("{}: a text of a signal is too long", where);
  }
  if (signal.name.empty() || !printable_ascii(signal.name) || !printable_ascii(signal.unit)) {
    return input_error("{}: a signal's name and unit must be printable ASCII", where);
  }
  return signal;
}

}  // namespace nibble::telemetry
