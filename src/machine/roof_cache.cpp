#include "machine/roof_cache.h"

#include <chrono>
#include <system_error>

#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "machine/fields.h"

namespace nibble {
namespace {

constexpr std::string_view kSchema = "nibble.roofs/1";
constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr double kMostAgeSeconds = 7 * 24 * 3600;
constexpr double kMostThreads = 65536;
constexpr double kMostClockMhz = 1e5;
constexpr double kMostSeconds = 1e12;
constexpr const char* kAgain = "nibble bench roof measures again";

Json roof_json(const CpuRoof& roof) {
  Json passes = Json::array();
  for (const double pass : roof.passes) passes.push(pass);
  return Json::object()
      .set("value", roof.value)
      .set("path", roof.path)
      .set("passes", std::move(passes));
}

CpuRoof read_roof(ObjectReader& parent, std::string_view key, const NumberRule& rule) {
  CpuRoof roof;
  const Json* json = parent.object(key);
  if (json == nullptr) {
    parent.fault_at(key, "is missing");
    return roof;
  }
  const NumberRange range{.min = rule.min, .max = rule.max};
  ObjectReader reader(*json, fmt::format("{}: {}", parent.where(), key));
  roof.value = reader.require_number("value", range);
  roof.path = reader.require_string("path");
  roof.passes = reader.numbers("passes", range).value_or(std::vector<double>());
  if (const Result<> finished = reader.finish(); !finished.ok()) parent.fault(finished.error());
  return roof;
}

CpuRoofs read_roofs(ObjectReader& reader) {
  CpuRoofs roofs;
  roofs.threads = static_cast<int>(reader.require_integer("threads", {1, kMostThreads}));
  roofs.buffer_bytes = reader.require_number("buffer_bytes", {.above = 0});
  roofs.read = read_roof(reader, "read_gb_s", rules::kBandwidth);
  const Json* rates = reader.object("tflops");
  if (rates == nullptr) {
    reader.fault_at("tflops", "is missing");
    return roofs;
  }
  ObjectReader rate_reader(*rates, reader.where() + ": tflops");
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kInt8}) {
    roofs.rates[precision] = read_roof(rate_reader, to_string(precision), rules::kPeak);
  }
  if (const Result<> finished = rate_reader.finish(); !finished.ok()) {
    reader.fault(finished.error());
  }
  return roofs;
}

RoofConditions read_conditions(ObjectReader& parent) {
  RoofConditions conditions;
  const Json* json = parent.object("conditions");
  if (json == nullptr) return conditions;
  ObjectReader reader(*json, parent.where() + ": conditions");
  conditions.load_average = reader.number("load_average", {.min = 0});
  conditions.clock_mhz = reader.number("clock_mhz", {.min = 0, .max = kMostClockMhz});
  conditions.busy_share = reader.number("busy_share", {.min = 0, .max = 1});
  if (const Result<> finished = reader.finish(); !finished.ok()) parent.fault(finished.error());
  return conditions;
}

// What must be the same for a roof to hold here. Threads are among it: a container with fewer
// processors than yesterday has another roof.
Json fingerprint(const CpuStatus& cpu) {
  Json isa = Json::array();
  for (const std::string& name : cpu.isa) isa.push(name);
  return Json::object().set("title", cpu.title).set("cores", cpu.cores).set("isa", std::move(isa));
}

struct CacheFile {
  Json machine;
  std::string version;
  KeptRoofs kept;
};

Result<CacheFile> parse_cache(const std::string& text, const std::string& where) {
  NIBBLE_ASSIGN_OR_RETURN(const Json json, Json::parse(text, where));
  ObjectReader reader(json, where);
  CacheFile file;
  if (reader.require_string("schema") != kSchema)
    reader.fault_at("schema", "is not nibble.roofs/1");
  file.version = reader.require_string("version");
  if (const Json* machine = reader.object("machine")) file.machine = *machine;
  file.kept.taken_unix_s = reader.require_number("taken_unix_s", {0, kMostSeconds});
  file.kept.conditions = read_conditions(reader);
  file.kept.roofs = read_roofs(reader);
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  return file;
}

std::string age_text(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kHour = 3600;
  constexpr double kDay = 24 * kHour;
  if (seconds < 2 * kMinute) return "just now";
  if (seconds < 2 * kHour) return fmt::format("{:.0f} min ago", seconds / kMinute);
  if (seconds < 2 * kDay) return fmt::format("{:.0f} h ago", seconds / kHour);
  return fmt::format("{:.0f} days ago", seconds / kDay);
}

// By the share of others where it is known; a load of half of the processors tells the same.
bool was_busy(const RoofConditions& conditions, int cores) {
  if (conditions.busy_share) return *conditions.busy_share > kBusyShare;
  return conditions.load_average.value_or(0) > 0.5 * cores;
}

std::string conditions_text(const RoofConditions& conditions, int cores) {
  std::string text;
  if (conditions.load_average) text += fmt::format(" at load {:.1f}", *conditions.load_average);
  if (conditions.clock_mhz) text += fmt::format(", {:.0f} MHz", *conditions.clock_mhz);
  if (conditions.busy_share) {
    text += fmt::format(", {} of the processor time taken by others",
                        format_percent(*conditions.busy_share));
  }
  if (was_busy(conditions, cores)) text += " (a busy machine: the roofs may be too low)";
  return text;
}

FoundRoofs none(std::string why) {
  return {.note = std::move(why) + "; nibble bench roof measures and keeps them"};
}

}  // namespace

std::filesystem::path roof_cache_path() {
  return cache_directory() / "roofs.json";
}

double unix_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

FoundRoofs find_roofs(const std::filesystem::path& path, const CpuStatus& cpu, double now_unix_s) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return none("no roofs of this machine are kept");
  const Result<std::string> text = read_file(path, kMostBytes);
  if (!text.ok()) return none("the kept roofs cannot be read: " + text.error().message);
  const Result<CacheFile> file = parse_cache(*text, path.string());
  if (!file.ok()) return none("the kept roofs are no use: " + file.error().message);
  if (!(file->machine == fingerprint(cpu))) {
    return none(fmt::format("the roofs kept in {} are of another machine", path.string()));
  }
  if (file->version != NIBBLE_VERSION) {
    return none("the kept roofs were measured by nibble " + printable(file->version));
  }
  const double age = now_unix_s - file->kept.taken_unix_s;
  if (age < 0 || age > kMostAgeSeconds) {
    return none(age < 0 ? std::string("the kept roofs are dated in the future")
                        : fmt::format("the kept roofs were measured {}", age_text(age)));
  }
  return {.roofs = file->kept,
          .note = fmt::format("measured {}{}; {}", age_text(age),
                              conditions_text(file->kept.conditions, cpu.cores), kAgain)};
}

std::string describe(const RoofConditions& conditions, int cores) {
  return conditions_text(conditions, cores);
}

std::string worse_than_kept(const std::filesystem::path& path, const CpuStatus& cpu,
                            const KeptRoofs& fresh) {
  if (!was_busy(fresh.conditions, cpu.cores)) return "";
  const FoundRoofs kept = find_roofs(path, cpu, fresh.taken_unix_s);
  const double share = fresh.conditions.busy_share.value_or(1);
  if (!kept.roofs || kept.roofs->conditions.busy_share.value_or(0) >= share) return "";
  return fmt::format(
      "the machine was busy ({} of the processor time taken by others), so the roofs kept before, "
      "measured under less load, remain",
      format_percent(share));
}

Result<> keep_roofs(const std::filesystem::path& path, const CpuStatus& cpu,
                    const KeptRoofs& kept) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) {
    return run_error("{} cannot be made: {}; set XDG_CACHE_HOME to a folder that can be written",
                     path.parent_path().string(), error.message());
  }
  Json json = to_json(kept.roofs);
  Json file = Json::object();
  file.set("schema", kSchema).set("version", NIBBLE_VERSION);
  file.set("machine", fingerprint(cpu)).set("taken_unix_s", kept.taken_unix_s);
  file.set("conditions", to_json(kept.conditions));
  for (const Json::Member& member : json.as_object()) file.set(member.first, member.second);
  return write_file(path, file.dump() + "\n");
}

Json to_json(const CpuRoofs& roofs) {
  Json rates = Json::object();
  for (const auto& [precision, roof] : roofs.rates) {
    rates.set(to_string(precision), roof_json(roof));
  }
  return Json::object()
      .set("threads", roofs.threads)
      .set("buffer_bytes", roofs.buffer_bytes)
      .set("read_gb_s", roof_json(roofs.read))
      .set("tflops", std::move(rates));
}

Json to_json(const RoofConditions& conditions) {
  return Json::object()
      .set("load_average", conditions.load_average)
      .set("clock_mhz", conditions.clock_mhz)
      .set("busy_share", conditions.busy_share);
}

}  // namespace nibble
