#include "cuda/cubin.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace nibble::cuda {
namespace {

// Programs that test_data/make_golden.py compiled; what is expected of them is what ptxas printed
// then (the .log files), and what golden.cu says of its parameters and launch bounds.
std::string golden(const std::string& name) {
  const auto path = std::filesystem::path(NIBBLE_SOURCE_DIR) / "src/cuda/test_data" / name;
  Result<std::string> text = read_file(path, 1 << 20);
  EXPECT_TRUE(text.ok());
  return text.ok() ? std::move(*text) : "";
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

struct Expected {
  const char* arch;
  int plain_registers;
  int stack;
  int stores;
  int loads;
  int constants;
};

class GoldenCubin : public testing::TestWithParam<Expected> {};

TEST_P(GoldenCubin, SaysWhatPtxasSaid) {
  const Expected expected = GetParam();
  const std::string base = fmt::format("golden_{}", expected.arch);
  Result<std::vector<KernelResources>> kernels = read_kernels(bytes_of(golden(base + ".cubin")));
  ASSERT_TRUE(kernels.ok()) << kernels.error().message;
  const Result<> told = add_log_facts(golden(base + ".log"), *kernels);
  ASSERT_TRUE(told.ok()) << told.error().message;
  Cubin cubin;
  cubin.kernels = *kernels;
  ASSERT_EQ(cubin.kernels.size(), 2U);

  const KernelResources* plain = cubin.kernel("plain");
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(plain->registers, expected.plain_registers);
  EXPECT_FALSE(plain->spills());
  EXPECT_EQ(plain->stack_bytes, 0);
  EXPECT_EQ(plain->static_shared_bytes, 400);  // 100 floats
  EXPECT_EQ(plain->max_threads, 0);            // no launch bounds
  EXPECT_EQ(plain->barriers, 1);
  EXPECT_EQ(plain->parameter_bytes, (std::vector<int>{8, 12}));

  const KernelResources* spill = cubin.kernel("spill");
  ASSERT_NE(spill, nullptr);
  EXPECT_EQ(spill->registers, 32);
  EXPECT_EQ(spill->spill_store_bytes, expected.stores);
  EXPECT_EQ(spill->spill_load_bytes, expected.loads);
  EXPECT_EQ(spill->stack_bytes, expected.stack);
  EXPECT_EQ(spill->static_shared_bytes, 0);
  EXPECT_EQ(spill->constant_bytes, expected.constants);
  EXPECT_EQ(spill->max_threads, 1024);
  EXPECT_EQ(spill->barriers, 0);
  EXPECT_EQ(spill->parameter_bytes, (std::vector<int>{8, 8, 4}));

  EXPECT_EQ(cubin.kernel("spil"), nullptr);
}

// ptxas gives cmem[0] for sm_80; for sm_90a it is 0x210 bytes before the parameters, then 20.
INSTANTIATE_TEST_SUITE_P(Architectures, GoldenCubin,
                         testing::Values(Expected{"sm_80", 10, 104, 208, 212, 372},
                                         Expected{"sm_90a", 12, 112, 204, 208, 548}),
                         [](const auto& test) { return std::string(test.param.arch); });

TEST(Cubin, IsRefusedWhereItIsCutOff) {
  const std::string whole = golden("golden_sm_90a.cubin");
  // The table of sections lies near the end, the program headers behind it are not ours to read.
  ASSERT_TRUE(read_kernels(bytes_of(whole)).ok());
  for (std::size_t size = 0; size < whole.size() - 512; size += 7) {
    const std::string part = whole.substr(0, size);
    const auto kernels = read_kernels(bytes_of(part));
    ASSERT_FALSE(kernels.ok()) << size;
    ASSERT_NE(kernels.error().message.find("the cubin is damaged"), std::string::npos);
  }
}

TEST(Cubin, NoDamageIsReadOutOfBounds) {
  const std::string whole = golden("golden_sm_80.cubin");
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char value : {'\0', '\x7f', '\xff'}) {
      std::string damaged = whole;
      damaged[at] = value;
      const auto kernels = read_kernels(bytes_of(damaged));
      ASSERT_TRUE(kernels.ok() || !kernels.error().message.empty()) << at;
    }
  }
}

TEST(Cubin, OtherFilesAreRefused) {
  EXPECT_FALSE(read_kernels({}).ok());
  EXPECT_FALSE(read_kernels(bytes_of(std::string(100, 'x'))).ok());
  const std::string program = golden("golden_sm_80.cubin");
  std::string other = program;
  other[18] = 62;  // e_machine: x86-64
  other[19] = 0;
  const auto kernels = read_kernels(bytes_of(other));
  ASSERT_FALSE(kernels.ok());
  EXPECT_NE(kernels.error().message.find("another machine"), std::string::npos);
}

// Spills that nobody told are not "none".
TEST(CubinLog, AKernelThatTheLogOmitsIsAnError) {
  std::vector<KernelResources> kernels(1);
  kernels[0].name = "w4a16";
  const Result<> told = add_log_facts(golden("golden_sm_90a.log"), kernels);
  ASSERT_FALSE(told.ok());
  EXPECT_NE(told.error().message.find("w4a16"), std::string::npos);
}

// As NVRTC 13.0 printed it for a kernel with wgmma and setmaxnreg.
TEST(CubinLog, NotesOfPtxasAreWarnings) {
  const std::string log =
      "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to "
      "determine register count at entry.\n"
      "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to "
      "determine register count at entry.\n"
      "ptxas info    : 0 bytes gmem\n"
      "add.cu(1): warning #177-D: variable \"unused\" was declared but never referenced\n"
      "  int unused;  // a warning of old\n\n"
      "Remark: The warnings can be suppressed with \"-diag-suppress <warning-number>\"\n"
      "ptxas warning : Value of threads per SM for entry add is out of range. .minnctapersm will "
      "be "
      "ignored\n";
  const std::vector<std::string> warnings = log_warnings(log);
  ASSERT_EQ(warnings.size(), 3U);
  EXPECT_NE(warnings[0].find("C7508"), std::string::npos);
  EXPECT_NE(warnings[1].find("#177-D"), std::string::npos);
  EXPECT_NE(warnings[2].find("minnctapersm"), std::string::npos);
}

TEST(CubinLog, AFunctionThatSpillsIsAWarning) {
  const std::string log =
      "ptxas info    : Compiling entry function 'calls' for 'sm_90a'\n"
      "ptxas info    : Function properties for calls\n"
      "ptxas         .     0 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n"
      "ptxas info    : Used 24 registers, used 2 barriers\n"
      "ptxas info    : Function properties for _Z6helperPfi\n"
      "ptxas         .     32 bytes stack frame, 28 bytes spill stores, 28 bytes spill loads\n";
  EXPECT_EQ(log_warnings(log), std::vector<std::string>{
                                   "the function _Z6helperPfi is not inlined and spills 28 bytes"});
  std::vector<KernelResources> kernels(1);
  kernels[0].name = "calls";
  ASSERT_TRUE(add_log_facts(log, kernels).ok());
  EXPECT_EQ(kernels[0].spill_store_bytes, 8);
  EXPECT_EQ(kernels[0].barriers, 2);
}

}  // namespace
}  // namespace nibble::cuda
