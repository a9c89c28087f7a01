#include <set>

#include "base/text.h"
#include "machine/fields.h"
#include "machine/spec.h"

namespace nibble {
namespace {

constexpr std::string_view kSchema = "nibble.machine/1";

// Reads numbers with their source from the objects of one file.
class SourcedReader {
 public:
  explicit SourcedReader(std::string_view file) : file_(file) {}

  // A bare number, or {"value", "is", "source"}; faults go to `reader`.
  std::optional<Sourced> read(ObjectReader& reader, std::string_view key,
                              const NumberRule& rule) const {
    const Json* found = reader.any(key);
    if (found == nullptr) return std::nullopt;
    if (found->is_number()) {
      return Sourced{checked(reader, key, rule), Provenance::kGiven, file_};
    }
    if (!found->is_object()) {
      reader.fault_at(key, fmt::format("must be a number or an object with \"value\", \"is\" and "
                                       "\"source\", found {}",
                                       found->kind_name()));
      return std::nullopt;
    }
    return read_object(reader, key, *found, rule);
  }

  Sourced require(ObjectReader& reader, std::string_view key, const NumberRule& rule,
                  std::string_view what) const {
    if (!reader.has(key)) reader.fault_at(key, fmt::format("is missing; give {}", what));
    return read(reader, key, rule).value_or(Sourced{});
  }

 private:
  static double checked(ObjectReader& reader, std::string_view key, const NumberRule& rule) {
    if (!reader.has(key)) reader.fault_at(key, "is missing");
    const std::optional<double> value = reader.number(key);
    if (!value) return 0;
    if (const std::string fault = number_fault(*value, rule); !fault.empty()) {
      reader.fault_at(key, fault);
    }
    return *value;
  }

  std::optional<Sourced> read_object(ObjectReader& reader, std::string_view key, const Json& json,
                                     const NumberRule& rule) const {
    const std::string_view separator = reader.where() == file_ ? ": " : ".";
    ObjectReader inner(json, fmt::format("{}{}{}", reader.where(), separator, key));
    Sourced number;
    number.value = checked(inner, "value", rule);
    number.provenance = Provenance::kGiven;
    if (const std::optional<std::string> is = inner.string("is")) {
      if (const std::optional<Provenance> provenance = provenance_from_string(*is)) {
        number.provenance = *provenance;
      } else {
        inner.fault_at("is", fmt::format("is \"{}\"; it must be datasheet, reported, measured, "
                                         "derived, assumed or given",
                                         *is));
      }
    }
    number.source = inner.string("source").value_or(file_);
    if (const Result<> done = inner.finish(); !done) reader.fault(done.error());
    return number;
  }

  std::string file_;
};

std::vector<std::string> read_strings(ObjectReader& reader, std::string_view key) {
  std::vector<std::string> strings;
  const Json* list = reader.array(key);
  if (list == nullptr) return strings;
  for (const Json& item : list->as_array()) {
    if (!item.is_string()) {
      reader.fault_at(key, fmt::format("must hold strings only, found {}", item.kind_name()));
      return strings;
    }
    strings.push_back(item.as_string());
  }
  return strings;
}

Peak read_peak(ObjectReader& reader, const SourcedReader& numbers) {
  Peak peak;
  peak.dense_tflops = numbers.require(reader, "dense_tflops", rules::kPeak,
                                      "the dense rate, half of the sparse one on most chips");
  peak.sparse_tflops = numbers.read(reader, "sparse_tflops", rules::kPeak);
  if (const std::string fault = sparse_fault(peak); !fault.empty()) {
    reader.fault_at("sparse_tflops", fault);
  }
  return peak;
}

void read_peaks(ObjectReader& reader, const SourcedReader& numbers, std::string_view where,
                MachineSpec& machine) {
  const Json* peaks = reader.object("peaks");
  if (peaks == nullptr) {
    reader.fault_at("peaks", "is missing; give at least {\"bf16\": {\"dense_tflops\": ...}}");
    return;
  }
  ObjectReader inner(*peaks, fmt::format("{}: peaks", where));
  for (const Precision precision : kPrecisions) {
    const Json* peak = inner.object(to_string(precision));
    if (peak == nullptr) continue;
    ObjectReader peak_reader(*peak, fmt::format("{}: peaks.{}", where, to_string(precision)));
    machine.peaks[precision] = read_peak(peak_reader, numbers);
    if (const Result<> done = peak_reader.finish(); !done) inner.fault(done.error());
  }
  if (!machine.peak(Precision::kBf16) && !machine.peak(Precision::kFp32)) {
    inner.fault(
        input_error("{}: \"peaks\" has neither bf16 nor fp32; give at least "
                    "{{\"bf16\": {{\"dense_tflops\": ...}}}}",
                    where));
  }
  if (const Result<> done = inner.finish(); !done) reader.fault(done.error());
}

void read_links(ObjectReader& reader, const SourcedReader& numbers, std::string_view where,
                MachineSpec& machine) {
  const Json* links = reader.array("links");
  if (links == nullptr) return;
  std::set<std::string> names;
  for (std::size_t index = 0; index < links->as_array().size(); ++index) {
    ObjectReader inner(links->as_array()[index], fmt::format("{}: links[{}]", where, index));
    Link link;
    link.name = inner.require_string("name");
    if (!names.insert(link.name).second) {
      inner.fault_at("name", fmt::format("is \"{}\", as on another link", link.name));
    }
    link.bandwidth_gb_s = numbers.require(inner, "bandwidth_gb_s", rules::kBandwidth,
                                          "the bandwidth per direction and GPU in GB/s");
    link.latency_us = numbers.require(inner, "latency_us", rules::kMicroseconds,
                                      "the time of one hop in us; 0 to ignore it");
    if (const Result<> done = inner.finish(); !done) reader.fault(done.error());
    machine.links.push_back(std::move(link));
  }
}

void read_power(ObjectReader& reader, const SourcedReader& numbers, std::string_view where,
                MachineSpec& machine) {
  const Json* power = reader.object("power");
  if (power == nullptr) return;
  ObjectReader inner(*power, fmt::format("{}: power", where));
  for (const PowerField& field : kPowerFields) {
    machine.power.*field.member = numbers.read(inner, field.key, rules::kWatts);
  }
  if (const Result<> done = inner.finish(); !done) reader.fault(done.error());
}

void read_fields(ObjectReader& reader, const SourcedReader& numbers, MachineSpec& machine) {
  for (const MachineField& field : kMachineFields) {
    machine.*field.member = numbers.read(reader, field.key, field.rule);
  }
  if (const std::string fault = shared_memory_fault(machine); !fault.empty()) {
    reader.fault_at("shared_per_block_bytes", fault);
  }
}

Json sourced_json(const Sourced& number) {
  return Json::object()
      .set("value", number.value)
      .set("is", to_string(number.provenance))
      .set("source", number.source);
}

Json strings_json(const std::vector<std::string>& strings) {
  Json list = Json::array();
  for (const std::string& text : strings) list.push(text);
  return list;
}

Json peaks_json(const MachineSpec& machine) {
  Json peaks = Json::object();
  for (const Precision precision : kPrecisions) {
    const Peak* peak = machine.peak(precision);
    if (peak == nullptr) continue;
    Json json = Json::object().set("dense_tflops", sourced_json(peak->dense_tflops));
    if (peak->sparse_tflops) json.set("sparse_tflops", sourced_json(*peak->sparse_tflops));
    peaks.set(to_string(precision), std::move(json));
  }
  return peaks;
}

Json links_json(const MachineSpec& machine) {
  Json links = Json::array();
  for (const Link& link : machine.links) links.push(to_json(link));
  return links;
}

}  // namespace

Result<MachineSpec> parse_machine(const Json& json, std::string_view where) {
  ObjectReader reader(json, std::string(where));
  const SourcedReader numbers(where);
  MachineSpec machine;
  if (const auto schema = reader.string("schema"); schema && *schema != kSchema) {
    reader.fault_at("schema",
                    fmt::format("is \"{}\"; a machine file has \"{}\"", *schema, kSchema));
  }
  machine.name = reader.require_string("name");
  if (reader.has("name") && trim(machine.name).empty()) reader.fault_at("name", "is empty");
  machine.title = reader.string("title").value_or(machine.name);
  machine.aliases = read_strings(reader, "aliases");
  machine.arch = reader.string("arch").value_or("");
  machine.is_cpu = reader.boolean("is_cpu").value_or(false);
  read_peaks(reader, numbers, where, machine);
  machine.bandwidth_gb_s = numbers.require(reader, "bandwidth_gb_s", rules::kBandwidth,
                                           "the DRAM read bandwidth in GB/s");
  machine.memory_gb =
      numbers.require(reader, "memory_gb", rules::kMemory, "the memory's capacity in 1e9 bytes");
  read_fields(reader, numbers, machine);
  read_links(reader, numbers, where, machine);
  read_power(reader, numbers, where, machine);
  machine.notes = read_strings(reader, "notes");
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  return machine;
}

Json to_json(const Link& link) {
  return Json::object()
      .set("name", link.name)
      .set("bandwidth_gb_s", sourced_json(link.bandwidth_gb_s))
      .set("latency_us", sourced_json(link.latency_us));
}

Json to_json(const MachineSpec& machine) {
  Json json = Json::object()
                  .set("schema", kSchema)
                  .set("name", machine.name)
                  .set("title", machine.title)
                  .set("aliases", strings_json(machine.aliases))
                  .set("arch", machine.arch)
                  .set("is_cpu", machine.is_cpu)
                  .set("peaks", peaks_json(machine))
                  .set("bandwidth_gb_s", sourced_json(machine.bandwidth_gb_s))
                  .set("memory_gb", sourced_json(machine.memory_gb));
  for (const MachineField& field : kMachineFields) {
    if (const auto& number = machine.*field.member) json.set(field.key, sourced_json(*number));
  }
  json.set("links", links_json(machine));
  Json power = Json::object();
  for (const PowerField& field : kPowerFields) {
    if (const auto& number = machine.power.*field.member)
      power.set(field.key, sourced_json(*number));
  }
  json.set("power", std::move(power));
  json.set("notes", strings_json(machine.notes));
  return json;
}

}  // namespace nibble
