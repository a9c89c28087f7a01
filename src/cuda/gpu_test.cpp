// What only a GPU can tell. Without one, or without NVRTC and a kept cubin, each test says why it
// is skipped.
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <optional>

#include "base/testing.h"
#include "cuda/compile.h"
#include "cuda/memory.h"
#include "cuda/module.h"

namespace nibble::cuda {
namespace {

constexpr const char* kProgram = R"(
struct Params {
  const float* in;
  float* out;
  int count;
  float factor;
};

extern "C" __global__ void __launch_bounds__(128) scale(const __grid_constant__ Params p) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i < p.count) p.out[i] = p.in[i] * p.factor;
}

// Waits for the kernel before it (griddepcontrol.wait) before it reads what that one wrote.
extern "C" __global__ void __launch_bounds__(128) add_one(float* values, int count) {
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i < count) values[i] += 1.0f;
}

// Each block writes its rank within its cluster.
extern "C" __global__ void ranks(unsigned* out) {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) out[blockIdx.x] = rank;
}

// Turns the order of the block's values, through as much shared memory as there is.
extern "C" __global__ void turn(float* values, int last) {
  extern __shared__ float shared[];
  shared[last - threadIdx.x] = values[threadIdx.x];
  __syncthreads();
  values[threadIdx.x] = shared[last - blockDim.x + 1 + threadIdx.x];
}

extern "C" __global__ void astray(float* nowhere) {
  nowhere[threadIdx.x] = 1.0f;
}
)";

struct Params {
  DevicePointer in;
  DevicePointer out;
  int count;
  float factor;
};

CompileRequest program_for(const std::string& arch) {
  return {.name = "runtime_test", .main = kProgram, .arch = arch};
}

// Of the same text what an earlier architecture has, and an array that no register holds.
CompileRequest ptx_program() {
  return {.name = "runtime_test_ptx",
          .main = R"(
extern "C" __global__ void __launch_bounds__(128) twice(const float* in, float* out, int count) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i < count) out[i] = in[i] * 2.0f;
}
extern "C" __global__ void turned(const int* in, int* out, int at) {
  int values[64];
#pragma unroll 1
  for (int i = 0; i < 64; ++i) values[(in[i] + i) & 63] = in[i];
  out[threadIdx.x] = values[(threadIdx.x + at) & 63];
}
)",
          .arch = "compute_80"};
}

// Needs no GPU. With NIBBLE_CUBIN_CACHE set it also fills that folder for a GPU's machine without
// NVRTC.
TEST(RuntimeProgram, CompilesForGpusWithProgrammaticLaunch) {
  if (const Result<std::string> found = compiler(); !found) GTEST_SKIP() << found.error().message;
  const TemporaryFolder folder;
  const char* chosen = std::getenv("NIBBLE_CUBIN_CACHE");
  const ScopedEnvironment cache("NIBBLE_CUBIN_CACHE",
                                chosen != nullptr ? chosen : folder.path().c_str());
  for (const char* arch : {"sm_90a", "sm_100a", "sm_120a"}) {
    const Result<Cubin> cubin = compile(program_for(arch));
    ASSERT_TRUE(cubin.ok()) << cubin.error().message;
    EXPECT_EQ(cubin->kernels.size(), 5U);
    EXPECT_TRUE(cubin->warnings.empty()) << cubin->warnings[0];
  }
  const Result<Cubin> ptx = compile(ptx_program());
  ASSERT_TRUE(ptx.ok()) << ptx.error().message;
  EXPECT_EQ(ptx->kernels.size(), 2U);
}

class CudaRuntime : public testing::Test {
 protected:
  void SetUp() override {
    Result<Device> device = Device::open(0);
    if (!device) GTEST_SKIP() << device.error().message;
    device_.emplace(std::move(*device));
    // Programmatic launch and clusters exist from 9.0 on.
    if (device_->info().major < 9) GTEST_SKIP() << "these kernels are for sm_90 and later";
    const Result<Cubin> cubin = compile(program_for(device_->info().arch()));
    if (!cubin) GTEST_SKIP() << cubin.error().message;
    Result<Module> module = Module::load(*device_, *cubin);
    ASSERT_TRUE(module.ok()) << module.error().message;
    module_.emplace(std::move(*module));
    Result<Stream> stream = Stream::make();
    ASSERT_TRUE(stream.ok()) << stream.error().message;
    stream_.emplace(std::move(*stream));
  }
  Kernel kernel(const char* name) {
    Result<Kernel> found = module_->kernel(name);
    EXPECT_TRUE(found.ok()) << (found.ok() ? "" : found.error().message);
    return std::move(*found);
  }

  std::optional<Device> device_;
  std::optional<Module> module_;
  std::optional<Stream> stream_;
};

#define NIBBLE_EXPECT_OK(...)                                        \
  if (const Result<> nibble_done = (__VA_ARGS__); !nibble_done.ok()) \
  FAIL() << nibble_done.error().message

std::vector<float> count_up(std::size_t count) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 1000));
  return values;
}

TEST_F(CudaRuntime, TheDeviceSaysWhatItIs) {
  const DeviceInfo& info = device_->info();
  EXPECT_FALSE(info.name.empty());
  EXPECT_GT(info.sms, 0);
  EXPECT_GT(info.memory_bytes, 1e9);
  EXPECT_GT(info.l2_bytes, 1e6);
  EXPECT_GE(info.shared_per_block_optin, 99 << 10);
  EXPECT_EQ(info.registers_per_sm, 65536);
  EXPECT_EQ(info.uuid.size(), 40U);
  const Result<double> available = device_->free_memory_bytes();
  ASSERT_TRUE(available.ok());
  EXPECT_GT(*available, 0);
  EXPECT_LE(*available, info.memory_bytes);
}

TEST_F(CudaRuntime, BuffersRoundTrip) {
  const std::vector<float> values = count_up(100'003);
  Result<DeviceBuffer> buffer = DeviceBuffer::of(values);
  ASSERT_TRUE(buffer.ok()) << buffer.error().message;
  EXPECT_EQ(buffer->address() % 256, 0U);
  EXPECT_EQ(*buffer->read<float>(), values);

  PinnedBuffer host = PinnedBuffer::make(values.size() * sizeof(float)).value();
  DeviceBuffer copy = DeviceBuffer::make(host.size()).value();
  NIBBLE_EXPECT_OK(copy.fill(0xff, *stream_));
  NIBBLE_EXPECT_OK(copy.copy(*buffer, *stream_));
  NIBBLE_EXPECT_OK(copy.download(host, *stream_));
  NIBBLE_EXPECT_OK(stream_->synchronize());
  EXPECT_TRUE(std::equal(values.begin(), values.end(), host.as<float>().begin()));
  host.as<float>()[7] = -1;
  NIBBLE_EXPECT_OK(buffer->upload(host, *stream_));
  NIBBLE_EXPECT_OK(stream_->synchronize());
  EXPECT_EQ((*buffer->read<float>())[7], -1);
}

TEST_F(CudaRuntime, TheDriverAgreesAboutResources) {
  for (const char* name : {"scale", "add_one", "ranks", "turn"}) {
    const Kernel found = kernel(name);
    EXPECT_EQ(found.registers(), found.resources().registers) << name;
    EXPECT_FALSE(found.resources().spills()) << name;
    const Result<int> blocks = found.blocks_per_sm(128, 0);
    ASSERT_TRUE(blocks.ok()) << blocks.error().message;
    EXPECT_GE(*blocks, 8) << name;
  }
  EXPECT_EQ(kernel("scale").max_threads(), 128);
  EXPECT_EQ(kernel("scale").max_dynamic_shared(),
            static_cast<std::size_t>(device_->info().shared_per_block_optin));
}

TEST_F(CudaRuntime, ALaunchComputes) {
  const std::vector<float> values = count_up(1000);
  DeviceBuffer in = DeviceBuffer::of(values).value();
  DeviceBuffer out = DeviceBuffer::make(in.size()).value();
  NIBBLE_EXPECT_OK(out.fill(0xff));
  const Params params{in.address(), out.address(), 999, 3.0F};
  NIBBLE_EXPECT_OK(launch(kernel("scale"), {.grid = {8}, .block = {128}}, *stream_, params));
  const std::vector<float> scaled = *out.read<float>();
  for (std::size_t i = 0; i < 999; ++i) ASSERT_EQ(scaled[i], 3.0F * values[i]) << i;
  EXPECT_NE(scaled[999], scaled[999]);  // untouched: not a number
}

TEST_F(CudaRuntime, PtxOfAnEarlierArchitecture) {
  const Result<Cubin> ptx = compile(ptx_program());
  ASSERT_TRUE(ptx.ok()) << ptx.error().message;
  const Module module = Module::load(*device_, *ptx).value();
  const Kernel twice = module.kernel("twice").value();
  EXPECT_EQ(twice.ptx_version(), 80);
  EXPECT_EQ(twice.binary_version(), 10 * device_->info().major + device_->info().minor);
  EXPECT_EQ(twice.resources().registers, twice.registers());
  EXPECT_GT(twice.registers(), 0);
  EXPECT_TRUE(twice.resources().spills_known());
  EXPECT_FALSE(twice.resources().spills());
  EXPECT_GE(module.kernel("turned").value().resources().stack_bytes, 64 * 4);
  const std::vector<float> values = count_up(1000);
  DeviceBuffer in = DeviceBuffer::of(values).value();
  DeviceBuffer out = DeviceBuffer::make(in.size()).value();
  NIBBLE_EXPECT_OK(
      launch(twice, {.grid = {8}, .block = {128}}, *stream_, in.address(), out.address(), 1000));
  const std::vector<float> doubled = *out.read<float>();
  for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(doubled[i], 2.0F * values[i]) << i;
}

TEST_F(CudaRuntime, DynamicSharedMemoryUpToTheLimit) {
  const Kernel turn = kernel("turn");
  const std::size_t most = turn.max_dynamic_shared();
  DeviceBuffer values = DeviceBuffer::of(count_up(64)).value();
  const int last = static_cast<int>(most / sizeof(float)) - 1;
  NIBBLE_EXPECT_OK(
      launch(turn, {.block = {64}, .dynamic_shared = most}, *stream_, values.address(), last));
  const std::vector<float> turned = *values.read<float>();
  for (std::size_t i = 0; i < 64; ++i) ASSERT_EQ(turned[i], static_cast<float>(63 - i));
  EXPECT_FALSE(
      launch(turn, {.block = {64}, .dynamic_shared = most + 1}, *stream_, values.address(), last)
          .ok());
}

TEST_F(CudaRuntime, ClustersHaveTheirSize) {
  DeviceBuffer out = DeviceBuffer::make(8 * sizeof(unsigned)).value();
  NIBBLE_EXPECT_OK(
      launch(kernel("ranks"), {.grid = {8}, .block = {32}, .cluster = 4}, *stream_, out.address()));
  EXPECT_EQ(*out.read<unsigned>(), (std::vector<unsigned>{0, 1, 2, 3, 0, 1, 2, 3}));
}

TEST_F(CudaRuntime, EventsTellTheTimeBetweenThem) {
  Event begin = Event::make().value();
  Event end = Event::make().value();
  DeviceBuffer buffer = DeviceBuffer::make(std::size_t{64} << 20).value();
  NIBBLE_EXPECT_OK(begin.record(*stream_));
  NIBBLE_EXPECT_OK(buffer.fill(1, *stream_));
  NIBBLE_EXPECT_OK(end.record(*stream_));
  const Result<double> ms = Event::elapsed_ms(begin, end);
  ASSERT_TRUE(ms.ok()) << ms.error().message;
  EXPECT_GT(*ms, 0.001);  // 64 MB in a microsecond would be 64 TB/s
  EXPECT_LT(*ms, 1000);
}

// Ten kernels in a row, each of which waits for the one before it inside of itself: eager and as a
// graph that is replayed.
TEST_F(CudaRuntime, ProgrammaticLaunchesInAGraph) {
  constexpr int kCount = 1 << 20;
  DeviceBuffer values = DeviceBuffer::make(kCount * sizeof(float)).value();
  NIBBLE_EXPECT_OK(values.fill(0));
  const Kernel add_one = kernel("add_one");
  const auto enqueue = [&]() -> Result<> {
    for (int i = 0; i < 10; ++i) {
      const Launch shape{.grid = {kCount / 128}, .block = {128}, .programmatic = i > 0};
      NIBBLE_RETURN_IF_ERROR(launch(add_one, shape, *stream_, values.address(), kCount));
    }
    return {};
  };
  NIBBLE_EXPECT_OK(enqueue());
  EXPECT_EQ(*values.read<float>(), std::vector<float>(kCount, 10.0F));
  Result<Graph> graph = stream_->capture(enqueue);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_EQ(graph->nodes(), 10U);
  EXPECT_EQ((*values.read<float>())[0], 10.0F);  // a capture runs nothing
  for (int replay = 0; replay < 3; ++replay) NIBBLE_EXPECT_OK(graph->launch(*stream_));
  NIBBLE_EXPECT_OK(stream_->synchronize());
  EXPECT_EQ(*values.read<float>(), std::vector<float>(kCount, 40.0F));
}

TEST_F(CudaRuntime, AnEventInsideAGraphIsRecordedAtEachReplay) {
  Event begin = Event::make().value();
  Event end = Event::make().value();
  DeviceBuffer buffer = DeviceBuffer::make(std::size_t{64} << 20).value();
  Result<Graph> graph = stream_->capture([&]() -> Result<> {
    NIBBLE_RETURN_IF_ERROR(begin.record_in_graph(*stream_));
    NIBBLE_RETURN_IF_ERROR(buffer.fill(1, *stream_));
    return end.record_in_graph(*stream_);
  });
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  NIBBLE_EXPECT_OK(graph->launch(*stream_));
  NIBBLE_EXPECT_OK(stream_->synchronize());
  const Result<double> ms = Event::elapsed_ms(begin, end);
  ASSERT_TRUE(ms.ok()) << ms.error().message;
  EXPECT_GT(*ms, 0.001);
}

TEST_F(CudaRuntime, ACaptureThatAllocatesIsRefused) {
  const Result<Graph> graph = stream_->capture([&]() -> Result<> {
    NIBBLE_ASSIGN_OR_RETURN(const DeviceBuffer buffer, DeviceBuffer::make(1 << 20));
    return {};
  });
  ASSERT_FALSE(graph.ok());
  EXPECT_NE(graph.error().message.find("cuMemAlloc"), std::string::npos) << graph.error().message;
  // The stream is as good as before.
  DeviceBuffer buffer = DeviceBuffer::make(16).value();
  NIBBLE_EXPECT_OK(buffer.fill(1, *stream_));
  NIBBLE_EXPECT_OK(stream_->synchronize());
}

TEST_F(CudaRuntime, TwoStreamsOrderedByAnEvent) {
  constexpr int kCount = 1 << 20;
  Stream second = Stream::make().value();
  Event filled = Event::make().value();
  DeviceBuffer values = DeviceBuffer::make(kCount * sizeof(float)).value();
  NIBBLE_EXPECT_OK(values.fill(0, *stream_));
  NIBBLE_EXPECT_OK(filled.record(*stream_));
  NIBBLE_EXPECT_OK(second.wait(filled));
  NIBBLE_EXPECT_OK(launch(kernel("add_one"), {.grid = {kCount / 128}, .block = {128}}, second,
                          values.address(), kCount));
  NIBBLE_EXPECT_OK(second.synchronize());
  EXPECT_EQ(*values.read<float>(), std::vector<float>(kCount, 1.0F));
}

// In a process of its own: after an illegal access none can use the GPU any more.
void go_astray() {
  const Result<Device> device = Device::open(0);
  const Result<Cubin> cubin = compile(program_for(device->info().arch()));
  const Result<Module> module = Module::load(*device, *cubin);
  const Result<Kernel> astray = module->kernel("astray");
  Stream stream = Stream::make().value();
  const Result<> launched = launch(*astray, {.block = {32}}, stream, DevicePointer{64});
  const Result<> done = launched.ok() ? stream.synchronize() : launched;
  std::fprintf(stderr, "%s\n", done.ok() ? "no error" : done.error().message.c_str());
  std::_Exit(done.ok() ? 0 : 1);
}

class CudaFault : public CudaRuntime {};  // left out under compute-sanitizer, which objects

TEST_F(CudaFault, AnIllegalAccessNamesItsKernel) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(go_astray(), testing::ExitedWithCode(1),
              "cuStreamSynchronize after astray: CUDA_ERROR_[A-Z_]+ \\(7[0-9][0-9]\\): ");
}

}  // namespace
}  // namespace nibble::cuda
