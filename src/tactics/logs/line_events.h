// What one message says. The readers know the messages of FlashInfer's and TensorRT-LLM's
// AutoTuner, those of the Triton MoE kernels in SGLang and vLLM, and failures of CUTLASS's kernels
// wherever a program prints them.
//
//   read_flashinfer("Skipped 4 unsupported tactic(s) for trtllm::fused_moe::gemm1 (...)")
//   // kEntry: op "trtllm::fused_moe::gemm1", kSkipped, 4 tactics, no reason told
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tactics/logs/tactic_log.h"

namespace nibble::logs {

struct LineEvent {
  enum class Kind : std::uint8_t {
    kUnknown,    // no message that the reader knows
    kNothing,    // one that says nothing about tactics
    kEntry,      // `entry`
    kDetail,     // `entry` says more about the last one: its shape
    kReason,     // `entry.reason` is that of the last one
    kOperation,  // from here on the tuner works on `entry.op`, in `number` shapes
    kTotal,      // `number` searches for `entry.op` had failures
    kSaved,      // `number` configurations were written
    kIgnored,    // a cache was not used: `text` says why
    kEnd,        // the tuner begins, or it is done: what follows belongs to no earlier operation
  };
  Kind kind = Kind::kUnknown;
  Entry entry;
  std::string text;
  std::int64_t number = 0;
  bool timed = false;      // the program logs what it tries
  bool continues = false;  // the reason goes on in the lines that follow
};

// `message` begins behind "[Autotuner]" and its colon.
LineEvent read_flashinfer(std::string_view message);
LineEvent read_tensorrt_llm(std::string_view message);

// A whole line, of any program: nothing where it has no message about a Triton kernel's
// configuration or memory.
std::optional<LineEvent> read_triton(std::string_view line);

// A whole line without a tuner's marker: nothing where it has no failure of a CUTLASS kernel.
std::optional<LineEvent> read_cutlass(std::string_view line);

// "E=256,N=256,device_name=NVIDIA_GB10,dtype=fp8_w8a8.json", in a path or by itself.
struct ConfigName {
  std::string shape;    // "E=256,N=256"; "N=4096,K=7168" of a dense layer
  std::string device;   // "NVIDIA GB10"
  std::string dtype;    // "" is 16 bits
  bool blocks = false;  // block_shape=..., scales of blocks
  bool down = false;    // the second product of the experts
};
std::optional<ConfigName> read_config_name(std::string_view path);

}  // namespace nibble::logs
