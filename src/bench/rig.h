// One operation with its weights in memory, ready to be run over and over: what measure_row()
// times.
//
//   NIBBLE_ASSIGN_OR_RETURN(const std::unique_ptr<Rig> rig, make_gemm_rig(shape, setup));
//   NIBBLE_RETURN_IF_ERROR(rig->set_tokens(64));
//   NIBBLE_RETURN_IF_ERROR(rig->check());
//   rig->draw();   // not timed
//   rig->run();    // timed
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "formats/format.h"
#include "kernels/moe/moe.h"
#include "machine/cpu_roofs.h"
#include "machine/isa.h"
#include "measure/ring.h"

namespace nibble {

enum class BenchOp { kGemm, kMoe };

// What is measured. A product: `experts` matrices [n, k] of which every token meets `top_k`. A
// mixture-of-experts layer: hidden k, intermediate n, so gate and up are [2 n, k] and down [k, n].
struct BenchShape {
  BenchOp op = BenchOp::kGemm;
  std::string name = "gemm";  // of the row: "gemm", "moe", or the model's "moe.gate_up"
  Format format = Format::kNvfp4;
  Format activations = Format::kBf16;
  std::int64_t experts = 1;
  std::int64_t top_k = 1;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::vector<std::int64_t> tokens;
  std::string note;   // what was changed to fit this machine
  std::string where;  // "shapes.json: shapes[3]"; empty: options gave its numbers
};

// Distinct experts in canonical form; the ring repeats them, since no kernel's time depends on
// values.
inline constexpr double kDistinctMatrices = 4;

// How it is measured: the same for all shapes of a run.
struct BenchSetup {
  ThreadPool& pool;
  Isa isa = Isa::kPortable;
  bool cold = true;
  double cache_bytes = 0;
  double available_bytes = 0;
  std::uint64_t seed = 1;
  MoeThreads threads = {};  // of a layer's products; a product alone takes the whole pool
};

// One product that a run does: `rows` of the activations by one matrix [n, k].
struct Product {
  std::int64_t rows = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  double weight_bytes = 0;  // as they lie in memory, padding included
};

// One call of gemm(): the experts that were met, in the order of its list.
struct GemmCall {
  std::int64_t list = 0;  // entries that it walks over: all experts, also those without rows
  double values = 0;      // of the activations that it meets
  std::vector<Product> products;
};

// What the run that was drawn last has to do at least.
struct Work {
  double bytes = 0;  // weights of the distinct experts, activations in and out
  double weight_bytes = 0;
  double flop = 0;
  double distinct = 0;            // experts met
  std::vector<double> quantized;  // values of the activations, a number for each time
  std::vector<GemmCall> calls;
  int sections = 0;  // parallel sections beside these: each starts and ends all threads
};

class Rig {
 public:
  virtual ~Rig() = default;
  // Tokens of the runs that follow; a run error when they need more memory than there is.
  virtual Result<> set_tokens(std::int64_t tokens) = 0;
  // Runs once and compares a sample of the outputs with the double-precision reference.
  virtual Result<> check() = 0;
  virtual void draw() = 0;
  virtual void run() = 0;
  virtual Work work() const = 0;
  // Weights that were untouched for longest, of at least this many bytes: what a roof reads.
  virtual MemoryParts cold_memory(double least_bytes) = 0;
  virtual const Ring& ring() const = 0;
  virtual std::string kernel() const = 0;
};

// A usage error for shapes that the kernels do not take; it names the option, or the shape's place.
Result<> check_shape(const BenchShape& shape);

Result<std::unique_ptr<Rig>> make_gemm_rig(const BenchShape& shape, const BenchSetup& setup);
Result<std::unique_ptr<Rig>> make_moe_rig(const BenchShape& shape, const BenchSetup& setup);

}  // namespace nibble
