#include "cuda/module.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/text.h"
#include "cuda/ptx.h"
#include "machine/probe_parse.h"

namespace nibble::cuda {
namespace {

constexpr unsigned kMostCluster = 8;  // what every GPU with clusters can do

Result<int> attribute(const Driver& driver, abi::Function function, int number,
                      const std::string& kernel) {
  int value = 0;
  NIBBLE_RETURN_IF_ERROR(
      check(driver.FuncGetAttribute(&value, number, function), "cuFuncGetAttribute", kernel));
  return value;
}

template <class Numbers>
std::string list(const Numbers& numbers) {
  std::vector<std::string> texts;
  for (const auto& number : numbers) texts.push_back(fmt::format("{}", number));
  return texts.empty() ? "none" : join(texts, ", ");
}

}  // namespace

struct Module::State {
  std::string program;
  Arch arch;  // 0.0 where the program says none that is known
  std::vector<KernelResources> kernels;
  int shared_per_block = 0;  // bytes that a block can have at most
  Owned<abi::Module, &abi::Functions::ModuleUnload> module;
};

struct Kernel::State {
  std::shared_ptr<const Module::State> module;
  abi::Function function = nullptr;
  std::shared_ptr<const std::string> name;  // trails keep it longer than the kernel
  KernelResources resources;
  int registers = 0;
  int max_threads = 0;
  int ptx_version = 0;
  int binary_version = 0;
  std::size_t max_dynamic_shared = 0;

  const Driver& driver() const { return module->module.driver(); }
};

namespace {

// The driver compiles PTX here, and says in a log what it objects to.
Result<> load_ptx(const Driver& driver, const Cubin& cubin, abi::Module& handle) {
  NIBBLE_RETURN_IF_ERROR(check_ptx_text(cubin.image));
  std::string log(8 << 10, '\0');
  std::array<int, 2> options = {abi::kJitErrorLog, abi::kJitErrorLogBytes};
  std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(log.size())};
  const Result<> loaded = check(driver.ModuleLoadDataEx(&handle, cubin.image.data(), options.size(),
                                                        options.data(), values.data()),
                                "cuModuleLoadDataEx", cubin.program);
  std::erase(log, '\0');
  if (loaded || trim(log).empty()) return loaded;
  return run_error("{}; the driver's compiler: {}", loaded.error().message, trim(log));
}

Result<> load_image(const Driver& driver, const Cubin& cubin, bool ptx, abi::Module& handle) {
  if (ptx) return load_ptx(driver, cubin, handle);
  return check(driver.ModuleLoadData(&handle, cubin.image.data()), "cuModuleLoadData",
               cubin.program);
}

}  // namespace

Result<Module> Module::load(const Device& device, const Cubin& cubin) {
  NIBBLE_ASSIGN_OR_RETURN(const Driver* driver, Driver::get());
  const CurrentContext current(*driver, device.context());
  NIBBLE_RETURN_IF_ERROR(current.result());
  const Arch arch = parse_arch(cubin.arch).value_or(Arch());
  abi::Module handle = nullptr;
  const Result<> loaded = load_image(*driver, cubin, arch.ptx, handle);
  if (!loaded) {
    return run_error("{}; it was compiled for {} by {}, the GPU is {} and its driver for CUDA {}",
                     loaded.error().message, cubin.arch, cubin.compiler, device.info().arch(),
                     cuda_version_text(driver->version()));
  }
  auto state = std::make_shared<State>();
  state->program = cubin.program;
  state->arch = arch;
  state->kernels = cubin.kernels;
  state->shared_per_block = device.info().shared_per_block_optin;
  state->module = {*driver, device.context(), handle};
  return Module(std::move(state));
}

Result<Kernel> Module::kernel(const std::string& name) const {
  const auto found = std::find_if(state_->kernels.begin(), state_->kernels.end(),
                                  [&](const KernelResources& k) { return k.name == name; });
  if (found == state_->kernels.end()) {
    std::vector<std::string> names;
    for (const KernelResources& kernel : state_->kernels) names.push_back(kernel.name);
    return run_error("{} has no kernel {}; it has {}", state_->program, name, list(names));
  }
  const Driver& driver = state_->module.driver();
  const CurrentContext current(driver, state_->module.context());
  NIBBLE_RETURN_IF_ERROR(current.result());
  auto state = std::make_shared<Kernel::State>();
  state->module = state_;
  state->resources = *found;
  state->name = std::make_shared<const std::string>(name);
  NIBBLE_RETURN_IF_ERROR(
      check(driver.ModuleGetFunction(&state->function, state_->module.get(), name.c_str()),
            "cuModuleGetFunction", name));
  const abi::Function function = state->function;
  NIBBLE_ASSIGN_OR_RETURN(state->registers,
                          attribute(driver, function, abi::kFunctionRegisters, name));
  NIBBLE_ASSIGN_OR_RETURN(state->max_threads,
                          attribute(driver, function, abi::kFunctionMaxThreads, name));
  NIBBLE_ASSIGN_OR_RETURN(const int fixed,
                          attribute(driver, function, abi::kFunctionSharedBytes, name));
  NIBBLE_ASSIGN_OR_RETURN(state->ptx_version,
                          attribute(driver, function, abi::kFunctionPtxVersion, name));
  NIBBLE_ASSIGN_OR_RETURN(state->binary_version,
                          attribute(driver, function, abi::kFunctionBinaryVersion, name));
  if (state_->arch.ptx) {
    NIBBLE_ASSIGN_OR_RETURN(const int stack,
                            attribute(driver, function, abi::kFunctionLocalBytes, name));
    KernelResources& resources = state->resources;
    resources.registers = state->registers;
    resources.static_shared_bytes = fixed;
    resources.stack_bytes = stack;
    if (stack == 0) resources.spill_store_bytes = resources.spill_load_bytes = 0;
  }
  // The limit is raised to all there is, here and once: what a launch takes is its own number.
  const int most = std::max(state_->shared_per_block - fixed, 0);
  NIBBLE_RETURN_IF_ERROR(
      check(driver.FuncSetAttribute(function, abi::kFunctionMaxDynamicShared, most),
            "cuFuncSetAttribute", name));
  state->max_dynamic_shared = static_cast<std::size_t>(most);
  return Kernel(std::move(state));
}

const std::string& Kernel::name() const {
  return *state_->name;
}
const KernelResources& Kernel::resources() const {
  return state_->resources;
}
int Kernel::registers() const {
  return state_->registers;
}
int Kernel::max_threads() const {
  return state_->max_threads;
}
int Kernel::ptx_version() const {
  return state_->ptx_version;
}
int Kernel::binary_version() const {
  return state_->binary_version;
}
std::size_t Kernel::max_dynamic_shared() const {
  return state_->max_dynamic_shared;
}

Result<int> Kernel::blocks_per_sm(unsigned threads, std::size_t dynamic_shared) const {
  const Driver& driver = state_->driver();
  const CurrentContext current(driver, state_->module->module.context());
  NIBBLE_RETURN_IF_ERROR(current.result());
  int blocks = 0;
  NIBBLE_RETURN_IF_ERROR(
      check(driver.OccupancyMaxActiveBlocksPerMultiprocessor(
                &blocks, state_->function, static_cast<int>(threads), dynamic_shared),
            "cuOccupancyMaxActiveBlocksPerMultiprocessor", name()));
  return blocks;
}

Result<> Kernel::check_launch(const Launch& shape, std::span<const std::size_t> sizes) const {
  const std::vector<int>& expected = state_->resources.parameter_bytes;
  const bool same = std::equal(
      sizes.begin(), sizes.end(), expected.begin(), expected.end(),
      [](std::size_t given, int taken) { return given == static_cast<std::size_t>(taken); });
  if (!same) {
    return run_error("{} takes parameters of these bytes: {}; it was given {}", name(),
                     list(expected), list(sizes));
  }
  const std::uint64_t threads = std::uint64_t{shape.block.x} * shape.block.y * shape.block.z;
  if (threads == 0 || threads > static_cast<std::uint64_t>(state_->max_threads)) {
    return run_error("{} takes blocks of 1 to {} threads; it was given {}", name(),
                     state_->max_threads, threads);
  }
  if (shape.dynamic_shared > state_->max_dynamic_shared) {
    return run_error("{} wants {} bytes of dynamic shared memory, and the GPU has {} for it",
                     name(), shape.dynamic_shared, state_->max_dynamic_shared);
  }
  if (shape.cluster == 0 || shape.cluster > kMostCluster || shape.grid.x % shape.cluster != 0) {
    return run_error(
        "{} is given clusters of {} blocks: 1 to {}, which divide the grid of {}, can be", name(),
        shape.cluster, kMostCluster, shape.grid.x);
  }
  // On a later GPU the driver would do both, and code that was compiled without
  // griddepcontrol.wait would begin before its input is there.
  const Arch& arch = state_->module->arch;
  if (arch.ptx && arch.major < 9 && (shape.programmatic || shape.cluster > 1)) {
    return run_error("{} is compiled for {}, which has no programmatic launch and no clusters",
                     name(), arch.name());
  }
  return {};
}

Result<> launch_with(const Kernel& kernel, const Launch& shape, Stream& stream,
                     std::span<void*> addresses, std::span<const std::size_t> sizes) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return {};
  NIBBLE_RETURN_IF_ERROR(kernel.check_launch(shape, sizes));
  std::array<abi::LaunchAttribute, 2> attributes = {};
  abi::LaunchConfig config = {.grid_x = shape.grid.x,
                              .grid_y = shape.grid.y,
                              .grid_z = shape.grid.z,
                              .block_x = shape.block.x,
                              .block_y = shape.block.y,
                              .block_z = shape.block.z,
                              .shared_bytes = static_cast<unsigned>(shape.dynamic_shared),
                              .stream = stream.handle(),
                              .attributes = attributes.data()};
  if (shape.programmatic) {
    abi::LaunchAttribute& attribute = attributes[config.attribute_count++];
    attribute.id = abi::kAttributeProgrammaticSerialization;
    attribute.value.programmatic_serialization = 1;
  }
  if (shape.cluster > 1) {
    abi::LaunchAttribute& attribute = attributes[config.attribute_count++];
    attribute.id = abi::kAttributeCluster;
    attribute.value.cluster = {shape.cluster, 1, 1};
  }
  const Driver& driver = stream.driver();
  const CurrentContext current(driver, stream.context());
  NIBBLE_RETURN_IF_ERROR(current.result());
  const Kernel::State& state = *kernel.state_;
  NIBBLE_RETURN_IF_ERROR(
      check(driver.LaunchKernelEx(&config, state.function, addresses.data(), nullptr),
            "cuLaunchKernelEx", *state.name));
  stream.trail().add(state.name);
  LaunchTrail::of_thread().add(state.name);
  return {};
}

}  // namespace nibble::cuda
