// Loaded programs and their kernels, and the one way to launch one.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Module module, Module::load(gpu, cubin));
//   NIBBLE_ASSIGN_OR_RETURN(const Kernel add, module.kernel("add"));
//   launch(add, {.grid = {132}, .block = {256}, .dynamic_shared = 96 << 10, .programmatic = true},
//          stream, AddParams{...});
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "base/result.h"
#include "cuda/cubin.h"
#include "cuda/device.h"
#include "cuda/stream.h"

namespace nibble::cuda {

struct Dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

struct Launch {
  Dim3 grid;
  Dim3 block;
  std::size_t dynamic_shared = 0;  // bytes
  // Programmatic dependent launch: the kernel may begin before the one before it in the stream is
  // done, and waits itself (griddepcontrol.wait) before it touches what that one writes.
  bool programmatic = false;
  unsigned cluster = 1;  // blocks along x that form a cluster
};

// A kernel of a loaded module; a copy is cheap, and any copy keeps the module loaded. Must live as
// long as its launches run, and as the graphs that hold them.
class Kernel {
 public:
  const std::string& name() const;
  // As compiled; of PTX what the driver made of it: registers, shared memory and stack, which has
  // the spills in it, so that no stack is no spills and any other leaves them untold.
  const KernelResources& resources() const;
  int registers() const;                   // as the driver says it (cuFuncGetAttribute)
  int max_threads() const;                 // of a block
  std::size_t max_dynamic_shared() const;  // bytes: what the GPU has, less the static part
  int ptx_version() const;     // the architecture of the PTX that it was made of: 80 for compute_80
  int binary_version() const;  // the architecture of what runs: 90
  // Blocks of this kernel that an SM holds at once.
  Result<int> blocks_per_sm(unsigned threads, std::size_t dynamic_shared) const;

 private:
  friend class Module;
  friend Result<> launch_with(const Kernel&, const Launch&, Stream&, std::span<void*>,
                              std::span<const std::size_t>);
  Result<> check_launch(const Launch& shape, std::span<const std::size_t> sizes) const;
  struct State;
  explicit Kernel(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;  // shared by the copies
};

class Module {
 public:
  static Result<Module> load(const Device& device, const Cubin& cubin);
  Result<Kernel> kernel(const std::string& name) const;  // of an extern "C" __global__ function

 private:
  friend class Kernel;  // whose state keeps ours
  struct State;
  explicit Module(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;  // its kernels keep it
};

// As launch(), with the parameters' addresses (one more than `sizes`, null at the end) and sizes.
Result<> launch_with(const Kernel& kernel, const Launch& shape, Stream& stream,
                     std::span<void*> addresses, std::span<const std::size_t> sizes);

// Enqueues the kernel. An empty grid is no launch and no error. Arguments whose number or sizes are
// not the kernel's are refused. Neither allocates nor synchronizes; can be captured into a graph.
template <class... Args>
Result<> launch(const Kernel& kernel, const Launch& shape, Stream& stream, const Args&... args) {
  static_assert((std::is_trivially_copyable_v<Args> && ...));
  std::array<void*, sizeof...(Args) + 1> addresses = {
      const_cast<void*>(static_cast<const void*>(&args))..., nullptr};
  const std::array<std::size_t, sizeof...(Args)> sizes = {sizeof(Args)...};
  return launch_with(kernel, shape, stream, addresses, sizes);
}

}  // namespace nibble::cuda
