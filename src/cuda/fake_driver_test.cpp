// The owners, the launch and the errors against a stand-in for the driver (fake_driver.c), which is
// opened first and is then found by its name.
#include <cstdint>
#include <gtest/gtest.h>

#include "base/dynamic_library.h"
#include "base/file.h"
#include "cuda/memory.h"
#include "cuda/module.h"

namespace nibble::cuda {
namespace {

struct LastLaunch {
  char kernel[64];
  unsigned numbers[7];
  unsigned programmatic;
  unsigned cluster;
  int first_parameter;
  int count;
};

const DynamicLibrary& fake() {
  static const DynamicLibrary library = DynamicLibrary::open({NIBBLE_FAKE_DRIVER});
  return library;
}

int live() {
  return fake().symbol<int()>("fake_live")();
}

const LastLaunch& last() {
  return *static_cast<const LastLaunch*>(fake().symbol<const void*()>("fake_last")());
}

class FakeDriver : public testing::Test {
 protected:
  void SetUp() override {
    if (!fake()) GTEST_SKIP() << "the stand-in for the driver is not here: " << fake().reason();
    Result<Device> opened = Device::open(1);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    device_.emplace(std::move(*opened));
    before_ = live();
  }
  void TearDown() override {
    if (!fake()) return;
    fake().symbol<void()>("fake_recover")();
    EXPECT_EQ(live(), before_);  // whatever was made is destroyed, in its context
    device_.reset();
    EXPECT_EQ(fake().symbol<int()>("fake_retained")(), 0);
    LaunchTrail::of_thread().clear();
  }

  Stream stream() { return Stream::make().value(); }
  // A kernel of the given name that takes an int and a pointer.
  Kernel kernel(const std::string& name) {
    Cubin cubin{.program = "program", .arch = "sm_90a", .compiler = "NVRTC 13.0"};
    for (const char byte : {'\177', 'E', 'L', 'F'}) {
      cubin.image.push_back(static_cast<std::byte>(byte));
    }
    cubin.kernels = {{.name = name, .parameter_bytes = {4, 8}}, {.name = "other"}};
    Result<Module> module = Module::load(*device_, cubin);
    EXPECT_TRUE(module.ok()) << module.error().message;
    return module->kernel(name).value();
  }
  static Result<> launch_one(const Kernel& kernel, Stream& stream, const Launch& shape = {}) {
    return launch(kernel, shape, stream, 7, std::uint64_t{8});
  }

  std::optional<Device> device_;
  int before_ = 0;
};

std::string message(const Result<>& result) {
  return result.ok() ? "success" : result.error().message;
}

TEST_F(FakeDriver, ADeviceDescribesItself) {
  const DeviceInfo& info = device_->info();
  EXPECT_EQ(info.name, "Fake GPU");
  EXPECT_EQ(info.arch(), "sm_90a");
  EXPECT_EQ(info.sms, 1016);  // the stand-in's attributes are 1000 + their number (cuda.h)
  EXPECT_EQ(info.l2_bytes, 1038);
  EXPECT_EQ(info.shared_per_sm, 1081);
  EXPECT_EQ(info.registers_per_sm, 1082);
  EXPECT_EQ(info.shared_per_block_optin, 232448);
  EXPECT_EQ(info.clock_khz, 1013);
  EXPECT_EQ(info.memory_bytes, 1 << 20);
  EXPECT_EQ(info.uuid, "GPU-01112131-4151-6171-8191-a1b1c1d1e1f1");
  EXPECT_EQ(info.pci, "0000:3B:00.0");
  for (const int ordinal : {-1, 2}) {
    EXPECT_EQ(Device::open(ordinal).error().message,
              fmt::format("there is no GPU {}: this process sees 2, counted from 0", ordinal));
  }
}

TEST_F(FakeDriver, BuffersMoveAndHoldTheirBytes) {
  const std::vector<int> values = {1, 2, 3, 4};
  Result<DeviceBuffer> made = DeviceBuffer::of(values);
  ASSERT_TRUE(made.ok()) << made.error().message;
  DeviceBuffer buffer = std::move(*made);
  DeviceBuffer other = DeviceBuffer::make(4).value();
  other = std::move(buffer);  // frees the four bytes
  EXPECT_EQ(live(), before_ + 1);
  EXPECT_EQ(*other.read<int>(), values);
  const int seven = 7;
  ASSERT_TRUE(other.upload(std::as_bytes(std::span(&seven, 1)), 8).ok());
  EXPECT_EQ(*other.read<int>(), (std::vector<int>{1, 2, 7, 4}));
  EXPECT_EQ(message(other.upload(std::as_bytes(std::span(values)), 4)),
            "an upload of 16 bytes at byte 4 does not fit into a device buffer of 16");
  EXPECT_EQ(message(other.upload({}, SIZE_MAX)),
            fmt::format("an upload of 0 bytes at byte {} does not fit into a device buffer of 16",
                        SIZE_MAX));
  ASSERT_TRUE(other.fill(0xff).ok());
  EXPECT_EQ(*other.read<int>(), std::vector<int>(4, -1));
}

TEST_F(FakeDriver, TransfersOfAStream) {
  Stream work = stream();
  PinnedBuffer host = PinnedBuffer::make(8).value();
  host.as<int>()[0] = 5;
  host.as<int>()[1] = 6;
  DeviceBuffer buffer = DeviceBuffer::make(8).value();
  DeviceBuffer copy = DeviceBuffer::make(12).value();
  ASSERT_TRUE(copy.fill(0, work).ok());
  ASSERT_TRUE(buffer.upload(host, work).ok());
  ASSERT_TRUE(copy.copy(buffer, work).ok());
  EXPECT_EQ(*copy.read<int>(), (std::vector<int>{5, 6, 0}));
  EXPECT_FALSE(buffer.copy(copy, work).ok());
  PinnedBuffer back = PinnedBuffer::make(8).value();
  ASSERT_TRUE(buffer.download(back, work).ok());
  EXPECT_EQ(back.as<int>()[1], 6);
}

TEST_F(FakeDriver, MemoryThatIsNotThere) {
  const Result<DeviceBuffer> made = DeviceBuffer::make(std::size_t{1} << 40);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message,
            "no 1.100 TB of the GPU's memory, of which 524.3 kB are free: cuMemAlloc: "
            "CUDA_ERROR_OUT_OF_MEMORY (2): fake words");
}

TEST_F(FakeDriver, ALaunchPassesItsShape) {
  Stream work = stream();
  const Kernel add = kernel("add");
  EXPECT_EQ(add.registers(), 32);
  EXPECT_EQ(add.max_threads(), 256);
  EXPECT_EQ(add.max_dynamic_shared(), 232448U - 400U);
  EXPECT_EQ(*add.blocks_per_sm(256, 0), 8);
  const Launch shape{.grid = {8, 2, 3},
                     .block = {32, 4, 2},
                     .dynamic_shared = 200000,
                     .programmatic = true,
                     .cluster = 4};
  ASSERT_EQ(message(launch_one(add, work, shape)), "success");
  EXPECT_STREQ(last().kernel, "add");
  const unsigned expected[] = {8, 2, 3, 32, 4, 2, 200000};
  EXPECT_TRUE(std::equal(std::begin(expected), std::end(expected), last().numbers));
  EXPECT_EQ(last().programmatic, 1U);
  EXPECT_EQ(last().cluster, 4U);
  EXPECT_EQ(last().first_parameter, 7);
  ASSERT_TRUE(launch_one(add, work).ok());
  EXPECT_EQ(last().programmatic, 0U);
  EXPECT_EQ(last().cluster, 0U);
}

TEST_F(FakeDriver, AnEmptyGridIsNoLaunch) {
  Stream work = stream();
  const Kernel add = kernel("add");
  const int before = last().count;
  EXPECT_TRUE(launch_one(add, work, {.grid = {0}}).ok());
  EXPECT_TRUE(launch_one(add, work, {.grid = {1, 1, 0}}).ok());
  EXPECT_EQ(last().count, before);
}

TEST_F(FakeDriver, LaunchesThatCannotBeAreRefused) {
  Stream work = stream();
  const Kernel add = kernel("add");
  EXPECT_EQ(message(launch(add, {}, work, 7)),
            "add takes parameters of these bytes: 4, 8; it was given 4");
  EXPECT_EQ(message(launch(add, {}, work)),
            "add takes parameters of these bytes: 4, 8; it was given none");
  EXPECT_EQ(message(launch(add, {}, work, 7, 8)),
            "add takes parameters of these bytes: 4, 8; it was given 4, 4");
  EXPECT_EQ(message(launch_one(add, work, {.block = {257}})),
            "add takes blocks of 1 to 256 threads; it was given 257");
  EXPECT_EQ(message(launch_one(add, work, {.block = {65536, 65536, 65536}})),
            "add takes blocks of 1 to 256 threads; it was given 281474976710656");
  EXPECT_EQ(message(launch_one(add, work, {.block = {0}})),
            "add takes blocks of 1 to 256 threads; it was given 0");
  EXPECT_EQ(message(launch_one(add, work, {.dynamic_shared = 232049})),
            "add wants 232049 bytes of dynamic shared memory, and the GPU has 232048 for it");
  EXPECT_EQ(message(launch_one(add, work, {.grid = {6}, .cluster = 4})),
            "add is given clusters of 4 blocks: 1 to 8, which divide the grid of 6, can be");
  EXPECT_FALSE(launch_one(add, work, {.cluster = 0}).ok());
  EXPECT_EQ(message(launch_one(kernel("refused"), work)),
            "cuLaunchKernelEx of refused: CUDA_ERROR_INVALID_VALUE (1): fake words");
}

TEST_F(FakeDriver, AKernelThatIsNotInTheModule) {
  Cubin cubin{.program = "w4a16", .image = {}, .kernels = {{.name = "a"}, {.name = "b"}}};
  cubin.image.resize(8);
  const Result<Module> damaged = Module::load(*device_, cubin);
  ASSERT_FALSE(damaged.ok());
  EXPECT_TRUE(damaged.error().message.starts_with("cuModuleLoadData of w4a16: CUDA error (200)"));
  EXPECT_TRUE(damaged.error().message.ends_with("the GPU is sm_90a and its driver for CUDA 12.8"));
  for (std::size_t i = 0; i < 4; ++i) cubin.image[i] = static_cast<std::byte>("\177ELF"[i]);
  const Result<Module> module = Module::load(*device_, cubin);
  ASSERT_TRUE(module.ok());
  EXPECT_EQ(module->kernel("c").error().message, "w4a16 has no kernel c; it has a, b");
}

Cubin ptx_program(const std::string& body) {
  const std::string text = ".version 9.0\n.target sm_80\n" + body;
  Cubin cubin{.program = "program", .arch = "compute_80", .compiler = "NVRTC 13.0"};
  for (const char byte : text) cubin.image.push_back(static_cast<std::byte>(byte));
  cubin.image.push_back(std::byte{0});
  cubin.kernels = {{.name = "add", .max_threads = 128, .parameter_bytes = {4, 8}},
                   {.name = "stacked", .parameter_bytes = {4, 8}}};
  return cubin;
}

// The stand-in's driver says 32 registers, 400 bytes of shared memory, and a stack of 24 bytes for
// the kernel of that name.
TEST_F(FakeDriver, WhatPtxTakesIsKnownOnceItIsLoaded) {
  const Cubin cubin = ptx_program("");
  EXPECT_FALSE(cubin.kernels[0].spills_known());
  const Result<Module> module = Module::load(*device_, cubin);
  ASSERT_TRUE(module.ok()) << module.error().message;
  const Kernel add = module->kernel("add").value();
  EXPECT_EQ(add.resources().registers, 32);
  EXPECT_EQ(add.resources().static_shared_bytes, 400);
  EXPECT_EQ(add.resources().stack_bytes, 0);
  EXPECT_TRUE(add.resources().spills_known());
  EXPECT_FALSE(add.resources().spills());
  EXPECT_EQ(add.resources().constant_bytes, std::nullopt);
  EXPECT_EQ(add.resources().max_threads, 128);
  EXPECT_EQ(add.ptx_version(), 80);
  EXPECT_EQ(add.binary_version(), 90);
  const Kernel stacked = module->kernel("stacked").value();
  EXPECT_EQ(stacked.resources().stack_bytes, 24);
  EXPECT_EQ(stacked.resources().spill_store_bytes, std::nullopt);
  EXPECT_TRUE(stacked.resources().spills());
  // Of a cubin only what its compiler said.
  EXPECT_EQ(kernel("add").resources().registers, std::nullopt);
}

TEST_F(FakeDriver, CodeOfAnEarlierArchitectureIsLaunchedPlainly) {
  Stream work = stream();
  Cubin cubin = ptx_program("");
  const Kernel add = Module::load(*device_, cubin)->kernel("add").value();
  EXPECT_EQ(message(launch_one(add, work)), "success");
  EXPECT_STREQ(last().kernel, "add");
  EXPECT_EQ(last().programmatic, 0U);
  const std::string refusal =
      "add is compiled for compute_80, which has no programmatic launch and no clusters";
  const int before = last().count;
  EXPECT_EQ(message(launch_one(add, work, {.programmatic = true})), refusal);
  EXPECT_EQ(message(launch_one(add, work, {.grid = {4}, .cluster = 2})), refusal);
  EXPECT_EQ(last().count, before);
  cubin.arch = "compute_90";
  const Kernel later = Module::load(*device_, cubin)->kernel("add").value();
  EXPECT_EQ(message(launch_one(later, work, {.programmatic = true})), "success");
  EXPECT_EQ(last().programmatic, 1U);
}

TEST_F(FakeDriver, PtxThatTheDriverDoesNotTake) {
  EXPECT_EQ(Module::load(*device_, ptx_program("bogus")).error().message,
            "cuModuleLoadDataEx of program: CUDA error (218): fake words; the driver's compiler: "
            "ptxas input, line 5; fatal   : bogus; it was compiled for compute_80 by NVRTC 13.0, "
            "the GPU is sm_90a and its driver for CUDA 12.8");
  // The driver would read beyond it.
  Cubin endless = ptx_program("");
  endless.image.pop_back();
  EXPECT_TRUE(Module::load(*device_, endless)
                  .error()
                  .message.starts_with("the PTX is damaged: it is not a text that ends in its only "
                                       "zero byte"));
}

TEST_F(FakeDriver, WhatRunsOnThisGpu) {
  const DeviceInfo& info = device_->info();
  EXPECT_EQ(*arch_to_run(info, ""), (Arch{.major = 9, .suffix = 'a'}));
  EXPECT_EQ(*arch_to_run(info, "compute_80"), (Arch{.major = 8, .ptx = true}));
  EXPECT_EQ(arch_to_run(info, "sm_80").error().message,
            "code for sm_80 does not run on Fake GPU, which is sm_90a; give sm_90a, or PTX of an "
            "earlier one as compute_80");
  EXPECT_FALSE(arch_to_run(info, "compute_100").ok());
  EXPECT_EQ(arch_to_run(info, "9.0").error().message,
            "\"9.0\" is no architecture; write it as sm_80, sm_90a or compute_80");
}

TEST_F(FakeDriver, AnErrorOfAKernelThatRanNamesIt) {
  Stream work = stream();
  const Kernel route = kernel("route");
  ASSERT_TRUE(launch_one(route, work).ok());
  ASSERT_TRUE(work.synchronize().ok());
  ASSERT_TRUE(launch_one(kernel("gather"), work).ok());
  ASSERT_TRUE(launch_one(kernel("astray"), work).ok());
  const std::string rest =
      ": CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered; this process "
      "cannot use the GPU any more, and compute-sanitizer says where it happened";
  EXPECT_EQ(message(work.synchronize()), "cuStreamSynchronize after gather, astray" + rest);
  // Calls that know no stream name what this thread launched.
  EXPECT_EQ(message(device_->synchronize()), "cuCtxSynchronize after route, gather, astray" + rest);
  EXPECT_TRUE(DeviceBuffer::make(16).error().message.ends_with(
      "cuMemAlloc after route, gather, astray" + rest));
  EXPECT_EQ(message(launch_one(route, work)), "cuLaunchKernelEx of route" + rest);
}

TEST_F(FakeDriver, EventsAndGraphs) {
  Stream work = stream();
  Event begin = Event::make().value();
  Event end = Event::make().value();
  const Kernel a = kernel("a");
  const Kernel astray = kernel("astray");
  Result<Graph> captured = work.capture([&]() -> Result<> {
    NIBBLE_RETURN_IF_ERROR(begin.record_in_graph(work));
    NIBBLE_RETURN_IF_ERROR(launch_one(a, work, {.programmatic = true}));
    return launch_one(a, work);
  });
  ASSERT_TRUE(captured.ok()) << captured.error().message;
  EXPECT_EQ(captured->nodes(), 2U);
  Graph graph = std::move(*captured);
  ASSERT_TRUE(begin.record(work).ok());
  ASSERT_TRUE(graph.launch(work).ok());
  ASSERT_TRUE(end.record(work).ok());
  ASSERT_TRUE(work.wait(end).ok());
  EXPECT_EQ(*Event::elapsed_ms(begin, end), 1.5);
  ASSERT_TRUE(launch_one(astray, work).ok());
  EXPECT_TRUE(message(work.synchronize())
                  .starts_with("cuStreamSynchronize after the graph of a, astray: CUDA_ERROR_"));
}

TEST_F(FakeDriver, AnErrorInACaptureIsTheCapturesError) {
  Stream work = stream();
  const Kernel a = kernel("a");
  ASSERT_TRUE(launch_one(a, work).ok());
  const Result<Graph> captured =
      work.capture([&]() -> Result<> { return launch_one(a, work, {.block = {1000}}); });
  ASSERT_FALSE(captured.ok());
  EXPECT_EQ(captured.error().message, "a takes blocks of 1 to 256 threads; it was given 1000");
  EXPECT_EQ(work.trail().text(), "a");
}

TEST_F(FakeDriver, OnlyWithACurrentGpu) {
  const Driver& driver = **Driver::get();
  DeviceBuffer buffer = DeviceBuffer::make(16).value();
  driver.CtxSetCurrent(nullptr);
  EXPECT_TRUE(DeviceBuffer::make(16).error().message.starts_with("no GPU is current"));
  EXPECT_TRUE(Stream::make().error().message.starts_with("no GPU is current"));
  // What was made keeps to its own.
  EXPECT_TRUE(buffer.fill(1).ok());
  abi::Context now = device_->context();
  driver.CtxGetCurrent(&now);
  EXPECT_EQ(now, nullptr);
  buffer = DeviceBuffer();
  EXPECT_EQ(live(), before_);
  ASSERT_TRUE(device_->make_current().ok());
}

}  // namespace
}  // namespace nibble::cuda
