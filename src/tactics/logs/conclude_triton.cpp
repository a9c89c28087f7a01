// Configurations of a Triton file, against the block of the chip asked for.
#include <fmt/core.h>

#include "tactics/logs/conclusion_parts.h"
#include "tactics/logs/conclusions.h"

namespace nibble::logs {
namespace {

void add_unfit(const Scene& scene, const TacticLog& log, std::int64_t bytes,
               std::vector<Finding>& findings) {
  const std::int64_t limit = scene.limits.shared_per_block;
  const TritonConfig* worst = nullptr;
  std::int64_t unfit = 0;
  std::int64_t known = 0;
  for (const TritonConfig& config : log.configs) {
    if (config.stages == 0) continue;  // Triton's own default, which depends on its release
    ++known;
    if (triton_shared_bytes(config, bytes) <= limit) continue;
    ++unfit;
    if (worst == nullptr ||
        triton_shared_bytes(config, bytes) > triton_shared_bytes(*worst, bytes)) {
      worst = &config;
    }
  }
  Finding finding{.id = "tactics.log.triton." + id_part(log.name),
                  .title = "Triton configurations",
                  .value = static_cast<double>(unfit),
                  .unit = "configurations"};
  finding.formula = "max(stages - 1, 1) * (M + N) * K * bytes > limit";
  finding.verdict = unfit > 0 ? "does_not_fit" : "fits";
  finding.confidence = Confidence::kLikely;
  finding.assumptions = {
      "Triton keeps stages - 1 buffers of both operands, and nothing else of size"};
  finding.inputs = {{"configurations", static_cast<double>(known), "configurations", log.name},
                    {"bytes", static_cast<double>(bytes), "B", "data type in the file's name"},
                    {"limit", static_cast<double>(limit), "B", arch_name(scene.limits)}};
  const std::string whose = log.devices.empty() ? "" : " for " + log.devices.front();
  if (worst == nullptr) {
    finding.sentence = fmt::format("All {}{} fit into the {} of a block of {}",
                                   counted(known, "configuration", "configurations"), whose,
                                   bytes_text(limit), arch_name(scene.limits));
    findings.push_back(std::move(finding));
    return;
  }
  const std::int64_t wanted = triton_shared_bytes(*worst, bytes);
  const std::int64_t stages = triton_most_stages(*worst, bytes, limit);
  const std::string what_fits =
      stages > 0
          ? fmt::format("{} fit{}", counted(stages, "stage", "stages"), stages == 1 ? "s" : "")
          : std::string("not even one buffer fits");
  finding.inputs.push_back({"wanted", static_cast<double>(wanted), "B", log.name});
  finding.sentence = fmt::format(
      "{} of {}{} {} not fit a block of {}: {}x{}x{} with {} at batch {} takes {} x ({} + {}) x {} "
      "x {} B = {} of {}; {}",
      unfit, counted(known, "configuration", "configurations"), whose, known == 1 ? "does" : "do",
      arch_name(scene.limits), worst->m, worst->n, worst->k,
      counted(worst->stages, "stage", "stages"), worst->batch,
      worst->stages > 1 ? fmt::format("({} - 1)", worst->stages) : "1", worst->m, worst->n,
      worst->k, bytes, bytes_text(wanted), bytes_text(limit), what_fits);
  findings.push_back(std::move(finding));
}

}  // namespace

void conclude_triton(const Scene& scene, std::vector<Finding>& findings) {
  for (const TacticLog& log : scene.logs) {
    if (log.configs.empty()) continue;
    const std::optional<std::int64_t> bytes = operand_bytes_of(log.dtype);
    if (bytes) {
      add_unfit(scene, log, *bytes, findings);
      continue;
    }
    Finding finding{.id = "tactics.log.triton." + id_part(log.name),
                    .title = "Triton configurations"};
    finding.missing = "its operands differ in size (" + log.dtype + ")";
    finding.sentence = fmt::format(
        "Whether the {} of {} fit is not told: the operands of {} differ in size, and Triton's "
        "memory for them is not known here",
        counted(static_cast<std::int64_t>(log.configs.size()), "configuration", "configurations"),
        log.name, log.dtype);
    findings.push_back(std::move(finding));
  }
}

}  // namespace nibble::logs
