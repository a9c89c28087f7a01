#include <algorithm>
#include <cmath>
#include <string_view>
#include <system_error>

#include "base/file.h"
#include "base/text.h"
#include "drive/calibrate.h"
#include "machine/probe.h"
#include "machine/roof_cache.h"

namespace nibble::drive {
namespace {

constexpr std::string_view kSchema = "nibble.calibrations/1";
constexpr std::size_t kMostCacheBytes = std::size_t{1} << 20;
constexpr std::size_t kMostEntries = 256;
constexpr double kMostAge_s = 7 * 24 * 3600;
constexpr double kMostHarder = 2;  // in streams and in pace: beyond it says too little of the ask
constexpr double kSlack = 1e-9;    // relative, of numbers that went through text

// The entries of a file, oldest first, each an object. None where the file is broken.
Json::Array entries_of(const std::filesystem::path& path) {
  const Result<std::string> text = read_file(path, kMostCacheBytes);
  if (!text) return {};
  const Result<Json> json = Json::parse(*text, path.string());
  if (!json || !json->is_object()) return {};
  const Json* schema = json->find("schema");
  const Json* entries = json->find("entries");
  if (schema == nullptr || !(*schema == Json(kSchema))) return {};
  if (entries == nullptr || !entries->is_array()) return {};
  return entries->as_array();
}

// What must be the same for an error to hold here.
Json fingerprint() {
  const CpuStatus cpu = probe_cpu();
  return Json::object()
      .set("version", NIBBLE_VERSION)
      .set("cpu", cpu.title)
      .set("cores", cpu.cores);
}

std::optional<load::Calibration> read_entry(const Json& entry, const Json& machine,
                                            double now_unix_s) {
  const Json* of = entry.find("machine");
  const Json* json = entry.find("calibration");
  if (of == nullptr || json == nullptr || !json->is_object() || !(*of == machine)) {
    return std::nullopt;
  }
  Result<load::Calibration> found = load::parse_calibration(*json, "calibration");
  if (!found) return std::nullopt;
  const double age_s = now_unix_s - found->taken_unix_s;
  if (!(age_s >= 0 && age_s <= kMostAge_s)) return std::nullopt;
  found->age_s = age_s;
  found->cached = true;
  return std::move(*found);
}

bool serves(const load::Calibration& kept, const CalibrationPlan& plan) {
  const auto harder = [](double ratio) {
    return ratio >= 1 - kSlack && ratio < kMostHarder * (1 - kSlack);
  };
  return kept.itl_ms > 0 && harder(kept.concurrency / static_cast<double>(plan.users)) &&
         harder(plan.itl_ms / kept.itl_ms);
}

// Others of this machine for the same streams and pace are replaced, those that nobody can use any
// more are dropped.
bool is_superseded(const Json& entry, const Json& machine, const load::Calibration& fresh) {
  const Json* of = entry.find("machine");
  const Json* json = entry.find("calibration");
  if (of == nullptr || json == nullptr || !json->is_object()) return true;
  const Result<load::Calibration> kept = load::parse_calibration(*json, "calibration");
  if (!kept || std::abs(fresh.taken_unix_s - kept->taken_unix_s) > kMostAge_s) return true;
  return *of == machine && kept->concurrency == fresh.concurrency && kept->itl_ms == fresh.itl_ms;
}

}  // namespace

std::filesystem::path calibration_path() {
  return roof_cache_path().parent_path() / "calibrations.json";
}

std::optional<load::Calibration> find_calibration(const std::filesystem::path& path,
                                                  const CalibrationAsk& ask, double now_unix_s) {
  const CalibrationPlan plan = plan_calibration(ask);
  const Json::Array entries = entries_of(path);
  if (entries.empty()) return std::nullopt;
  const Json machine = fingerprint();
  std::optional<load::Calibration> best;  // the nearest to what is asked, the newest of equals
  for (const Json& entry : entries) {
    std::optional<load::Calibration> found = read_entry(entry, machine, now_unix_s);
    if (!found || !serves(*found, plan)) continue;
    const auto hardness = [](const load::Calibration& one) { return one.concurrency / one.itl_ms; };
    if (!best || hardness(*found) <= hardness(*best)) best = std::move(found);
  }
  return best;
}

Result<> keep_calibration(const std::filesystem::path& path, const load::Calibration& fresh) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) {
    return run_error("{} cannot be made: {}; set XDG_CACHE_HOME to a folder that can be written",
                     path.parent_path().string(), error.message());
  }
  const Json machine = fingerprint();
  Json::Array entries = entries_of(path);
  std::erase_if(entries, [&](const Json& entry) { return is_superseded(entry, machine, fresh); });
  if (entries.size() >= kMostEntries) {
    const auto surplus = static_cast<std::ptrdiff_t>(entries.size() - kMostEntries + 1);
    entries.erase(entries.begin(), entries.begin() + surplus);
  }
  entries.push_back(
      Json::object().set("machine", machine).set("calibration", load::to_json(fresh)));
  const Json file =
      Json::object().set("schema", kSchema).set("entries", Json::array(std::move(entries)));
  return write_file(path, file.dump() + "\n");
}

}  // namespace nibble::drive
