#include "cuda/compile.h"

#include <fstream>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/testing.h"
#include "cuda/cubin_cache.h"
#include "cuda/nvrtc.h"

namespace nibble::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAdd = R"(
#include "cuda/add.cuh"
extern "C" __global__ void __launch_bounds__(256) add(const float* a, float* b, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) b[i] = sum(a[i], b[i]) * SCALE;
}
)";
constexpr SourceFile kFiles[] = {
    {"cuda/add.cuh", "#pragma once\n#include \"cuda/deep.cuh\"\n"},
    {"cuda/deep.cuh", "constexpr float sum(float a, float b) { return a + b; }\n"},
    {"add.cu", kAdd}};

CompileRequest add_request() {
  return {.name = "add", .files = kFiles, .main = "add.cu", .defines = {"SCALE=2.0f"}};
}

std::string error_of(const Result<Cubin>& result) {
  return result.ok() ? "compiled" : result.error().message;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(Compile, RequestsThatCannotBeAreRefused) {
  CompileRequest request = add_request();
  for (const char* arch : {"", "90a", "sm_", "sm_9", "sm_90b", "sm_9000", "sm_90a -G", "compute_9",
                           "compute_", "compute_90 -G", "sm_080"}) {
    request.arch = arch;
    EXPECT_TRUE(contains(error_of(compile(request)), "is no architecture to compile add for"))
        << arch;
  }
  request = add_request();
  const SourceFile twice[] = {kFiles[0], kFiles[1], kFiles[2], kFiles[0]};
  request.files = twice;
  EXPECT_TRUE(contains(error_of(compile(request)), "two files named cuda/add.cuh"));
}

TEST(Compile, WithoutACompilerTheErrorSaysWhatItWouldGive) {
  const TemporaryFolder folder;
  const Result<const Nvrtc*> none = run_error("NVRTC was not found; install it");
  const std::string error = error_of(compile_with(add_request(), none, CubinCache(folder.path())));
  EXPECT_EQ(error, fmt::format("add is not compiled for sm_90a, and nothing fit to run is kept in "
                               "{}: NVRTC was not found; install it",
                               folder.path().string()));
}

TEST(Nvrtc, TheFirstErrorOfALog) {
  EXPECT_EQ(first_error("a.cu(3): warning #1: x\na.cu(4): error: y\na.cu(5): error: z\n"),
            "a.cu(4): error: y");
  EXPECT_EQ(first_error("ptxas application ptx input, line 24; error   : Unknown modifier '.i'\n"),
            "ptxas application ptx input, line 24; error   : Unknown modifier '.i'");
  EXPECT_EQ(first_error("a.cu(1): catastrophic error: cannot open source file \"x\"\n"),
            "a.cu(1): catastrophic error: cannot open source file \"x\"");
  EXPECT_EQ(first_error("ptxas info    : 0 bytes gmem\n"), "");
}

// What needs NVRTC. Each has a cache of its own.
class CompileWithNvrtc : public testing::Test {
 protected:
  void SetUp() override {
    if (const Result<std::string> found = compiler(); !found) {
      GTEST_SKIP() << found.error().message;
    }
  }
  Result<Cubin> compile_text(const char* text, const char* arch = "sm_90a") const {
    return compile({.name = "kernel", .main = text, .arch = arch});
  }

  const TemporaryFolder folder_;
  const ScopedEnvironment cache_{"NIBBLE_CUBIN_CACHE", folder_.path().c_str()};
};

TEST_F(CompileWithNvrtc, EveryArchitectureWithHeadersInMemory) {
  for (const char* arch : {"sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"}) {
    CompileRequest request = add_request();
    request.arch = arch;
    const Result<Cubin> cubin = compile(request);
    ASSERT_TRUE(cubin.ok()) << arch << ": " << cubin.error().message;
    EXPECT_EQ(cubin->arch, arch);
    EXPECT_FALSE(cubin->cached);
    EXPECT_EQ(cubin->note, "");
    EXPECT_TRUE(cubin->warnings.empty()) << cubin->warnings[0];
    ASSERT_EQ(cubin->kernels.size(), 1U);
    const KernelResources* kernel = cubin->kernel("add");
    ASSERT_NE(kernel, nullptr);
    // Two addresses of two registers, an index, two values: some more than 4, far below 32.
    EXPECT_GE(kernel->registers, 5);
    EXPECT_LE(kernel->registers, 32);
    EXPECT_FALSE(kernel->spills());
    EXPECT_EQ(kernel->stack_bytes, 0);
    EXPECT_EQ(kernel->static_shared_bytes, 0);
    EXPECT_EQ(kernel->max_threads, 256);
    EXPECT_EQ(kernel->parameter_bytes, (std::vector<int>{8, 8, 4}));
  }
}

TEST_F(CompileWithNvrtc, PtxOfOlderArchitectures) {
  for (const char* arch : {"compute_80", "compute_90", "compute_90a"}) {
    CompileRequest request = add_request();
    request.arch = arch;
    Result<Cubin> cubin = compile(request);
    ASSERT_TRUE(cubin.ok()) << arch << ": " << cubin.error().message;
    EXPECT_EQ(cubin->arch, arch);
    EXPECT_FALSE(cubin->cached);
    EXPECT_TRUE(cubin->warnings.empty()) << cubin->warnings[0];
    ASSERT_EQ(cubin->kernels.size(), 1U);
    const KernelResources& kernel = cubin->kernels[0];
    EXPECT_EQ(kernel.name, "add");
    EXPECT_EQ(kernel.parameter_bytes, (std::vector<int>{8, 8, 4}));
    EXPECT_EQ(kernel.max_threads, 256);
    // What only the driver's compiler will know.
    EXPECT_EQ(kernel.registers, std::nullopt);
    EXPECT_EQ(kernel.stack_bytes, std::nullopt);
    EXPECT_EQ(kernel.static_shared_bytes, std::nullopt);
    EXPECT_FALSE(kernel.spills_known());
    const std::string text(reinterpret_cast<const char*>(cubin->image.data()), cubin->image.size());
    EXPECT_EQ(text.find('\0'), text.size() - 1);
    const std::string target = std::string(".target sm_") + (arch + 8) + "\n";
    EXPECT_TRUE(contains(text, target)) << text.substr(0, 400);
    // As it is kept.
    const Result<Cubin> again = compile(request);
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_TRUE(again->cached);
    EXPECT_EQ(again->note, "");
    EXPECT_EQ(again->image, cubin->image);
    EXPECT_EQ(again->kernels[0].parameter_bytes, kernel.parameter_bytes);
  }
}

// Of each kind of parameter that NVRTC writes, the bytes of the C++ types.
TEST_F(CompileWithNvrtc, ParametersOfPtxAreThoseOfTheCubin) {
  constexpr const char* kText = R"(
struct Large { char bytes[5000]; };
struct alignas(16) Pair { const float* a; int n; };
extern "C" __global__ void __launch_bounds__(96, 2)
many(const __grid_constant__ Large l, int n, short s, char* out, bool b, float f, double d,
     const Pair p) {
  __shared__ int shared[332];
  shared[threadIdx.x] = l.bytes[n];
  __syncthreads();
  out[0] = shared[n] + s + b + f + d + p.a[p.n];
}
extern "C" __global__ void none() {}
)";
  for (const char* arch : {"sm_90a", "compute_90a", "compute_80"}) {
    const Result<Cubin> cubin = compile_text(kText, arch);
    ASSERT_TRUE(cubin.ok()) << cubin.error().message;
    ASSERT_NE(cubin->kernel("many"), nullptr);
    ASSERT_NE(cubin->kernel("none"), nullptr);
    EXPECT_EQ(cubin->kernel("many")->parameter_bytes,
              (std::vector<int>{5000, 4, 2, 8, 1, 4, 8, 16}))
        << arch;
    EXPECT_EQ(cubin->kernel("many")->max_threads, 96);
    EXPECT_TRUE(cubin->kernel("none")->parameter_bytes.empty());
    EXPECT_EQ(cubin->kernel("none")->max_threads, 0);
  }
}

// An entry with the checksum of its bytes, which are not what was asked for.
TEST_F(CompileWithNvrtc, KeptPtxThatIsNoneIsCompiledAgain) {
  CompileRequest request = add_request();
  request.arch = "compute_80";
  const Result<Cubin> first = compile(request);
  ASSERT_TRUE(first.ok()) << first.error().message;
  const std::string name = fs::directory_iterator(folder_.path())->path().stem().string();
  const std::size_t dash = name.find('-');
  const CubinCache cache(folder_.path());
  for (const auto& [from, to] : {std::pair("\n.target sm_80", "\n.target sm_90"),
                                 std::pair(".entry add(", ".entry (add"), std::pair("{", " ")}) {
    CacheEntry entry = *cache.find(name.substr(0, dash), name.substr(dash + 1)).entry;
    std::string text(reinterpret_cast<const char*>(entry.image.data()), entry.image.size());
    text.replace(text.find(from), std::string_view(from).size(), to);
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    entry.image.assign(bytes.begin(), bytes.end());
    ASSERT_TRUE(cache.keep(name.substr(0, dash), name.substr(dash + 1), entry).ok());
    const Result<Cubin> again = compile(request);
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_FALSE(again->cached) << from;
    EXPECT_TRUE(contains(again->note, "the PTX is damaged")) << again->note;
    EXPECT_EQ(again->image, first->image);
  }
}

TEST_F(CompileWithNvrtc, TheSecondTimeComesFromTheCache) {
  const Result<Cubin> first = compile(add_request());
  ASSERT_TRUE(first.ok()) << first.error().message;
  const Result<Cubin> second = compile(add_request());
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second->cached);
  EXPECT_EQ(second->image, first->image);
  EXPECT_EQ(second->log, first->log);
  EXPECT_EQ(second->compiler, first->compiler);
  EXPECT_EQ(second->kernels[0].registers, first->kernels[0].registers);
  EXPECT_EQ(second->kernels[0].parameter_bytes, first->kernels[0].parameter_bytes);
}

TEST_F(CompileWithNvrtc, WhateverChangesTheProgramIsCompiledAnew) {
  ASSERT_TRUE(compile(add_request()).ok());
  std::vector<CompileRequest> others(5, add_request());
  others[0].defines = {"SCALE=3.0f"};
  others[1].defines.push_back("OTHER");
  others[2].arch = "sm_90";
  const SourceFile changed[] = {
      kFiles[0],
      {"cuda/deep.cuh", "constexpr float sum(float a, float b) { return a - b; }\n"},
      kFiles[2]};
  others[3].files = changed;
  others[4].options = {"--generate-line-info"};
  for (const CompileRequest& request : others) {
    const Result<Cubin> cubin = compile(request);
    ASSERT_TRUE(cubin.ok()) << cubin.error().message;
    EXPECT_FALSE(cubin->cached);
  }
  // The order in which the files are given does not.
  CompileRequest turned = add_request();
  const SourceFile reversed[] = {kFiles[2], kFiles[1], kFiles[0]};
  turned.files = reversed;
  EXPECT_TRUE(compile(turned)->cached);
}

TEST_F(CompileWithNvrtc, WhatIsKeptRunsWhereThereIsNoNvrtc) {
  const Result<Cubin> here = compile(add_request());
  ASSERT_TRUE(here.ok());
  const Result<const Nvrtc*> none = run_error("NVRTC was not found");
  const Result<Cubin> there = compile_with(add_request(), none, CubinCache(folder_.path()));
  ASSERT_TRUE(there.ok()) << there.error().message;
  EXPECT_TRUE(there->cached);
  EXPECT_EQ(there->image, here->image);
  EXPECT_EQ(there->note,
            fmt::format("compiled earlier by {}; there is no NVRTC here", here->compiler));
}

TEST_F(CompileWithNvrtc, ADamagedEntryIsCompiledAgain) {
  const Result<Cubin> first = compile(add_request());
  ASSERT_TRUE(first.ok());
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_.path())) {
    fs::resize_file(entry.path(), entry.file_size() / 2);
  }
  const Result<Cubin> again = compile(add_request());
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_FALSE(again->cached);
  EXPECT_EQ(again->image, first->image);
  EXPECT_TRUE(contains(again->note, "was damaged and was compiled again")) << again->note;
  EXPECT_TRUE(compile(add_request())->cached);
}

TEST_F(CompileWithNvrtc, AFolderThatCannotBeWrittenIsANote) {
  ASSERT_TRUE(write_file(folder_.path() / "file", "in the way").ok());
  const ScopedEnvironment blocked("NIBBLE_CUBIN_CACHE", (folder_.path() / "file/x").c_str());
  const Result<Cubin> cubin = compile(add_request());
  ASSERT_TRUE(cubin.ok()) << cubin.error().message;
  EXPECT_FALSE(cubin->cached);
  EXPECT_TRUE(contains(cubin->note, "the compiled kernels are not kept")) << cubin->note;
}

// 96 values that live through a loop, of a kernel that may use 32 registers (65536 / 2048 threads).
TEST_F(CompileWithNvrtc, AForcedSpillIsTold) {
  const Result<Cubin> cubin = compile_text(R"(
extern "C" __global__ void __launch_bounds__(1024, 2) spill(const float* in, float* out, int rounds) {
  float v[96];
#pragma unroll
  for (int i = 0; i < 96; ++i) v[i] = in[threadIdx.x + i * 1024];
#pragma unroll 1
  for (int r = 0; r < rounds; ++r) {
#pragma unroll
    for (int i = 0; i < 96; ++i) v[i] = v[i] * v[(i * 7 + 1) % 96] + 1.0f;
  }
#pragma unroll
  for (int i = 0; i < 96; ++i) out[threadIdx.x + i * 1024] = v[i];
}
)");
  ASSERT_TRUE(cubin.ok()) << cubin.error().message;
  const KernelResources& kernel = cubin->kernels.at(0);
  EXPECT_EQ(kernel.registers, 32);
  EXPECT_TRUE(kernel.spills());
  // At least the 64 values that 32 registers cannot hold go out and come back.
  EXPECT_GE(kernel.spill_store_bytes, 64 * 4);
  EXPECT_GE(kernel.spill_load_bytes, 64 * 4);
  EXPECT_GE(kernel.stack_bytes, 64 * 4);
}

TEST_F(CompileWithNvrtc, SharedMemoryAndLargeParametersAreTold) {
  const Result<Cubin> cubin = compile_text(R"(
struct Large { char bytes[5000]; };
extern "C" __global__ void large(const __grid_constant__ Large l, int n, short s, char* out) {
  __shared__ int shared[332];
  extern __shared__ char dynamic[];
  shared[threadIdx.x] = l.bytes[n];
  dynamic[threadIdx.x] = s;
  __syncthreads();
  out[0] = shared[n] + dynamic[n];
}
)");
  ASSERT_TRUE(cubin.ok()) << cubin.error().message;
  const KernelResources& kernel = cubin->kernels.at(0);
  EXPECT_EQ(kernel.static_shared_bytes, 332 * 4);
  EXPECT_EQ(kernel.parameter_bytes, (std::vector<int>{5000, 4, 2, 8}));
  EXPECT_GE(kernel.constant_bytes, 5000 + 16);
  EXPECT_EQ(kernel.barriers, 1);
}

TEST_F(CompileWithNvrtc, ASyntaxErrorComesWithItsLine) {
  const Result<Cubin> cubin =
      compile_text("extern \"C\" __global__ void k(int* o) {\n  *o = x;\n}\n");
  ASSERT_FALSE(cubin.ok());
  const std::string error = cubin.error().message;
  EXPECT_TRUE(error.starts_with("kernel does not compile for sm_90a with NVRTC ")) << error;
  EXPECT_TRUE(contains(error,
                       "kernel.cu(2): error: identifier \"x\" is undefined; the compiler's "
                       "log:\n"))
      << error;
  EXPECT_TRUE(contains(error, "  *o = x;\n")) << error;
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(CompileWithNvrtc, AnInstructionThatTheAssemblerDoesNotKnow) {
  const std::string error =
      error_of(compile_text("extern \"C\" __global__ void k() { asm volatile(\"bogus.f32;\"); }"));
  EXPECT_TRUE(contains(error, "Not a name of any known instruction: 'bogus'")) << error;
}

// What ptxas says of it stands behind a zero in NVRTC's log.
TEST_F(CompileWithNvrtc, TooMuchStaticSharedMemory) {
  const std::string error = error_of(
      compile_text("extern \"C\" __global__ void k(float* o) { __shared__ float s[100000];\n"
                   "s[threadIdx.x] = 1; __syncthreads(); o[0] = s[3]; }"));
  EXPECT_TRUE(contains(error, "Entry function 'k' uses too much shared data")) << error;
}

TEST_F(CompileWithNvrtc, NoFolderIsSearchedForHeaders) {
  ASSERT_TRUE(write_file(folder_.path() / "leak.cuh", "#define LEAK 1\n").ok());
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  const std::string error =
      error_of(compile_text("#include \"leak.cuh\"\nextern \"C\" __global__ void k() {}"));
  fs::current_path(before);
  EXPECT_TRUE(contains(error, "leak.cuh")) << error;
  EXPECT_TRUE(contains(error, "does not compile")) << error;
}

TEST_F(CompileWithNvrtc, AnArchitectureThatItDoesNotKnow) {
  const std::string error = error_of(compile_text("extern \"C\" __global__ void k() {}", "sm_30"));
  EXPECT_TRUE(contains(error, "cannot compile kernel for sm_30; it knows sm_")) << error;
}

TEST_F(CompileWithNvrtc, AnIgnoredSetmaxnregIsAWarning) {
  const Result<Cubin> cubin = compile_text(
      "extern \"C\" __global__ void __launch_bounds__(128) k(int* o) {\n"
      "  asm volatile(\"setmaxnreg.dec.sync.aligned.u32 40;\");\n  *o = 1;\n}\n");
  ASSERT_TRUE(cubin.ok()) << cubin.error().message;
  ASSERT_EQ(cubin->warnings.size(), 1U);
  EXPECT_TRUE(contains(cubin->warnings[0], "C7508")) << cubin->warnings[0];
}

TEST_F(CompileWithNvrtc, AProgramWithoutKernels) {
  const Result<Cubin> cubin = compile_text("int x;");
  ASSERT_TRUE(cubin.ok()) << cubin.error().message;
  EXPECT_TRUE(cubin->kernels.empty());
}

}  // namespace
}  // namespace nibble::cuda
