// The table of signals; facts that rest on it are in read_machine.cpp and read_engine.cpp.
#include "diagnose/read_signals.h"

#include <algorithm>
#include <fmt/format.h>

namespace nibble::diagnose {
namespace {

// "node7:9753/gpu0" -> "gpu0".
std::string_view device_of(std::string_view owner) {
  const std::size_t slash = owner.rfind('/');
  return slash == std::string_view::npos ? owner : owner.substr(slash + 1);
}

bool is_device(std::string_view device, std::string_view kind, bool number_needed) {
  if (!device.starts_with(kind)) return false;
  const std::string_view number = device.substr(kind.size());
  if (number.empty()) return !number_needed;
  return std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

Result<telemetry::SignalWindow> parse_signal_window(const Json& json, const std::string& where) {
  ObjectReader reader(json, where);
  telemetry::SignalWindow signal;
  signal.name = reader.require_string("name");
  signal.unit = reader.string("unit").value_or("");
  const std::optional<double> mean = reader.number("mean");
  const std::optional<double> middle = reader.number("p50");
  const std::optional<double> low = reader.number("min");
  const std::optional<double> high = reader.number("max");
  const std::optional<std::int64_t> n = reader.integer("n", {.min = 0});
  signal.difference = reader.number("difference");
  signal.rate = reader.number("per_s");
  signal.reason = reader.string("reason").value_or("");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  if (signal.difference) signal.kind = telemetry::SignalKind::kCounter;
  if (mean) {
    signal.aggregate = telemetry::Aggregate{.n = static_cast<std::size_t>(n.value_or(0)),
                                            .mean = *mean,
                                            .p50 = middle.value_or(*mean),
                                            .min = low.value_or(*mean),
                                            .max = high.value_or(*mean)};
  }
  return signal;
}

}  // namespace

SignalTable::SignalTable(std::vector<telemetry::SignalWindow> signals, telemetry::Window window)
    : window_(window) {
  for (telemetry::SignalWindow& signal : signals) {
    std::string name = signal.name;
    signals_.emplace(std::move(name), std::move(signal));
  }
}

Result<SignalTable> SignalTable::parse(const Json* telemetry, const std::string& where) {
  if (telemetry == nullptr || telemetry->is_null()) return SignalTable({}, {});
  ObjectReader reader(*telemetry, where);
  telemetry::Window window;
  window.begin = reader.integer("begin_ns", {.min = 0, .max = 4e18}).value_or(0);
  window.end = reader.integer("end_ns", {.min = 0, .max = 4e18}).value_or(0);
  const Json* list = reader.array("signals");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  std::vector<telemetry::SignalWindow> signals;
  if (list == nullptr) return SignalTable({}, window);
  for (std::size_t index = 0; index < list->as_array().size(); ++index) {
    NIBBLE_ASSIGN_OR_RETURN(
        telemetry::SignalWindow signal,
        parse_signal_window(list->as_array()[index], fmt::format("{}.signals[{}]", where, index)));
    signals.push_back(std::move(signal));
  }
  return SignalTable(std::move(signals), window);
}

const telemetry::SignalWindow* SignalTable::find(std::string_view name) const {
  const auto found = signals_.find(name);
  return found == signals_.end() ? nullptr : &found->second;
}

std::optional<telemetry::Aggregate> SignalTable::gauge(std::string_view name) const {
  const telemetry::SignalWindow* found = find(name);
  return found == nullptr ? std::nullopt : found->aggregate;
}

std::optional<double> SignalTable::mean(std::string_view name) const {
  const std::optional<telemetry::Aggregate> found = gauge(name);
  return found ? std::optional(found->mean) : std::nullopt;
}

std::optional<double> SignalTable::rise(std::string_view name) const {
  const telemetry::SignalWindow* found = find(name);
  return found == nullptr ? std::nullopt : found->difference;
}

std::string SignalTable::why_not(std::string_view name) const {
  const telemetry::SignalWindow* found = find(name);
  if (found == nullptr) {
    return empty() ? "no telemetry was recorded" : fmt::format("{} was not sampled", name);
  }
  return fmt::format("{}: {}", name, found->reason.empty() ? "no value" : found->reason);
}

std::vector<std::string> SignalTable::gpus() const {
  std::vector<std::string> here;
  std::vector<std::string> elsewhere;
  for (const auto& [name, signal] : signals_) {
    const std::string_view owner = telemetry::owner_of(name);
    if (!is_device(device_of(owner), "gpu", true)) continue;
    std::vector<std::string>& owners = owner.find('/') == std::string_view::npos ? here : elsewhere;
    if (std::find(owners.begin(), owners.end(), owner) == owners.end()) owners.emplace_back(owner);
  }
  return elsewhere.empty() ? here : elsewhere;
}

std::string SignalTable::why_no_gpu() const {
  const telemetry::SignalWindow* none = find("gpu.power");
  if (none != nullptr && !none->reason.empty()) return "no GPU: " + none->reason;
  return empty() ? "no telemetry was recorded" : "GPUs were not sampled";
}

std::vector<std::string> SignalTable::servers() const {
  std::vector<std::string> owners;
  for (const auto& [name, signal] : signals_) {
    const std::string_view owner = telemetry::owner_of(name);
    if (!is_device(owner, "server", false)) continue;
    if (std::find(owners.begin(), owners.end(), owner) == owners.end()) owners.emplace_back(owner);
  }
  return owners;
}

}  // namespace nibble::diagnose
