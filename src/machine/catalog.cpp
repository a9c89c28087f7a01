#include <algorithm>
#include <filesystem>

#include "base/embedded.h"
#include "base/file.h"
#include "base/text.h"
#include "machine/probe.h"
#include "machine/spec.h"

namespace nibble {
namespace embedded {
std::span<const EmbeddedFile> machines();
}

namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;  // a machine file has about 5 kB

std::vector<MachineSpec> parse_catalog() {
  std::vector<MachineSpec> machines;
  for (const EmbeddedFile& file : embedded::machines()) {
    const Result<Json> json = Json::parse(file.text, file.name);
    NIBBLE_CHECK(json.ok());
    Result<MachineSpec> machine = parse_machine(*json, file.name);
    NIBBLE_CHECK(machine.ok());
    machines.push_back(std::move(machine).value());
  }
  std::sort(machines.begin(), machines.end(),
            [](const MachineSpec& a, const MachineSpec& b) { return a.name < b.name; });
  return machines;
}

const std::vector<MachineSpec>& catalog() {
  static const std::vector<MachineSpec> machines = parse_catalog();
  return machines;
}

// "NVIDIA RTX_PRO 6000" and "rtx-pro-6000" are one name.
std::string canonical(std::string_view name) {
  std::string text = to_lower(trim(name));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == ' ' || c == '_'; }, '-');
  for (const std::string_view maker : {"nvidia-", "amd-"}) {
    if (text.starts_with(maker)) text.erase(0, maker.size());
  }
  return text;
}

bool is_called(const MachineSpec& machine, const std::string& canonical_name) {
  if (canonical(machine.name) == canonical_name || canonical(machine.title) == canonical_name) {
    return true;
  }
  return std::any_of(machine.aliases.begin(), machine.aliases.end(),
                     [&](const std::string& alias) { return canonical(alias) == canonical_name; });
}

bool looks_like_path(std::string_view text) {
  if (text.find('/') != std::string_view::npos || text.ends_with(".json")) return true;
  std::error_code ignored;
  return std::filesystem::is_regular_file(std::filesystem::path(text), ignored);
}

Result<MachineSpec> load_file(std::string_view path) {
  NIBBLE_ASSIGN_OR_RETURN(const std::string text,
                          read_file(std::filesystem::path(path), kMaxFileBytes));
  NIBBLE_ASSIGN_OR_RETURN(const Json json, Json::parse(text, path));
  return parse_machine(json, path);
}

}  // namespace

std::vector<MachineSpec> machine_catalog() {
  return catalog();
}

std::optional<MachineSpec> find_in_catalog(std::string_view name) {
  const std::string wanted = canonical(name);
  for (const MachineSpec& machine : catalog()) {
    if (is_called(machine, wanted)) return machine;
  }
  return std::nullopt;
}

std::vector<std::string> nearest_machines(std::string_view name) {
  std::vector<std::string> names;
  for (const MachineSpec& machine : catalog()) names.push_back(machine.name);
  return nearest_names(canonical(name), names);
}

Result<MachineSpec> load_machine(std::string_view name_or_path) {
  if (trim(name_or_path).empty()) {
    return usage_error("no machine is named; give a catalog name, a JSON file or \"this\"");
  }
  if (name_or_path == "this") return this_machine();
  if (std::optional<MachineSpec> machine = find_in_catalog(name_or_path)) return *machine;
  if (looks_like_path(name_or_path)) return load_file(name_or_path);
  const std::vector<std::string> near = nearest_machines(name_or_path);
  if (!near.empty()) {
    return usage_error("no machine is named \"{}\"; the nearest are: {}", name_or_path,
                       join(near, ", "));
  }
  std::vector<std::string> names;
  for (const MachineSpec& machine : catalog()) names.push_back(machine.name);
  return usage_error("no machine is named \"{}\"; give a JSON file, \"this\" or one of: {}",
                     name_or_path, join(names, ", "));
}

}  // namespace nibble
