#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <unistd.h>

#include "machine/fields.h"
#include "machine/spec.h"

namespace nibble {
namespace {

MachineSpec load(std::string_view name) {
  Result<MachineSpec> machine = load_machine(name);
  EXPECT_TRUE(machine.ok()) << (machine.ok() ? "" : machine.error().message);
  return machine.ok() ? *machine : MachineSpec{};
}

double dense(const MachineSpec& machine, Precision precision) {
  const Peak* peak = machine.peak(precision);
  return peak == nullptr ? 0 : peak->dense_tflops.value;
}

double sparse(const MachineSpec& machine, Precision precision) {
  const Peak* peak = machine.peak(precision);
  return peak == nullptr || !peak->sparse_tflops ? 0 : peak->sparse_tflops->value;
}

TEST(Catalog, HoldsTheseMachinesSortedByName) {
  std::vector<std::string> names;
  for (const MachineSpec& machine : machine_catalog()) names.push_back(machine.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a100-80gb", "b200", "b300", "gb10", "h100-pcie",
                                             "h100-sxm", "h200", "l40s", "mi300x", "rtx-4090",
                                             "rtx-5090", "rtx-pro-6000-max-q",
                                             "rtx-pro-6000-server", "rtx-pro-6000-workstation"}));
}

TEST(Catalog, FilesAreNamedAsTheirMachines) {
  for (const MachineSpec& machine : machine_catalog()) {
    const std::filesystem::path path =
        std::filesystem::path(NIBBLE_SOURCE_DIR) / "data" / "machines" / (machine.name + ".json");
    EXPECT_TRUE(std::filesystem::exists(path)) << path;
  }
}

std::vector<Sourced> all_numbers(const MachineSpec& machine) {
  std::vector<Sourced> numbers = {machine.bandwidth_gb_s, machine.memory_gb};
  for (const auto& [precision, peak] : machine.peaks) {
    numbers.push_back(peak.dense_tflops);
    if (peak.sparse_tflops) numbers.push_back(*peak.sparse_tflops);
  }
  for (const MachineField& field : kMachineFields) {
    if (machine.*field.member) numbers.push_back(*(machine.*field.member));
  }
  for (const PowerField& field : kPowerFields) {
    if (machine.power.*field.member) numbers.push_back(*(machine.power.*field.member));
  }
  for (const Link& link : machine.links) {
    numbers.push_back(link.bandwidth_gb_s);
    numbers.push_back(link.latency_us);
  }
  return numbers;
}

TEST(Catalog, EveryNumberHasASource) {
  for (const MachineSpec& machine : machine_catalog()) {
    for (const Sourced& number : all_numbers(machine)) {
      EXPECT_GE(number.source.size(), 3U) << machine.name << " " << number.value;
      EXPECT_NE(number.provenance, Provenance::kGiven) << machine.name << " " << number.value;
      EXPECT_EQ(number.source.find(".json"), std::string::npos)
          << machine.name << ": a bare number " << number.value;
    }
  }
}

// "datasheet" means that the maker prints the number: its source must name a maker's document, and
// no reseller, database or tool.
TEST(Catalog, OnlyTheMakersDocumentsAreDataSheets) {
  const std::vector<std::string> documents = {"NVIDIA data sheet",
                                              "AMD data sheet",
                                              "NVIDIA product page",
                                              "white paper",
                                              "CUDA C++ Programming",
                                              "CDNA 3 ISA",
                                              "PCI Express",
                                              "maker: NVLink",
                                              "NVIDIA HGX B200",
                                              "NVIDIA DGX Spark",
                                              "NVIDIA: power of the whole GB10"};
  const std::vector<std::string> others = {"aiconfigurator", ".com", "blog", ".yaml", "Fixstars"};
  const auto names_any = [](const std::string& source, const std::vector<std::string>& words) {
    return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
      return source.find(word) != std::string::npos;
    });
  };
  int reported = 0;
  for (const MachineSpec& machine : machine_catalog()) {
    for (const Sourced& number : all_numbers(machine)) {
      if (number.provenance == Provenance::kReported) ++reported;
      if (number.provenance != Provenance::kDatasheet) continue;
      EXPECT_TRUE(names_any(number.source, documents)) << machine.name << ": " << number.source;
      EXPECT_FALSE(names_any(number.source, others)) << machine.name << ": " << number.source;
    }
  }
  EXPECT_GT(reported, 0);
}

TEST(Catalog, EveryMachineStatesWhatTheLedgerNeeds) {
  for (const MachineSpec& machine : machine_catalog()) {
    SCOPED_TRACE(machine.name);
    EXPECT_TRUE(machine.l2_mb && machine.shared_per_sm_bytes && machine.shared_per_block_bytes &&
                machine.registers_per_sm && machine.sms && machine.power.limit_w);
    EXPECT_FALSE(machine.links.empty());
    EXPECT_FALSE(machine.is_cpu);
    EXPECT_GT(dense(machine, Precision::kBf16), 0);
    EXPECT_GT(sparse(machine, Precision::kBf16), 0);
    EXPECT_FALSE(machine.notes.empty());
  }
}

TEST(Catalog, NamesTitlesAndAliasesLeadToTheirOwnMachineOnly) {
  for (const MachineSpec& machine : machine_catalog()) {
    std::vector<std::string> names = machine.aliases;
    names.push_back(machine.name);
    names.push_back(machine.title);
    for (const std::string& name : names) EXPECT_EQ(load(name).name, machine.name) << name;
  }
}

// FLOP per SM and clock of the bf16 tensor cores with fp32 accumulation (docs of the makers,
// checked by microbenchmarks): an oracle for SMs, clocks and peaks together.
TEST(Catalog, PeaksFollowFromSmsAndClocks) {
  const std::map<std::string, std::pair<double, double>> rates = {
      // name, {FLOP per SM and clock, tensor clock in MHz}
      {"rtx-pro-6000-server", {1024, 2430}},
      {"rtx-pro-6000-workstation", {1024, 2617}},
      {"rtx-pro-6000-max-q", {1024, 2280}},
      {"rtx-5090", {512, 2407}},
      {"h200", {4096, 1830}},
      {"h100-sxm", {4096, 1830}},
      {"l40s", {1024, 2520}},
      {"rtx-4090", {512, 2520}},
      {"b200", {8192, 1856}},
      {"a100-80gb", {2048, 1410}},
      {"mi300x", {2048, 2100}},
  };
  for (const auto& [name, rate] : rates) {
    const MachineSpec machine = load(name);
    const double tflops = machine.sms->value * rate.first * rate.second * 1e6 / 1e12;
    // The L40S's data sheet prints 362.05 where the formula gives 366.4: 1.2 % less.
    EXPECT_NEAR(dense(machine, Precision::kBf16) / tflops, 1, name == "l40s" ? 0.012 : 0.001)
        << name;
  }
}

TEST(Catalog, SparseIsTwiceDenseExceptOnTheB300) {
  for (const MachineSpec& machine : machine_catalog()) {
    for (const auto& [precision, peak] : machine.peaks) {
      if (!peak.sparse_tflops) continue;
      const bool odd = machine.name == "b300" && precision == Precision::kFp4;
      const double ratio = peak.sparse_tflops->value / peak.dense_tflops.value;
      const bool l40s_bf16 = machine.name == "l40s" && precision == Precision::kBf16;
      const double expected = odd ? 18.0 / 14.0 : l40s_bf16 ? 733 / 362.05 : 2.0;
      EXPECT_NEAR(ratio, expected, 0.002) << machine.name;
    }
  }
}

TEST(Catalog, OnlyBlackwellHasFp4) {
  for (const MachineSpec& machine : machine_catalog()) {
    const bool blackwell = machine.arch.starts_with("sm_10") || machine.arch.starts_with("sm_12");
    EXPECT_EQ(machine.peak(Precision::kFp4) != nullptr, blackwell) << machine.name;
  }
}

// CUDA C++ Programming Guide, table of compute capabilities: KB per SM and per block.
TEST(Catalog, SharedMemoryFollowsTheArchitecture) {
  const std::map<std::string, std::pair<double, double>> kilobytes = {
      {"sm_80", {164, 163}},  {"sm_89", {100, 99}},  {"sm_90", {228, 227}}, {"sm_100", {228, 227}},
      {"sm_103", {228, 227}}, {"sm_120", {100, 99}}, {"sm_121", {100, 99}}, {"gfx942", {64, 64}},
  };
  for (const MachineSpec& machine : machine_catalog()) {
    ASSERT_TRUE(kilobytes.contains(machine.arch)) << machine.arch;
    const auto& [per_sm, per_block] = kilobytes.at(machine.arch);
    EXPECT_EQ(machine.shared_per_sm_bytes->value, per_sm * 1024) << machine.name;
    EXPECT_EQ(machine.shared_per_block_bytes->value, per_block * 1024) << machine.name;
    const bool cuda = machine.arch.starts_with("sm_");
    EXPECT_EQ(machine.registers_per_sm->value, cuda ? 65536 : 131072) << machine.name;
  }
}

TEST(Catalog, RtxPro6000Server) {
  const MachineSpec machine = load("rtx-pro-6000-server");
  EXPECT_EQ(machine.arch, "sm_120");
  EXPECT_EQ(machine.bandwidth_gb_s.value, 1597);
  EXPECT_EQ(dense(machine, Precision::kFp4), 1871.2);
  EXPECT_EQ(dense(machine, Precision::kFp8), 935.6);
  EXPECT_EQ(dense(machine, Precision::kBf16), 467.8);
  EXPECT_EQ(dense(machine, Precision::kFp4) / dense(machine, Precision::kBf16), 4);
  EXPECT_EQ(sparse(machine, Precision::kFp4), 3742.4);
  EXPECT_EQ(machine.memory_gb.value, 96);
  EXPECT_EQ(machine.l2_mb->value, 128);
  EXPECT_EQ(machine.sms->value, 188);
  EXPECT_EQ(machine.shared_per_block_bytes->value, 101376);
  EXPECT_EQ(machine.shared_per_sm_bytes->value, 102400);
  EXPECT_EQ(machine.power.limit_w->value, 600);
  EXPECT_EQ(machine.power.copy_w->value, 365);
  EXPECT_EQ(machine.power.waiting_w->value, 140);
  EXPECT_EQ(machine.links.front().name, "pcie5-x16");
  EXPECT_EQ(machine.links.front().bandwidth_gb_s.value, 64);
  EXPECT_EQ(machine.links.front().latency_us.value, 1);
}

TEST(Catalog, RtxPro6000Workstation) {
  const MachineSpec machine = load("rtx-pro-6000-workstation");
  EXPECT_EQ(dense(machine, Precision::kFp4), 2015);
  EXPECT_EQ(sparse(machine, Precision::kFp4), 4030);
  EXPECT_EQ(machine.bandwidth_gb_s.value, 1792);
  EXPECT_EQ(machine.power.copy_w->value, 401);
}

TEST(Catalog, DataCenterCards) {
  const MachineSpec h200 = load("h200");
  EXPECT_EQ(h200.bandwidth_gb_s.value, 4800);
  EXPECT_EQ(dense(h200, Precision::kBf16), 989.4);
  EXPECT_EQ(dense(h200, Precision::kFp8), 1978.9);
  EXPECT_EQ(h200.memory_gb.value, 141);
  EXPECT_EQ(h200.links.front().name, "nvlink4");
  // Measured; the data sheet has 900 GB/s both ways / 2.
  EXPECT_EQ(h200.links.front().bandwidth_gb_s.value, 231.5);
  EXPECT_NE(h200.links.front().bandwidth_gb_s.source.find("is 450"), std::string::npos);
  const MachineSpec a100 = load("a100-80gb");
  EXPECT_EQ(a100.peak(Precision::kFp8), nullptr);
  EXPECT_EQ(dense(a100, Precision::kInt8), 624);
  EXPECT_EQ(a100.links.front().bandwidth_gb_s.value, 300);
  const MachineSpec mi300x = load("mi300x");
  EXPECT_EQ(dense(mi300x, Precision::kBf16), 1307.4);
  EXPECT_EQ(dense(mi300x, Precision::kFp8), 2614.9);
  EXPECT_EQ(mi300x.sms->value, 304);
  EXPECT_EQ(load("b200").links.front().bandwidth_gb_s.value, 900);
}

// NVIDIA L40S data sheet: 362.05 | 733 for bf16 and 733 | 1,466 for fp8 and int8.
TEST(Catalog, L40sIsAsItsDataSheetPrints) {
  const MachineSpec machine = load("l40s");
  EXPECT_EQ(dense(machine, Precision::kBf16), 362.05);
  EXPECT_EQ(sparse(machine, Precision::kBf16), 733);
  EXPECT_EQ(dense(machine, Precision::kFp8), 733);
  EXPECT_EQ(sparse(machine, Precision::kFp8), 1466);
  EXPECT_EQ(machine.peak(Precision::kBf16)->dense_tflops.provenance, Provenance::kDatasheet);
}

TEST(Catalog, NoLatencyOfNvlinkPretendsToBeMeasured) {
  for (const MachineSpec& machine : machine_catalog()) {
    for (const Link& link : machine.links) {
      if (!link.name.starts_with("nvlink")) continue;
      // Assumed, but for what our own command measured.
      const bool ours = link.latency_us.source.find("nibble bench link") != std::string::npos;
      EXPECT_EQ(link.latency_us.provenance, ours ? Provenance::kMeasured : Provenance::kAssumed)
          << machine.name;
    }
  }
}

TEST(LoadMachine, ForgivesCaseSpacesUnderscoresAndTheMaker) {
  for (const char* name : {"RTX-PRO-6000-SERVER", "rtx_pro_6000_server", "Rtx Pro 6000 Server",
                           "RTX PRO 6000 Blackwell Server", "  rtx-pro-6000-server ",
                           "NVIDIA RTX PRO 6000 Blackwell Server Edition"}) {
    EXPECT_EQ(load(name).name, "rtx-pro-6000-server") << name;
  }
}

TEST(LoadMachine, FindsTheTitlesThatNvmlReports) {
  const std::pair<const char*, const char*> titles[] = {
      {"NVIDIA H200", "h200"},
      {"NVIDIA H100 80GB HBM3", "h100-sxm"},
      {"NVIDIA H100 PCIe", "h100-pcie"},
      {"NVIDIA GeForce RTX 5090", "rtx-5090"},
      {"NVIDIA GeForce RTX 4090", "rtx-4090"},
      {"NVIDIA A100-SXM4-80GB", "a100-80gb"},
      {"NVIDIA L40S", "l40s"},
      {"NVIDIA B200", "b200"},
      {"NVIDIA GB10", "gb10"},
      {"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000-workstation"},
      {"NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "rtx-pro-6000-max-q"},
  };
  for (const auto& [title, name] : titles) {
    const std::optional<MachineSpec> machine = find_in_catalog(title);
    ASSERT_TRUE(machine) << title;
    EXPECT_EQ(machine->name, name);
  }
  // Other cards with nearly the same name have other numbers.
  EXPECT_FALSE(find_in_catalog("NVIDIA H200 NVL"));
  EXPECT_FALSE(find_in_catalog("NVIDIA A100 80GB PCIe"));
  EXPECT_FALSE(find_in_catalog("NVIDIA L40"));
  EXPECT_FALSE(find_in_catalog("NVIDIA GeForce RTX 5090 D"));
}

TEST(LoadMachine, UnknownNamesGetTheNearest) {
  const Result<MachineSpec> machine = load_machine("rtx-pro-6000-sever");
  ASSERT_FALSE(machine.ok());
  EXPECT_EQ(machine.error().kind, ErrorKind::kUsage);
  EXPECT_NE(machine.error().message.find("\"rtx-pro-6000-sever\""), std::string::npos);
  EXPECT_NE(machine.error().message.find("the nearest are: rtx-pro-6000-server"), std::string::npos)
      << machine.error().message;
}

TEST(LoadMachine, NamesNearNothingGetTheWholeList) {
  const Result<MachineSpec> machine = load_machine("xyzzyxyzzyxyzzy");
  ASSERT_FALSE(machine.ok());
  EXPECT_NE(machine.error().message.find("one of: a100-80gb, b200"), std::string::npos)
      << machine.error().message;
}

TEST(LoadMachine, AnEmptyNameIsASentence) {
  for (const char* name : {"", "  "}) {
    const Result<MachineSpec> machine = load_machine(name);
    ASSERT_FALSE(machine.ok());
    EXPECT_EQ(machine.error().message,
              "no machine is named; give a catalog name, a JSON file or \"this\"");
  }
}

TEST(LoadMachine, ReadsAFileAndNamesItAsTheSource) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("nibble-machine-" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) + "-" +
       std::to_string(getpid()) + ".json");
  std::ofstream(path) << R"({"name": "mine", "bandwidth_gb_s": 100, "memory_gb": 8,
                             "peaks": {"bf16": {"dense_tflops": 10}}})";
  const MachineSpec machine = load(path.string());
  EXPECT_EQ(machine.name, "mine");
  EXPECT_EQ(machine.bandwidth_gb_s.source, path.string());
  std::filesystem::remove(path);
  const Result<MachineSpec> gone = load_machine(path.string());
  ASSERT_FALSE(gone.ok());
  EXPECT_NE(gone.error().message.find(path.string()), std::string::npos);
}

}  // namespace
}  // namespace nibble
