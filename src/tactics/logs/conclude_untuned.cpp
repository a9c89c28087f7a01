// What nobody tuned: shapes outside of the tuned range, Triton configurations that are missing.
#include <algorithm>
#include <fmt/core.h>

#include "tactics/logs/conclusion_parts.h"
#include "tactics/logs/conclusions.h"

namespace nibble::logs {
namespace {

bool is_triton(const Entry& entry) {
  return entry.runner == "Triton";
}

struct Untuned {
  const TacticLog* log = nullptr;
  const Entry* first = nullptr;
  std::set<std::string> shapes;
};

std::map<std::string, Untuned> group_untuned(const Scene& scene, bool triton) {
  std::map<std::string, Untuned> groups;
  for (const TacticLog& log : scene.logs) {
    for (const Entry& entry : log.entries) {
      const bool untuned =
          entry.status == Status::kDefault && entry.reason.kind == ReasonClass::kUntuned;
      if (!untuned || is_triton(entry) != triton) continue;
      Untuned& group =
          groups[triton ? entry.op + " " + entry.shape + " " + entry.device : subject_of(entry)];
      if (group.first == nullptr) {
        group.first = &entry;
        group.log = &log;
      }
      group.shapes.insert(entry.shape);
    }
  }
  return groups;
}

void add_fallbacks(const Scene& scene, std::vector<Finding>& findings) {
  for (const auto& [op, group] : group_untuned(scene, false)) {
    const std::string source = source_of(*group.log, *group.first);
    const auto shapes = static_cast<std::int64_t>(group.shapes.size());
    Finding finding{.id = "tactics.log.untuned." + id_part(op),
                    .title = "Outside of the tuned range",
                    .value = static_cast<double>(shapes),
                    .unit = "shapes"};
    finding.verdict = "untuned";
    finding.inputs = {{"shapes", static_cast<double>(shapes), "shapes", source}};
    const std::string rows =
        group.first->bucket
            ? fmt::format(", first {}", counted(*group.first->bucket, "row", "rows"))
            : "";
    finding.sentence =
        fmt::format("Untuned: {} of {} ran with the fallback, because no choice covers them{} ({})",
                    counted(shapes, "shape", "shapes"), op, rows, source);
    findings.push_back(std::move(finding));
  }
}

// SGLang's default for FP8 without scales of blocks, M > E, on GPUs of which it does not know that
// their blocks are small: 128x256x128, 4 stages (sgl-project/sglang, fused_moe_triton_config.py,
// get_default_config). Its bytes are those of the failures that people report (issue 28019).
constexpr TritonConfig kDefaultFp8{.batch = 0, .m = 128, .n = 256, .k = 128, .stages = 4};

bool log_shows(const Scene& scene, std::int64_t wanted) {
  return std::any_of(scene.logs.begin(), scene.logs.end(), [&](const TacticLog& log) {
    return std::any_of(log.entries.begin(), log.entries.end(), [&](const Entry& entry) {
      return is_triton(entry) && entry.reason.wanted_bytes == wanted;
    });
  });
}

// Why the default fails, of a log that shows that it does.
std::string why_default_fails(const Scene& scene) {
  const std::int64_t wanted = triton_shared_bytes(kDefaultFp8, 1);
  const std::int64_t limit = scene.limits.shared_per_block;
  if (wanted <= limit || !log_shows(scene, wanted)) return "";
  const std::int64_t stages = triton_most_stages(kDefaultFp8, 1, limit);
  TritonConfig fits = kDefaultFp8;
  fits.stages = stages;
  return fmt::format(
      "; the default of SGLang is 128x256x128 with 4 stages, and (4 - 1) x (128 + 256) x 128 x 1 B "
      "= {}, as the log's failure asks for, are more than the {} of a block of {}; {} take {}",
      bytes_text(wanted), bytes_text(limit), arch_name(scene.limits),
      counted(stages, "stage", "stages"), bytes_text(triton_shared_bytes(fits, 1)));
}

bool is_plain_fp8(const Entry& entry) {
  return entry.shape.find("dtype=fp8_w8a8") != std::string::npos &&
         entry.shape.find("block_shape") == std::string::npos;
}

void add_configs(const Scene& scene, std::vector<Finding>& findings) {
  const std::string of_fp8 = why_default_fails(scene);
  for (const auto& [key, group] : group_untuned(scene, true)) {
    const std::string source = source_of(*group.log, *group.first);
    Finding finding{.id = "tactics.log.untuned." + id_part(key),
                    .title = "No tuned configuration",
                    .value = 1,
                    .unit = "configurations"};
    finding.verdict = "untuned";
    finding.inputs = {{"missing", 1, "configurations", source}};
    const std::string& device = group.first->device;
    finding.sentence = fmt::format(
        "Untuned: no configuration of {} for {}{} was found ({}): the default serves, which was "
        "made "
        "for other chips{}",
        group.first->op, group.first->shape, device.empty() ? "" : " on " + device, source,
        is_plain_fp8(*group.first) ? of_fp8 : "");
    findings.push_back(std::move(finding));
  }
}

}  // namespace

void conclude_untuned(const Scene& scene, std::vector<Finding>& findings) {
  add_fallbacks(scene, findings);
  add_configs(scene, findings);
}

}  // namespace nibble::logs
