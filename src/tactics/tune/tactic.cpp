#include "tactics/tune/tactic.h"

#include <fmt/core.h>

#include "base/names.h"
#include "base/text.h"
#include "kernels/gemm/device/w4a16.h"
#include "kernels/gemm/device/w4a4.h"

namespace nibble::tune {
namespace {

constexpr Named<Family> kUnits[] = {{"mma", Family::kMma}, {"wgmma", Family::kWgmma}};
constexpr Named<Way> kWays[] = {{"tokens", Way::kTokensOnM}, {"weights", Way::kWeightsOnM}};

// Far above what any device holds: what is beyond is a damaged file.
constexpr double kMostOfField = 65536;

// The whole numbers of a tactic by name: one list for writing and for reading.
template <class Tactic, class Visit>
void each_number(Tactic& tactic, const Visit& visit) requires
    std::is_same_v<std::remove_const_t<Tactic>, W4A16Tactic> {
  visit("rows", tactic.rows);
  visit("tokens", tactic.tokens);
  visit("stage_chunks", tactic.stage_chunks);
  visit("stages", tactic.stages);
  visit("groups", tactic.groups);
  visit("blocks_per_sm", tactic.blocks_per_sm);
  visit("cluster", tactic.cluster);
  visit("fragments", tactic.fragments);
}
template <class Tactic, class Visit>
void each_number(Tactic& tactic, const Visit& visit) requires
    std::is_same_v<std::remove_const_t<Tactic>, W4A4Tactic> {
  visit("m", tactic.m);
  visit("n", tactic.n);
  visit("k", tactic.k);
  visit("stages", tactic.stages);
  visit("warps_m", tactic.warps_m);
  visit("warps_n", tactic.warps_n);
  visit("blocks_per_sm", tactic.blocks_per_sm);
}

template <class Tactic>
void write_numbers(const Tactic& tactic, Json& json) {
  each_number(tactic, [&](const char* name, int value) { json.set(name, value); });
  json.set("split", tactic.split);
}

template <class Tactic>
void read_numbers(ObjectReader& reader, Tactic& tactic) {
  each_number(tactic, [&](const char* name, int& value) {
    value = static_cast<int>(reader.require_integer(name, {1, kMostOfField}));
  });
  const auto split = reader.boolean("split");
  if (!split) reader.fault_at("split", "is missing");
  tactic.split = split.value_or(false);
}

template <class Enum, std::size_t n>
Enum read_named(ObjectReader& reader, const char* key, const Named<Enum> (&table)[n]) {
  const std::string word = reader.require_string(key);
  const auto value = value_of(table, word);
  if (!value) reader.fault_at(key, fmt::format("is \"{}\", which is none", printable(word)));
  return value.value_or(table[0].value);
}

AnyTactic read_cpu(ObjectReader& reader) {
  CpuTactic tactic;
  const std::string name = reader.require_string("isa");
  const auto isa = isa_from_string(name);
  if (!isa) reader.fault_at("isa", fmt::format("is \"{}\", which is none", printable(name)));
  tactic.isa = isa.value_or(Isa::kPortable);
  tactic.threads = static_cast<int>(reader.require_integer("threads", {1, kMostOfField}));
  return tactic;
}

AnyTactic read_w4a16(ObjectReader& reader) {
  W4A16Tactic tactic;
  tactic.family = read_named(reader, "unit", kUnits);
  read_numbers(reader, tactic);
  return tactic;
}

AnyTactic read_w4a4(ObjectReader& reader) {
  W4A4Tactic tactic;
  tactic.way = read_named(reader, "on_m", kWays);
  read_numbers(reader, tactic);
  return tactic;
}

std::string text_of(const CpuTactic& tactic) {
  return fmt::format("cpu {} {} {}", to_string(tactic.isa), tactic.threads,
                     tactic.threads == 1 ? "thread" : "threads");
}
std::string text_of(const W4A16Tactic& tactic) {
  return "w4a16 " + nibble::to_string(tactic);
}
std::string text_of(const W4A4Tactic& tactic) {
  return nibble::to_string(tactic);
}

void write_fields(const CpuTactic& tactic, Json& json) {
  json.set("isa", to_string(tactic.isa)).set("threads", tactic.threads);
}
void write_fields(const W4A16Tactic& tactic, Json& json) {
  json.set("unit", name_of(kUnits, tactic.family));
  write_numbers(tactic, json);
}
void write_fields(const W4A4Tactic& tactic, Json& json) {
  json.set("on_m", name_of(kWays, tactic.way));
  write_numbers(tactic, json);
}

}  // namespace

std::string_view family_of(const AnyTactic& tactic) {
  constexpr std::string_view kNames[] = {"cpu", "w4a16", "w4a4"};
  return kNames[tactic.index()];
}

std::string to_string(const AnyTactic& tactic) {
  return std::visit([](const auto& one) { return text_of(one); }, tactic);
}

Json to_json(const AnyTactic& tactic, std::string_view op) {
  Json json = Json::object().set("op", op).set("family", family_of(tactic));
  std::visit([&](const auto& one) { write_fields(one, json); }, tactic);
  return json;
}

Result<AnyTactic> parse_tactic(const Json& json, std::string_view op, const std::string& where) {
  ObjectReader reader(json, where);
  const std::string of = reader.require_string("op");
  if (of != op) {
    reader.fault_at("op", fmt::format("is \"{}\", and the key's is \"{}\": a tactic is of one "
                                      "operation",
                                      printable(of), op));
  }
  const std::string family = reader.require_string("family");
  AnyTactic tactic;
  if (family == "cpu") {
    tactic = read_cpu(reader);
  } else if (family == "w4a16") {
    tactic = read_w4a16(reader);
  } else if (family == "w4a4") {
    tactic = read_w4a4(reader);
  } else {
    reader.fault_at("family",
                    fmt::format("is \"{}\"; known are cpu, w4a16 and w4a4", printable(family)));
  }
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  return tactic;
}

}  // namespace nibble::tune
