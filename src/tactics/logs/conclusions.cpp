#include "tactics/logs/conclusions.h"

#include <algorithm>
#include <charconv>
#include <fmt/core.h>

#include "base/text.h"
#include "base/units.h"
#include "machine/spec.h"
#include "tactics/logs/conclusion_parts.h"

namespace nibble::logs {
namespace {

// "120f", "sm_121", "sm90": the capability's major number.
std::optional<int> major_of(std::string_view architecture) {
  const std::size_t digits = architecture.find_first_of("0123456789");
  if (digits == std::string_view::npos) return std::nullopt;
  int number = 0;
  const char* end = architecture.data() + architecture.size();
  if (std::from_chars(architecture.data() + digits, end, number).ec != std::errc()) {
    return std::nullopt;
  }
  return number / 10;
}

}  // namespace

std::vector<Finding> conclusions(std::span<const TacticLog> logs, const BlockLimits& limits,
                                 const AskedChip& asked) {
  const Scene scene{.logs = logs, .limits = limits, .asked = asked};
  std::vector<Finding> findings;
  conclude_failures(scene, findings);
  conclude_triton(scene, findings);
  conclude_choices(scene, findings);
  conclude_untuned(scene, findings);
  conclude_reading(scene, findings);
  for (Finding& finding : findings) {
    if (!finding.sentence.ends_with('.')) finding.sentence += '.';
  }
  return findings;
}

std::int64_t triton_shared_bytes(const TritonConfig& config, std::int64_t operand_bytes) {
  const std::int64_t buffers = std::max<std::int64_t>(config.stages - 1, 1);
  return buffers * (config.m + config.n) * config.k * operand_bytes;
}

std::int64_t triton_most_stages(const TritonConfig& config, std::int64_t operand_bytes,
                                std::int64_t limit) {
  const std::int64_t buffer = (config.m + config.n) * config.k * operand_bytes;
  if (buffer <= 0 || buffer > limit) return 0;
  return limit / buffer + 1;
}

std::optional<std::int64_t> operand_bytes_of(std::string_view dtype) {
  if (dtype == "fp8_w8a8" || dtype == "int8_w8a8") return 1;
  if (dtype.empty() || dtype == "float16" || dtype == "bfloat16") return 2;
  return std::nullopt;
}

std::string arch_name(const BlockLimits& limits) {
  return fmt::format("sm_{}{}", limits.major, limits.minor);
}

std::string bytes_text(std::int64_t bytes) {
  const auto number = static_cast<double>(bytes);
  return number < kMega ? format_count(number) + " B" : format_bytes(number);
}

std::string device_of(const TacticLog& log) {
  const bool cache = log.format.find("cache") != std::string::npos;
  return cache && log.devices.size() == 1 ? log.devices.front() : std::string();
}

bool is_other_chip(const TacticLog& log, const Scene& scene) {
  const auto found = log.versions.find("architecture");
  std::optional<int> major;
  if (found != log.versions.end()) {
    major = major_of(found->second);
  } else if (const std::string device = device_of(log); scene.asked.named && !device.empty()) {
    const std::optional<MachineSpec> machine = find_in_catalog(device);
    if (machine) major = major_of(machine->arch);
  }
  return major && *major != scene.limits.major;
}

bool is_other_gpu(const TacticLog& log, const Scene& scene) {
  const std::string device = device_of(log);
  const std::string& asked = scene.asked.machine;
  if (device.empty() || asked.empty() || to_lower(device) == to_lower(asked)) return false;
  const std::optional<MachineSpec> theirs = find_in_catalog(device);
  const std::optional<MachineSpec> ours = find_in_catalog(asked);
  return !theirs || !ours || theirs->name != ours->name;
}

std::string source_of(const TacticLog& log, const Entry& entry) {
  return entry.line > 0 ? fmt::format("{}:{}", log.name, entry.line) : log.name;
}

std::string subject_of(const Entry& entry) {
  if (!entry.op.empty()) return entry.op;
  return entry.runner.empty() ? "a kernel" : entry.runner;
}

std::string counted(std::int64_t number, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", format_count(static_cast<double>(number)), number == 1 ? one : many);
}

std::string id_part(std::string_view text) {
  std::string part;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (letter) {
      part += c;
    } else if (c >= 'A' && c <= 'Z') {
      part += static_cast<char>(c - 'A' + 'a');
    } else if (!part.empty() && part.back() != '_') {
      part += '_';
    }
  }
  while (part.ends_with('_')) part.pop_back();
  return part.empty() ? "unnamed" : part;
}

}  // namespace nibble::logs
