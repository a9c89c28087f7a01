#include <cmath>
#include <gtest/gtest.h>

#include "machine/fields.h"
#include "machine/spec.h"

namespace nibble {
namespace {

constexpr std::string_view kMinimal = R"({
  "name": "mine", "bandwidth_gb_s": 1000, "memory_gb": 80,
  "peaks": {"bf16": {"dense_tflops": 400}}
})";

Json json_of(std::string_view text) {
  Result<Json> json = Json::parse(text, "test");
  EXPECT_TRUE(json.ok()) << (json.ok() ? "" : json.error().message);
  return json.ok() ? *json : Json();
}

// The minimal machine with one member replaced or added.
std::string error_with(std::string_view key, Json value) {
  Json json = json_of(kMinimal);
  json.set(key, std::move(value));
  const Result<MachineSpec> machine = parse_machine(json, "m.json");
  return machine.ok() ? "no error" : machine.error().message;
}

std::string error_without(std::string_view key) {
  Json json = json_of(kMinimal);
  std::erase_if(json.as_object(), [&](const Json::Member& member) { return member.first == key; });
  const Result<MachineSpec> machine = parse_machine(json, "m.json");
  return machine.ok() ? "no error" : machine.error().message;
}

TEST(ParseMachine, BareNumbersAreGivenByTheFile) {
  const Result<MachineSpec> machine = parse_machine(json_of(kMinimal), "m.json");
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(machine->name, "mine");
  EXPECT_EQ(machine->title, "mine");
  EXPECT_EQ(machine->bandwidth_gb_s.value, 1000);
  EXPECT_EQ(machine->bandwidth_gb_s.provenance, Provenance::kGiven);
  EXPECT_EQ(machine->bandwidth_gb_s.source, "m.json");
  EXPECT_EQ(machine->peak(Precision::kBf16)->dense_tflops.source, "m.json");
  EXPECT_FALSE(machine->peak(Precision::kBf16)->sparse_tflops);
  EXPECT_EQ(machine->peak(Precision::kFp4), nullptr);
  EXPECT_FALSE(machine->l2_mb);
  EXPECT_TRUE(machine->links.empty());
}

TEST(ParseMachine, ReadsValueProvenanceAndSource) {
  Json json = json_of(kMinimal);
  json.set("l2_mb", json_of(R"({"value": 50, "is": "measured", "source": "a bench"})"));
  json.set("clock_mhz", json_of(R"({"value": 1980})"));
  json.set("sms", nullptr);
  const Result<MachineSpec> machine = parse_machine(json, "m.json");
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(machine->l2_mb->value, 50);
  EXPECT_EQ(machine->l2_mb->provenance, Provenance::kMeasured);
  EXPECT_EQ(machine->l2_mb->source, "a bench");
  EXPECT_EQ(machine->clock_mhz->provenance, Provenance::kGiven);
  EXPECT_EQ(machine->clock_mhz->source, "m.json");
  EXPECT_FALSE(machine->sms);  // null is absent
}

TEST(ParseMachine, AnFp32PeakAloneIsEnough) {
  Json json = json_of(kMinimal);
  json.set("peaks", json_of(R"({"fp32": {"dense_tflops": 0.4}})"));
  EXPECT_TRUE(parse_machine(json, "m.json").ok());
}

TEST(ParseMachine, MissingFieldsAreOneSentenceEach) {
  EXPECT_EQ(error_without("name"), "m.json: \"name\" is missing");
  EXPECT_EQ(error_without("bandwidth_gb_s"),
            "m.json: \"bandwidth_gb_s\" is missing; give the DRAM read bandwidth in GB/s");
  EXPECT_EQ(error_without("memory_gb"),
            "m.json: \"memory_gb\" is missing; give the memory's capacity in 1e9 bytes");
  EXPECT_EQ(error_without("peaks"),
            "m.json: \"peaks\" is missing; give at least {\"bf16\": {\"dense_tflops\": ...}}");
  EXPECT_EQ(error_with("peaks", json_of(R"({"fp4": {"dense_tflops": 4}})")),
            "m.json: \"peaks\" has neither bf16 nor fp32; give at least {\"bf16\": "
            "{\"dense_tflops\": ...}}");
  EXPECT_EQ(error_with("peaks", json_of(R"({"bf16": {"sparse_tflops": 4}})")),
            "m.json: peaks.bf16: \"dense_tflops\" is missing; give the dense rate, half of the "
            "sparse one on most chips");
}

TEST(ParseMachine, NumbersMustBeInRangeAndFinite) {
  EXPECT_EQ(error_with("bandwidth_gb_s", 0),
            "m.json: \"bandwidth_gb_s\" is 0; it must be from 0.001 to 1000000 GB/s");
  EXPECT_EQ(error_with("memory_gb", -80),
            "m.json: \"memory_gb\" is -80; it must be from 0.1 to 1000000 GB");
  EXPECT_EQ(error_with("l2_mb", std::nan("")),
            "m.json: \"l2_mb\" is nan; it must be a finite number");
  EXPECT_EQ(error_with("l2_mb", INFINITY), "m.json: \"l2_mb\" is inf; it must be a finite number");
  EXPECT_EQ(error_with("power", json_of(R"({"limit_w": {"value": 0}})")),
            "m.json: power.limit_w: \"value\" is 0; it must be from 1 to 100000 W");
  EXPECT_EQ(error_with("peaks", json_of(R"({"bf16": {"dense_tflops": -1}})")),
            "m.json: peaks.bf16: \"dense_tflops\" is -1; it must be from 1e-06 to 1000000 TFLOPS");
  for (const double clock : {1e300, 1e-300, 100001.0}) {
    EXPECT_EQ(error_with("clock_mhz", clock),
              fmt::format("m.json: \"clock_mhz\" is {}; it must be from 1 to 100000 MHz", clock));
  }
  EXPECT_EQ(error_with("sms", 1e15),
            "m.json: \"sms\" is 1000000000000000; it must be from 1 to 100000");
}

TEST(ParseMachine, KindsAreChecked) {
  EXPECT_EQ(error_with("bandwidth_gb_s", "fast"),
            "m.json: \"bandwidth_gb_s\" must be a number or an object with \"value\", \"is\" and "
            "\"source\", found a string");
  EXPECT_EQ(
      error_with("l2_mb", json_of(R"({"value": 50, "is": "guessed"})")),
      "m.json: l2_mb: \"is\" is \"guessed\"; it must be datasheet, reported, measured, derived, "
      "assumed or given");
  EXPECT_EQ(error_with("l2_mb", json_of(R"({"is": "measured"})")),
            "m.json: l2_mb: \"value\" is missing");
  EXPECT_EQ(error_with("sms", 1.5), "m.json: \"sms\" is 1.5; it must be a whole number");
  EXPECT_EQ(error_with("aliases", json_of("[1]")),
            "m.json: \"aliases\" must hold strings only, found a number");
  EXPECT_EQ(error_with("schema", "nibble.machine/2"),
            "m.json: \"schema\" is \"nibble.machine/2\"; a machine file has \"nibble.machine/1\"");
  EXPECT_EQ(error_with("name", " "), "m.json: \"name\" is empty");
  EXPECT_EQ(error_with("links", json_of("[3]")),
            "m.json: links[0]: expected an object, found a number");
  const Result<MachineSpec> list = parse_machine(json_of("[1]"), "m.json");
  ASSERT_FALSE(list.ok());
  EXPECT_EQ(list.error().message, "m.json: expected an object, found an array");
}

TEST(ParseMachine, UnknownFieldsAreNamedWithTheNearest) {
  EXPECT_EQ(error_with("bandwith_gb_s", 5),
            "m.json: unknown field \"bandwith_gb_s\"; did you mean bandwidth_gb_s?");
  EXPECT_NE(error_with("peaks", json_of(R"({"bf16": {"dense_tflops": 4}, "fp44": {}})"))
                .find("m.json: peaks: unknown field \"fp44\""),
            std::string::npos);
  EXPECT_NE(error_with("power", json_of(R"({"limits_w": 5})"))
                .find("m.json: power: unknown field \"limits_w\""),
            std::string::npos);
  EXPECT_NE(error_with("l2_mb", json_of(R"({"value": 5, "unit": "MB"})"))
                .find("m.json: l2_mb: unknown field \"unit\""),
            std::string::npos);
}

TEST(ParseMachine, NumbersThatContradictEachOtherAreFaults) {
  EXPECT_EQ(
      error_with("peaks", json_of(R"({"bf16": {"dense_tflops": 4, "sparse_tflops": 2}})")),
      "m.json: peaks.bf16: \"sparse_tflops\" is 2, below the dense 4; were the two exchanged?");
  Json json = json_of(kMinimal);
  json.set("shared_per_sm_bytes", 1024).set("shared_per_block_bytes", 2048);
  const Result<MachineSpec> machine = parse_machine(json, "m.json");
  ASSERT_FALSE(machine.ok());
  EXPECT_EQ(machine.error().message,
            "m.json: \"shared_per_block_bytes\" is 2048, more than the 1024 of a whole SM");
}

TEST(ParseMachine, LinksNeedBothNumbersAndDifferentNames) {
  EXPECT_EQ(
      error_with("links", json_of(R"([{"name": "a", "bandwidth_gb_s": 5}])")),
      "m.json: links[0]: \"latency_us\" is missing; give the time of one hop in us; 0 to ignore "
      "it");
  EXPECT_EQ(
      error_with("links", json_of(R"([{"name": "a", "bandwidth_gb_s": 5, "latency_us": -1}])")),
      "m.json: links[0]: \"latency_us\" is -1; it must be from 0 to 1000000 us");
  EXPECT_EQ(error_with("links", json_of(R"([{"name": "a", "bandwidth_gb_s": 5, "latency_us": 0},
                                            {"name": "a", "bandwidth_gb_s": 6, "latency_us": 0}])")),
            "m.json: links[1]: \"name\" is \"a\", as on another link");
  EXPECT_EQ(
      error_with("links", json_of(R"([{"name": "a", "bandwidth_gb_s": 5, "latency_us": 0}])")),
      "no error");
}

TEST(MachineJson, ReadsBackWhatItWrites) {
  for (const MachineSpec& machine : machine_catalog()) {
    const Json written = to_json(machine);
    const Result<MachineSpec> read = parse_machine(json_of(written.dump()), "copy.json");
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(to_json(*read), written) << machine.name;
    EXPECT_EQ(read->links.size(), machine.links.size());
    EXPECT_EQ(read->peaks.size(), machine.peaks.size());
    EXPECT_EQ(read->notes, machine.notes);
    EXPECT_EQ(read->aliases, machine.aliases);
  }
}

TEST(MachineJson, WritesEveryNumberWithItsSource) {
  Json json = json_of(kMinimal);
  json.set("is_cpu", true).set("power", json_of(R"({"copy_w": 365})"));
  const Result<MachineSpec> machine = parse_machine(json, "m.json");
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  const Json written = to_json(*machine);
  EXPECT_EQ(written.find("schema")->as_string(), "nibble.machine/1");
  EXPECT_TRUE(written.find("is_cpu")->as_bool());
  const Json* copy = written.find("power")->find("copy_w");
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->find("value")->as_number(), 365);
  EXPECT_EQ(copy->find("is")->as_string(), "given");
  EXPECT_EQ(copy->find("source")->as_string(), "m.json");
}

}  // namespace
}  // namespace nibble
