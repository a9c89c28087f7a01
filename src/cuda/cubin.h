// A compiled program: its image, a cubin or PTX, and what each of its kernels takes of an SM.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Cubin cubin, compile(request));
//   for (const KernelResources& kernel : cubin.kernels)
//     if (kernel.spills()) say(kernel.name, kernel.spill_store_bytes);
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace nibble::cuda {

// What nobody has told yet is absent: of PTX most is known only when the driver has compiled it
// (Kernel::resources).
struct KernelResources {
  std::string name;
  std::optional<int> registers;  // of a thread
  std::optional<int> spill_store_bytes;
  std::optional<int> spill_load_bytes;
  std::optional<int> stack_bytes;  // of a thread: arrays that registers cannot hold, and spills
  std::optional<int> static_shared_bytes;
  std::optional<int> constant_bytes;  // its own bank: its parameters and what the driver adds
  std::optional<int> barriers;        // of a block
  int max_threads = 0;                // of its launch bounds; 0: none
  std::vector<int> parameter_bytes;   // of each parameter, in order

  bool spills_known() const { return spill_store_bytes && spill_load_bytes; }
  // Also where it is not known: no kernel passes for one that stays in registers untold.
  bool spills() const {
    return spill_store_bytes.value_or(1) > 0 || spill_load_bytes.value_or(1) > 0;
  }
};

struct Cubin {
  std::string program;           // the request's name
  std::string arch;              // "sm_90a"; "compute_80" for PTX
  std::vector<std::byte> image;  // an ELF, or PTX with the zero that ends it
  std::vector<KernelResources> kernels;
  // What ptxas and the compiler object to, a line each: C7508 and C7510 (setmaxnreg ignored, wgmma
  // serialised), and functions that were not inlined and spill.
  std::vector<std::string> warnings;
  std::string log;       // all that the compiler said
  std::string compiler;  // "NVRTC 13.0", also of an entry of the cache
  std::string note;      // why the cache could not be used, or ""
  bool cached = false;

  const KernelResources* kernel(std::string_view name) const;
};

// The kernels of an image: registers, stack, shared and constant bytes, launch bounds. Spills are
// not in it; the compiler's log has them (add_log_facts).
Result<std::vector<KernelResources>> read_kernels(std::span<const std::byte> image);

// Adds what `ptxas -v` says of each kernel in a log: spills. A kernel of the image that the log
// does not have is an error, since its spills would be taken for none.
Result<> add_log_facts(std::string_view log, std::vector<KernelResources>& kernels);

// The warnings of a log, each once.
std::vector<std::string> log_warnings(std::string_view log);

}  // namespace nibble::cuda
