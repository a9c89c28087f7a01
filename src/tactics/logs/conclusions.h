// What the logs of an autotuner say for a chip: findings, each made of the numbers in the logs.
//
//   for (const Finding& finding : conclusions({&log, 1}, kSm120Limits))
//     fmt::print("{}\n", finding.sentence);
//   // 72 tactics of MoERunner were skipped: they ask for 102,400 B of shared memory, and a block
//   of
//   // sm_120 has 101,376 B.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/finding.h"
#include "kernels/device/block_limits.h"
#include "tactics/logs/tactic_log.h"

namespace nibble::logs {

// How the chip was asked for. Caches name their GPU, and another one is worth a sentence only where
// somebody named one.
struct AskedChip {
  bool named = false;   // by --arch or --machine; else the limits are a default
  std::string machine;  // title of the machine: "NVIDIA B200"; "": an architecture alone
};

// Several logs are several ranks of one run, or parts of it: choices are compared across them, but
// not across GPUs. In the order of what matters: what could not run, what was never chosen, what
// was not tuned.
std::vector<Finding> conclusions(std::span<const TacticLog> logs, const BlockLimits& limits,
                                 const AskedChip& asked = {});

// Shared memory of Triton's pipelined products: (stages - 1) x (M + N) x K x bytes; one buffer at
// least. 128x256x128, 4 stages, 1 byte: 147,456, as Triton reports it (sgl-project/sglang PR
// 28038).
std::int64_t triton_shared_bytes(const TritonConfig& config, std::int64_t operand_bytes);
// The most stages that fit into `limit` bytes; 0 when not even one buffer does.
std::int64_t triton_most_stages(const TritonConfig& config, std::int64_t operand_bytes,
                                std::int64_t limit);
// Of one element of both operands, by the data type of a configuration's name; nothing where the
// two differ.
std::optional<std::int64_t> operand_bytes_of(std::string_view dtype);

std::string arch_name(const BlockLimits& limits);  // "sm_120"
// Exact below a million, as limits are compared: "102,400 B"; beyond it "1.049 MB".
std::string bytes_text(std::int64_t bytes);

}  // namespace nibble::logs
