// Why a tactic did not run, from the text of an error: the class, and bytes where the text has
// them.
//
//   const Reason reason = classify("out of resource: shared memory, Required: 147456, "
//                                  "Hardware limit: 101376.");
//   reason.kind           // ReasonClass::kSharedMemory
//   *reason.wanted_bytes  // 147,456; *reason.limit_bytes is 101,376
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nibble::logs {

enum class ReasonClass : std::uint8_t {
  kNone,            // nothing went wrong
  kSharedMemory,    // a block's shared memory is too small
  kFault,           // an illegal address or instruction: the process's context is lost with it
  kMemory,          // the GPU's memory is full
  kTimeout,         //
  kNoKernel,        // the program has no code for this tile, shape or architecture
  kAlignment,       // sizes do not divide
  kNotInitialised,  // a library refused to set the kernel up and did not say why
  kUntuned,         // nobody measured this shape here
  kUnknown,         // some other text, or none
};

struct Tile {
  int m = 0;
  int n = 0;
  int k = 0;                // elements, or bytes of a row where k_in_bytes
  bool k_in_bytes = false;  // CUTLASS names of block-scaled tiles count K so: "128x256x64B"
  friend bool operator==(const Tile&, const Tile&) = default;
};

struct Reason {
  ReasonClass kind = ReasonClass::kNone;
  std::string text;  // as the program gave it, on one line, shortened
  std::optional<std::int64_t> wanted_bytes;
  std::optional<std::int64_t> limit_bytes;  // of the device that the program ran on
  std::optional<Tile> tile;
  bool fp4 = false;  // the text names FP4 operands
};

// The class of any text; kUnknown when no rule knows it. Texts are those of CUTLASS, CUDA, Triton,
// FlashInfer and TensorRT-LLM (docs/tactic_logs.md lists them with their sources).
Reason classify(std::string_view text);

// "shared memory", "no kernel": for tables; "shared_memory", "no_kernel": for JSON.
std::string_view to_string(ReasonClass kind);
std::string_view json_name(ReasonClass kind);

// "128x256x128", as `nibble tactics --explain` takes it: two FP4 values in a byte.
std::string fp4_name(const Tile& tile);

}  // namespace nibble::logs
