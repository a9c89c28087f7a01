#include "machine/gpu_roofs.h"

#include <algorithm>
#include <system_error>

#include "base/file.h"
#include "base/text.h"
#include "base/units.h"

namespace nibble {
namespace {

constexpr std::string_view kGpuSchema = "nibble.gpu_roofs/1";
constexpr std::size_t kMostFileBytes = std::size_t{1} << 22;
constexpr double kMostRoof = 1e9;
constexpr double kOldSeconds = 7 * 24 * 3600;
constexpr const char* kGpuAgain = "nibble bench roof --on cuda:0 measures again";

Json texts_json(const std::vector<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) list.push(text);
  return list;
}

Json gpu_roof_json(const GpuRoof& roof) {
  Json passes = Json::array();
  for (const double pass : roof.passes) passes.push(pass);
  return Json::object()
      .set("value", roof.reason.empty() ? Json(roof.value) : Json())
      .set("path", roof.path)
      .set("passes", std::move(passes))
      .set("reason", roof.reason.empty() ? Json() : Json(roof.reason))
      .set("conditions", to_json(roof.conditions));
}

GpuConditions read_gpu_conditions(const Json* json, ObjectReader& parent) {
  if (json == nullptr) return {};
  const Result<GpuConditions> read = parse_gpu_conditions(*json, parent.where() + ": conditions");
  if (read.ok()) return *read;
  parent.fault(read.error());
  return {};
}

GpuRoof read_gpu_roof(const Json& json, const std::string& where, ObjectReader& parent) {
  ObjectReader reader(json, where);
  GpuRoof roof;
  const auto value = reader.number("value", {.max = kMostRoof, .above = 0});
  roof.path = reader.string("path").value_or("");
  roof.passes = reader.numbers("passes", {.min = 0}).value_or(std::vector<double>());
  roof.reason = reader.string("reason").value_or("");
  roof.conditions = read_gpu_conditions(reader.object("conditions"), reader);
  if (!value && roof.reason.empty()) reader.fault_at("value", "is missing, and so is a reason");
  roof.value = value.value_or(0);
  if (const Result<> finished = reader.finish_lenient(); !finished.ok()) {
    parent.fault(finished.error());
  }
  return roof;
}

struct GpuRoofFile {
  std::string version;
  std::vector<GpuRoofs> gpus;
};

Result<GpuRoofFile> parse_gpu_file(const std::string& text, const std::string& where) {
  NIBBLE_ASSIGN_OR_RETURN(const Json json, Json::parse(text, where));
  ObjectReader reader(json, where);
  if (reader.require_string("schema") != kGpuSchema) {
    reader.fault_at("schema", fmt::format("is not {}", kGpuSchema));
  }
  GpuRoofFile file{.version = reader.require_string("version")};
  const Json* gpus = reader.array("gpus");
  if (gpus == nullptr) reader.fault_at("gpus", "is missing");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  for (const Json& item : gpus->as_array()) {
    NIBBLE_ASSIGN_OR_RETURN(
        GpuRoofs gpu, parse_gpu_roofs(item, fmt::format("{}: gpus[{}]", where, file.gpus.size())));
    file.gpus.push_back(std::move(gpu));
  }
  return file;
}

Result<GpuRoofFile> read_gpu_file(const std::filesystem::path& path) {
  NIBBLE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMostFileBytes));
  return parse_gpu_file(text, path.string());
}

std::string gpu_age(double seconds) {
  constexpr double kHourSeconds = 3600;
  if (seconds < 2 * kHourSeconds) return fmt::format("{:.0f} min ago", seconds / 60);
  if (seconds < 48 * kHourSeconds) return fmt::format("{:.0f} h ago", seconds / kHourSeconds);
  return fmt::format("{:.0f} days ago", seconds / (24 * kHourSeconds));
}

FoundGpuRoofs no_gpu_roofs(std::string why) {
  return {.note = std::move(why) + "; nibble bench roof --on cuda:0 measures and keeps them"};
}

}  // namespace

Result<GpuConditions> parse_gpu_conditions(const Json& json, const std::string& where) {
  ObjectReader reader(json, where);
  GpuConditions conditions;
  conditions.clock_mhz = reader.number("clock_mhz", {.min = 0, .max = 1e5});
  conditions.power_w = reader.number("power_w", {.min = 0, .max = 1e5});
  conditions.temperature_c = reader.number("temperature_c", {.min = -300, .max = 1000});
  conditions.samples =
      static_cast<int>(reader.integer("samples", {.min = 0, .max = 1e9}).value_or(0));
  conditions.reason = reader.string("reason").value_or("");
  if (const Json* names = reader.array("throttled")) {
    for (const Json& name : names->as_array()) {
      if (name.is_string()) conditions.throttled.push_back(name.as_string());
    }
  }
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  return conditions;
}

Result<GpuRoofs> parse_gpu_roofs(const Json& json, const std::string& where) {
  ObjectReader reader(json, where);
  GpuRoofs gpu;
  gpu.title = reader.require_string("title");
  gpu.arch = reader.require_string("arch");
  gpu.uuid = reader.string("uuid").value_or("");
  gpu.driver = reader.string("driver").value_or("");
  gpu.sms = static_cast<int>(reader.require_integer("sms", {.min = 1, .max = 1e5}));
  gpu.memory_bytes = reader.require_number("memory_bytes", {.min = 0, .max = 1e15});
  gpu.l2_bytes = reader.require_number("l2_bytes", {.min = 0, .max = 1e12});
  gpu.taken_unix_s = reader.require_number("taken_unix_s", {.min = 0, .max = 1e12});
  if (const Json* roofs = reader.object("roofs")) {
    for (const auto& [key, value] : roofs->as_object()) {
      gpu.roofs[key] =
          read_gpu_roof(value, fmt::format("{}: roofs: {}", where, printable(key)), reader);
    }
  }
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  return gpu;
}

std::optional<double> GpuRoofs::value(std::string_view key) const {
  const auto found = roofs.find(key);
  if (found == roofs.end() || !found->second.reason.empty()) return std::nullopt;
  return found->second.value;
}

std::filesystem::path gpu_roof_cache_path() {
  return cache_directory() / "gpu_roofs.json";
}

Result<> keep_gpu_roofs(const std::filesystem::path& path, const GpuRoofs& roofs) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) {
    return run_error("{} cannot be made: {}; set XDG_CACHE_HOME to a folder that can be written",
                     path.parent_path().string(), error.message());
  }
  Json gpus = Json::array();
  // What cannot be read is no loss: it is measured again.
  if (const Result<GpuRoofFile> before = read_gpu_file(path); before.ok()) {
    for (const GpuRoofs& other : before->gpus) {
      if (other.title != roofs.title || other.uuid != roofs.uuid) gpus.push(to_json(other));
    }
  }
  gpus.push(to_json(roofs));
  const Json file = Json::object()
                        .set("schema", kGpuSchema)
                        .set("version", NIBBLE_VERSION)
                        .set("gpus", std::move(gpus));
  return write_file(path, file.dump() + "\n");
}

FoundGpuRoofs find_gpu_roofs(const std::filesystem::path& path, std::string_view title,
                             double now_unix_s) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return no_gpu_roofs("no roofs of this GPU are kept");
  const Result<GpuRoofFile> file = read_gpu_file(path);
  if (!file.ok()) return no_gpu_roofs("the kept roofs are no use: " + file.error().message);
  if (file->version != NIBBLE_VERSION) {
    return no_gpu_roofs("the kept roofs were measured by nibble " + printable(file->version));
  }
  const GpuRoofs* newest = nullptr;
  for (const GpuRoofs& gpu : file->gpus) {
    if (gpu.title != title) continue;
    if (newest == nullptr || gpu.taken_unix_s > newest->taken_unix_s) newest = &gpu;
  }
  if (newest == nullptr) {
    return no_gpu_roofs(fmt::format("no roofs of a {} are kept", printable(title)));
  }
  const double age = now_unix_s - newest->taken_unix_s;
  if (age < 0) return no_gpu_roofs("the kept roofs are dated in the future");
  if (age > kOldSeconds) return no_gpu_roofs("the kept roofs were measured " + gpu_age(age));
  std::string clock;
  if (const auto read = newest->roofs.find("read_gb_s"); read != newest->roofs.end()) {
    const std::optional<double>& mhz = read->second.conditions.clock_mhz;
    if (mhz.has_value()) clock = fmt::format(" at {:.0f} MHz", *mhz);
  }
  return {.roofs = *newest,
          .note = fmt::format("measured {}{}; {}", gpu_age(age), clock, kGpuAgain)};
}

void apply_gpu_roofs(const FoundGpuRoofs& found, MachineSpec& machine) {
  if (!found.roofs) return;
  const std::string source = "nibble bench roof, " + found.note;
  const auto measured = [&](std::string_view key) -> std::optional<Sourced> {
    const std::optional<double> value = found.roofs->value(key);
    if (!value) return std::nullopt;
    return Sourced{*value, Provenance::kMeasured, source};
  };
  if (const auto read = measured("read_gb_s")) machine.bandwidth_gb_s = *read;
  if (const auto gap = measured("graph_gap_us")) machine.launch_gap_us = *gap;
  for (const auto& [key, precision] :
       {std::pair<const char*, Precision>{"bf16_tflops", Precision::kBf16},
        {"fp8_tflops", Precision::kFp8}}) {
    const auto rate = measured(key);
    const auto peak = machine.peaks.find(precision);
    if (rate && peak != machine.peaks.end()) peak->second.dense_tflops = *rate;
  }
  machine.notes.push_back("bandwidth and sustained matrix rates " + found.note);
}

std::vector<std::string> throttle_names(unsigned long long mask) {
  // nvmlClocksEventReasons of nvml.h. Not counted: 0x1 idle, 0x2 clocks set by the user.
  constexpr std::pair<unsigned long long, const char*> kReasons[] = {
      {0x4, "power cap"},         {0x8, "hardware slowdown"}, {0x10, "sync boost"},
      {0x20, "software thermal"}, {0x40, "hardware thermal"}, {0x80, "power brake"},
      {0x100, "display clocks"},
  };
  std::vector<std::string> names;
  for (const auto& [bit, name] : kReasons) {
    if ((mask & bit) != 0) names.emplace_back(name);
  }
  return names;
}

Json to_json(const GpuConditions& conditions) {
  return Json::object()
      .set("clock_mhz", conditions.clock_mhz)
      .set("power_w", conditions.power_w)
      .set("temperature_c", conditions.temperature_c)
      .set("throttled", texts_json(conditions.throttled))
      .set("samples", conditions.samples)
      .set("reason", conditions.reason.empty() ? Json() : Json(conditions.reason));
}

Json to_json(const GpuRoofs& roofs) {
  Json list = Json::object();
  for (const auto& [key, roof] : roofs.roofs) list.set(key, gpu_roof_json(roof));
  return Json::object()
      .set("title", roofs.title)
      .set("arch", roofs.arch)
      .set("uuid", roofs.uuid)
      .set("driver", roofs.driver)
      .set("sms", roofs.sms)
      .set("memory_bytes", roofs.memory_bytes)
      .set("l2_bytes", roofs.l2_bytes)
      .set("taken_unix_s", roofs.taken_unix_s)
      .set("roofs", std::move(list));
}

}  // namespace nibble
