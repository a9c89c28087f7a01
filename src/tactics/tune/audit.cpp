#include "tactics/tune/audit.h"

#include <algorithm>

#include "tactics/tune/table.h"

namespace nibble::tune {

Audit audit_tuning(const TuningFile& file, const std::vector<TuningKey>& needed) {
  Audit audit;
  for (const TuningEntry& entry : file.entries) {
    const bool is_needed =
        needed.empty() || std::any_of(needed.begin(), needed.end(), [&](const TuningKey& key) {
          return entry.key.shape == key.shape && entry.key.holds(key.tokens);
        });
    audit.lines.push_back({&entry, is_needed});
    if (!is_needed) continue;
    ++audit.needed;
    if (!entry.choice) {
      ++audit.without_choice;
      continue;
    }
    if (*entry.choice == entry.fallback) ++audit.kept_defaults;
    audit.largest_regret = std::max(audit.largest_regret, entry.regret);
  }
  TuningTable table(file, "", file.site);
  for (const TuningKey& key : needed) {
    const Found found = table.find(key.shape, key.tokens);
    if (!found.tactic) audit.missing.push_back({key, found.reason});
  }
  return audit;
}

Json to_json(const Audit& audit) {
  Json lines = Json::array();
  for (const AuditLine& line : audit.lines) {
    Json json = to_json(*line.entry);
    lines.push(json.set("needed", line.needed));
  }
  Json missing = Json::array();
  for (const MissingKey& one : audit.missing) {
    missing.push(Json::object().set("key", to_json(one.key)).set("why", one.why));
  }
  return Json::object()
      .set("entries", std::move(lines))
      .set("missing", std::move(missing))
      .set("needed", static_cast<std::int64_t>(audit.needed))
      .set("kept_defaults", static_cast<std::int64_t>(audit.kept_defaults))
      .set("without_choice", static_cast<std::int64_t>(audit.without_choice))
      .set("largest_regret", audit.largest_regret);
}

}  // namespace nibble::tune
