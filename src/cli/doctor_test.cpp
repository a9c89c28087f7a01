#include "cli/doctor.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace nibble::cli {
namespace {

Probe bare_machine() {
  Probe probe;
  probe.cpu = {"AMD EPYC", 1, 25.28, std::nullopt, {}};
  probe.no_gpu_reason = "libnvidia-ml.so.1: not found";
  probe.libraries = {{"NVRTC", "", "", "libnvrtc.so.13: not found", "compiling kernels"}};
  probe.permissions = {{"RAPL energy", false, "no counters here"}};
  return probe;
}

Probe gpu_machine() {
  Probe probe = bare_machine();
  probe.cpu = {"Xeon", 64, 1000, 105.0, {"avx2", "amx_bf16"}};
  probe.no_gpu_reason.clear();
  probe.driver_version = "570.86";
  probe.compiler = "nvcc 13.0 (/usr/local/cuda/bin/nvcc)";
  GpuStatus gpu;
  gpu.index = 0;
  gpu.title = "NVIDIA H200";
  gpu.catalog_name = "h200";
  gpu.arch = "sm_90";
  gpu.memory_gb = 150.75;
  gpu.power_limit_w = 700;
  gpu.max_sm_mhz = 1980;
  gpu.pcie = "gen 5 x16";
  gpu.gpm = true;
  probe.gpus.push_back(gpu);
  probe.libraries = {{"NVRTC", "13.0", "/lib/libnvrtc.so.13", "", "compiling kernels"},
                     {"CUDA driver", "13.0", "/lib/libcuda.so.1", "cuInit failed", "running"}};
  return probe;
}

// The line of the table that starts with `part`.
std::string row_of(const std::string& text, const std::string& part) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    if (line.starts_with(part + " ")) return line;
    at = end == std::string::npos ? text.size() : end + 1;
  }
  return "";
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(DoctorText, SaysWhatEachMissingPartWouldGive) {
  const std::string text = doctor_text(bare_machine(), Style::plain());
  EXPECT_TRUE(contains(row_of(text, "GPU"), "none")) << text;
  EXPECT_TRUE(contains(row_of(text, "driver"), "none")) << text;
  EXPECT_TRUE(contains(row_of(text, "NVRTC"), "missing")) << text;
  EXPECT_TRUE(contains(row_of(text, "CPU"), "1 core,")) << text;
  EXPECT_TRUE(contains(row_of(text, "RAPL energy"), "not allowed")) << text;
  EXPECT_TRUE(contains(text, "NVRTC: compiling kernels (libnvrtc.so.13: not found)")) << text;
  EXPECT_TRUE(contains(text, "GPU: the machine's own roofs")) << text;
  EXPECT_FALSE(contains(text, "\x1b")) << text;
}

TEST(DoctorText, ALongProcessorFitsANarrowTerminal) {
  Probe probe = bare_machine();
  probe.cpu.title = "Intel(R) Xeon(R) Platinum 8592+ CPU @ 1.90GHz, engineering sample";
  const std::string text = doctor_text(probe, Style{.width = 60});
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    EXPECT_LE(end - begin, 60U) << text.substr(begin, end - begin);
    begin = end + 1;
  }
}

TEST(DoctorText, ShowsGpusAndALibraryThatDoesNotWork) {
  const std::string text = doctor_text(gpu_machine(), Style::plain());
  const std::string gpu = row_of(text, "GPU 0");
  for (const char* part : {"NVIDIA H200", "sm_90", "150.8 GB", "700 W", "PCIe gen 5 x16",
                           "GPM counters", "catalog: h200"}) {
    EXPECT_TRUE(contains(gpu, part)) << part << " in " << gpu;
  }
  EXPECT_TRUE(contains(row_of(text, "driver"), "570.86"));
  EXPECT_TRUE(contains(row_of(text, "NVRTC"), "/lib/libnvrtc.so.13"));
  EXPECT_TRUE(contains(row_of(text, "CUDA driver"), "does not work"));
  EXPECT_TRUE(contains(text, "CUDA driver: running (cuInit failed)"));
  EXPECT_TRUE(contains(row_of(text, "CPU"), "avx2 amx_bf16"));
}

TEST(DoctorText, AGpuOutsideTheCatalogAndItsSilentReadingsAreNamed) {
  Probe probe = gpu_machine();
  probe.gpus[0].catalog_name.clear();
  probe.gpus[0].missing = {"power limit: Not Supported"};
  const std::string text = doctor_text(probe, Style::plain());
  EXPECT_TRUE(contains(row_of(text, "GPU 0"), "not in the catalog"));
  EXPECT_TRUE(contains(text, "(power limit: Not Supported)"));
}

TEST(DoctorText, NothingMissingMeansNoSecondPart) {
  Probe probe = gpu_machine();
  probe.libraries.pop_back();
  EXPECT_FALSE(contains(doctor_text(probe, Style::plain()), "What the missing parts would give"));
}

TEST(DoctorDocument, HasTheSameKeysWhateverIsMissing) {
  const Json bare = doctor_document(bare_machine());
  const Json full = doctor_document(gpu_machine());
  ASSERT_EQ(bare.as_object().size(), full.as_object().size());
  for (std::size_t index = 0; index < bare.as_object().size(); ++index) {
    EXPECT_EQ(bare.as_object()[index].first, full.as_object()[index].first);
  }
  EXPECT_EQ(bare.find("schema")->as_string(), "nibble.doctor/1");
  EXPECT_TRUE(bare.find("gpus")->as_array().empty());
  EXPECT_EQ(bare.find("no_gpu_reason")->as_string(), "libnvidia-ml.so.1: not found");
  EXPECT_TRUE(bare.find("driver_version")->is_null());
  EXPECT_TRUE(bare.find("compiler")->is_null());
  EXPECT_TRUE(bare.find("cpu")->find("last_level_cache_mb")->is_null());
  const Json& library = bare.find("libraries")->as_array().front();
  EXPECT_FALSE(library.find("found")->as_bool());
  EXPECT_TRUE(library.find("path")->is_null());
  EXPECT_EQ(library.find("gives")->as_string(), "compiling kernels");
}

TEST(DoctorDocument, CarriesNumbersAsNumbers) {
  const Json document = doctor_document(gpu_machine());
  const Json& gpu = document.find("gpus")->as_array().front();
  EXPECT_EQ(gpu.find("memory_gb")->as_number(), 150.75);
  EXPECT_EQ(gpu.find("power_limit_w")->as_number(), 700);
  EXPECT_EQ(gpu.find("catalog_name")->as_string(), "h200");
  EXPECT_TRUE(gpu.find("gpm")->as_bool());
  EXPECT_EQ(document.find("cpu")->find("cores")->as_integer(), 64);
  EXPECT_TRUE(document.find("no_gpu_reason")->is_null());
}

TEST(DoctorDocument, ANumberThatIsNotKnownIsNullAndNeverZero) {
  Probe probe = gpu_machine();
  probe.gpus[0].memory_gb = 0;
  probe.gpus[0].power_limit_w.reset();
  const Json document = doctor_document(probe);
  const Json& gpu = document.find("gpus")->as_array().front();
  EXPECT_TRUE(gpu.find("memory_gb")->is_null());
  EXPECT_TRUE(gpu.find("power_limit_w")->is_null());
}

TEST(Doctor, EndsWithStatusZeroOnThisMachineToo) {
  testing::internal::CaptureStdout();
  const Result<int> text = run_doctor(Arguments{});
  std::fflush(stdout);
  const std::string printed = testing::internal::GetCapturedStdout();
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text, 0);
  EXPECT_TRUE(contains(printed, "CPU"));

  Arguments with_json;
  with_json.given["--json"] = {};
  testing::internal::CaptureStdout();
  const Result<int> json = run_doctor(with_json);
  std::fflush(stdout);
  const std::string document = testing::internal::GetCapturedStdout();
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(*json, 0);
  EXPECT_TRUE(Json::parse(document, "stdout").ok()) << document;
}

TEST(Doctor, IsDescribedForHelpAndManPage) {
  const CommandDef command = doctor_command();
  EXPECT_EQ(command.name, "doctor");
  EXPECT_TRUE(command.json);
  EXPECT_FALSE(command.summary.empty());
  EXPECT_FALSE(command.examples.empty());
  EXPECT_TRUE(command.run);
}

}  // namespace
}  // namespace nibble::cli
