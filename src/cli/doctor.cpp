#include "cli/doctor.h"

#include <fmt/core.h>

#include "base/json_parts.h"
#include "base/table.h"
#include "base/text.h"
#include "base/units.h"

namespace nibble::cli {
namespace {

// What is missing, and what it would give: told below the table, where sentences have room.
struct Absence {
  std::string name;
  std::string gives;
  std::string reason;
};

constexpr const char* kGpuGives =
    "the machine's own roofs, power and clocks in place of a catalog's or a CPU's";
constexpr const char* kCompilerGives =
    "nothing that NVRTC does not: device code is compiled with NVRTC";

std::string gpu_detail(const GpuStatus& gpu) {
  std::vector<std::string> parts;
  if (!gpu.arch.empty()) parts.push_back(gpu.arch);
  if (gpu.memory_gb > 0) parts.push_back(format_bytes(gpu.memory_gb * kGiga));
  if (gpu.power_limit_w) parts.push_back(format_number(*gpu.power_limit_w) + " W");
  if (gpu.max_sm_mhz) parts.push_back(format_number(*gpu.max_sm_mhz) + " MHz");
  if (!gpu.pcie.empty()) parts.push_back("PCIe " + gpu.pcie);
  parts.push_back(gpu.gpm ? "GPM counters" : "no GPM counters");
  parts.push_back(gpu.catalog_name.empty() ? "not in the catalog" : "catalog: " + gpu.catalog_name);
  return join(parts, ", ");
}

void add_gpus(const Probe& probe, Table& table, std::vector<Absence>& absences) {
  for (const GpuStatus& gpu : probe.gpus) {
    const std::string name = fmt::format("GPU {}", gpu.index);
    table.row({name, Cell(gpu.title, Emphasis::kGood), gpu_detail(gpu)});
    for (const std::string& reading : gpu.missing) {
      absences.push_back({name, "a reading that this GPU does not give", reading});
    }
  }
  if (probe.gpus.empty()) {
    table.row({"GPU", Cell("none", Emphasis::kWarning), ""});
    absences.push_back({"GPU", kGpuGives, probe.no_gpu_reason});
  }
  table.row({"driver",
             probe.driver_version.empty() ? Cell("none", Emphasis::kWarning)
                                          : Cell(probe.driver_version, Emphasis::kGood),
             ""});
}

void add_libraries(const Probe& probe, Table& table, std::vector<Absence>& absences) {
  for (const LibraryStatus& library : probe.libraries) {
    if (!library.found()) {
      table.row({library.name, Cell("missing", Emphasis::kWarning), ""});
      absences.push_back({library.name, library.gives, library.reason});
    } else if (!library.reason.empty()) {
      table.row({library.name, Cell("does not work", Emphasis::kBad), library.path});
      absences.push_back({library.name, library.gives, library.reason});
    } else {
      const std::string version = library.version.empty() ? "found" : library.version;
      table.row({library.name, Cell(version, Emphasis::kGood), library.path});
    }
  }
  if (probe.compiler.empty()) {
    table.row({"compiler", Cell("no nvcc", Emphasis::kFaint), ""});
    absences.push_back({"nvcc", kCompilerGives, ""});
  } else {
    table.row({"compiler", Cell("found", Emphasis::kGood), probe.compiler});
  }
}

void add_cpu(const CpuStatus& cpu, Table& table) {
  std::vector<std::string> parts = {fmt::format("{} core{}", cpu.cores, cpu.cores == 1 ? "" : "s"),
                                    format_bytes(cpu.memory_gb * kGiga) + " memory"};
  if (cpu.last_level_cache_mb) {
    parts.push_back(format_bytes(*cpu.last_level_cache_mb * kMega) + " last-level cache");
  }
  if (!cpu.isa.empty()) parts.push_back(join(cpu.isa, " "));
  // The name is as long as its maker likes: where text is broken, and not in a column of words.
  table.row({"CPU", Cell("found", Emphasis::kGood), cpu.title + ", " + join(parts, ", ")});
}

void add_permissions(const Probe& probe, Table& table) {
  for (const PermissionStatus& permission : probe.permissions) {
    table.row({permission.name,
               permission.allowed ? Cell("allowed", Emphasis::kGood)
                                  : Cell("not allowed", Emphasis::kWarning),
               permission.detail});
  }
}

Json gpu_json(const GpuStatus& gpu) {
  return Json::object()
      .set("index", gpu.index)
      .set("title", text_or_null(gpu.title))
      .set("catalog_name", text_or_null(gpu.catalog_name))
      .set("arch", text_or_null(gpu.arch))
      .set("memory_gb", gpu.memory_gb > 0 ? Json(gpu.memory_gb) : Json())
      .set("power_limit_w", gpu.power_limit_w)
      .set("max_sm_mhz", gpu.max_sm_mhz)
      .set("pcie", text_or_null(gpu.pcie))
      .set("gpm", gpu.gpm)
      .set("missing", string_list(gpu.missing));
}

Json library_json(const LibraryStatus& library) {
  return Json::object()
      .set("name", library.name)
      .set("found", library.found())
      .set("version", text_or_null(library.version))
      .set("path", text_or_null(library.path))
      .set("reason", text_or_null(library.reason))
      .set("gives", library.gives);
}

Json cpu_json(const CpuStatus& cpu) {
  return Json::object()
      .set("title", cpu.title)
      .set("cores", cpu.cores)
      .set("memory_gb", cpu.memory_gb > 0 ? Json(cpu.memory_gb) : Json())
      .set("last_level_cache_mb", cpu.last_level_cache_mb)
      .set("isa", string_list(cpu.isa));
}

}  // namespace

std::string doctor_text(const Probe& probe, const Style& style) {
  Table table({{"part"}, {"state"}, {"detail"}});
  std::vector<Absence> absences;
  add_gpus(probe, table, absences);
  table.rule();
  add_libraries(probe, table, absences);
  table.rule();
  add_cpu(probe.cpu, table);
  table.rule();
  add_permissions(probe, table);
  std::string text = table.render(style);
  if (absences.empty()) return text;
  text += "\n" + style.heading("What the missing parts would give") + "\n";
  for (const Absence& absence : absences) {
    const std::string reason = absence.reason.empty() ? "" : fmt::format(" ({})", absence.reason);
    const std::string line = fmt::format("{}: {}{}", absence.name, absence.gives, reason);
    text += "  " + style.wrap(line, 4) + "\n";
  }
  return text;
}

Json doctor_document(const Probe& probe) {
  Json gpus = Json::array();
  for (const GpuStatus& gpu : probe.gpus) gpus.push(gpu_json(gpu));
  Json libraries = Json::array();
  for (const LibraryStatus& library : probe.libraries) libraries.push(library_json(library));
  Json permissions = Json::array();
  for (const PermissionStatus& permission : probe.permissions) {
    permissions.push(Json::object()
                         .set("name", permission.name)
                         .set("allowed", permission.allowed)
                         .set("detail", permission.detail));
  }
  return Json::object()
      .set("schema", "nibble.doctor/1")
      .set("gpus", std::move(gpus))
      .set("no_gpu_reason", text_or_null(probe.no_gpu_reason))
      .set("driver_version", text_or_null(probe.driver_version))
      .set("libraries", std::move(libraries))
      .set("compiler", text_or_null(probe.compiler))
      .set("cpu", cpu_json(probe.cpu))
      .set("permissions", std::move(permissions));
}

Result<int> run_doctor(const Arguments& arguments) {
  const Probe probe = probe_this_machine();
  if (arguments.has("--json")) {
    fmt::print("{}\n", doctor_document(probe).dump());
  } else {
    fmt::print("{}", doctor_text(probe, Style::for_stdout()));
  }
  return 0;
}

CommandDef doctor_command() {
  return {.name = "doctor",
          .summary = "what this machine has, and what each missing part would give",
          .description =
              "Lists GPUs, driver, CUDA libraries, compiler, processor and permissions. Nothing is "
              "changed or installed, and nothing needs to be present: a missing part is an answer, "
              "with what it would give, and the exit status is 0.\n\n"
              "Libraries are looked for where the loader looks, in /usr/local/cuda, and in the "
              "folders of the CUDA packages of the system's Python.",
          .examples = {{"nibble doctor", "a table of what is there"},
                       {"nibble doctor --json", "the same as a nibble.doctor/1 document"}},
          .run = run_doctor};
}

}  // namespace nibble::cli
