#include "serve/faults.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace nibble::serve {
namespace {

constexpr double kNsPerMs = 1e6;

struct FaultKey {
  std::string_view name;
  double most;
  void (*set)(Faults&, double);
  double (*get)(const Faults&);
};

constexpr std::array kFaultKeys = {
    FaultKey{"step_stall_ms", 1000,
             [](Faults& faults, double ms) {
               faults.step_stall = static_cast<Nanoseconds>(ms * kNsPerMs);
             },
             [](const Faults& faults) { return milliseconds(faults.step_stall); }},
    FaultKey{"front_end_block_ms", 1000,
             [](Faults& faults, double ms) {
               faults.front_end_block = static_cast<Nanoseconds>(ms * kNsPerMs);
             },
             [](const Faults& faults) { return milliseconds(faults.front_end_block); }},
    // Logits lie within some tens: beyond a hundred more changes nothing.
    FaultKey{"router_bias", 100, [](Faults& faults, double bias) { faults.router_bias = bias; },
             [](const Faults& faults) { return faults.router_bias; }}};

std::string known_keys() {
  std::vector<std::string> names;
  for (const FaultKey& key : kFaultKeys) names.emplace_back(key.name);
  return join(names, ", ");
}

std::optional<double> fault_number(std::string_view text) {
  double value = 0;
  const auto [stop, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<> take_fault(std::string_view part, std::set<std::string_view>& taken, Faults& faults) {
  const std::size_t equals = part.find('=');
  const std::string_view name = part.substr(0, equals);
  for (const FaultKey& key : kFaultKeys) {
    if (key.name != name) continue;
    const std::string_view text =
        equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1);
    const std::optional<double> value = fault_number(text);
    if (!value || !(*value >= 0 && *value <= key.most)) {
      return usage_error("--inject {} is \"{}\"; give a number from 0 to {}", name, printable(text),
                         key.most);
    }
    if (!taken.insert(key.name).second) return usage_error("--inject {} is given twice", name);
    key.set(faults, *value);
    return {};
  }
  return usage_error("--inject knows no fault \"{}\"; give KEY=VALUE with one of {}",
                     printable(name), known_keys());
}

}  // namespace

Result<Faults> parse_faults(std::span<const std::string> words) {
  Faults faults;
  std::set<std::string_view> taken;
  for (const std::string& word : words) {
    for (const std::string& part : split(word, ',')) {
      NIBBLE_RETURN_IF_ERROR(take_fault(part, taken, faults));
    }
  }
  return faults;
}

Json to_json(const Faults& faults) {
  Json json = Json::object();
  for (const FaultKey& key : kFaultKeys) json.set(key.name, key.get(faults));
  return json;
}

std::string describe(const Faults& faults) {
  std::vector<std::string> parts;
  for (const FaultKey& key : kFaultKeys) {
    if (key.get(faults) > 0) parts.push_back(fmt::format("{}={}", key.name, key.get(faults)));
  }
  return join(parts, ", ");
}

}  // namespace nibble::serve
