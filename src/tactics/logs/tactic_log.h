// What the autotuner of another program tried, chose and skipped, from its log or its cache.
// FlashInfer (by itself, in vLLM or SGLang), TensorRT-LLM, and the Triton MoE configurations of
// SGLang and vLLM; docs/tactic_logs.md says which files, and where the programs keep them.
//
//   NIBBLE_ASSIGN_OR_RETURN(const TacticLog log, read_tactic_log("server.log"));
//   for (const Entry& entry : log.entries)
//     fmt::print("{} {} {}\n", entry.op, entry.tactic, to_string(entry.status));
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tactics/logs/reasons.h"

namespace nibble::logs {

enum class Status : std::uint8_t {
  kTried,    // timed
  kChosen,   // the fastest of what was timed, or read from a cache
  kSkipped,  // could not run; the tuner went on without it
  kFailed,   // an error outside of the tuner's own handling
  kDefault,  // nothing was chosen: the program's default serves
};

struct Entry {
  std::string op;      // "trtllm::fused_moe::gemm1"; "" where no line tells
  std::string shape;   // as written: "((1024, 2304), (2304, 7168), ...)", "E=256,N=256"
  std::string runner;  // "MoERunner"
  std::string tactic;  // an id or its fields, as written: "15", "[32, 15]"; "": not told
  std::string rank;    // "TP0", "rank 3", "pid 479"; "": one process
  std::string device;  // of a configuration: "NVIDIA GB10"
  std::optional<std::int64_t> bucket;  // rows of the first input; tokens for MoE and linear layers
  Status status = Status::kTried;
  Reason reason;
  std::optional<double> time_ms;
  std::int64_t tactics = 1;  // how many tactics one line speaks of
  std::int64_t count = 1;    // lines that say the same
  std::int64_t line = 0;     // the first of them; 0 in a cache
};

// A configuration of a Triton kernel, by its file's batch size.
struct TritonConfig {
  std::int64_t batch = 0;
  std::int64_t m = 0, n = 0, k = 0;  // BLOCK_SIZE_M, _N, _K
  std::int64_t stages = 0;
};

struct TacticLog {
  std::string name;                   // of the file
  std::string format;                 // "log", "FlashInfer cache", "TensorRT-LLM cache", ...
  std::vector<std::string> programs;  // "FlashInfer", "vLLM": whose lines or entries these are
  std::map<std::string, std::string> versions;  // of programs and libraries, where told
  std::vector<std::string> devices;
  std::vector<Entry> entries;
  std::vector<std::string> notes;
  std::map<std::string, std::int64_t> profiles;  // shapes that the tuner went through, by operation
  std::int64_t lines = 0;                        // of a log
  std::int64_t unread = 0;                       // lines of a tuner that no rule knows
  std::string first_unread;                      // one of them
  std::int64_t dropped = 0;  // entries beyond kMostEntries or of more than kMostRanks, not kept
  std::optional<std::int64_t>
      saved;                 // configurations that the tuner wrote to its cache, at its end
  bool shows_tried = false;  // timings are logged, so that what is missing was not tried
  // Of a Triton configuration file.
  std::vector<TritonConfig> configs;
  std::string dtype;  // "fp8_w8a8"; "" is 16 bits
};

inline constexpr std::size_t kMostEntries = 100'000;
inline constexpr std::size_t kMostRanks = 4096;

// A log is read line by line: memory grows with what differs, not with the file. Input errors: a
// file that is missing, empty, a folder, binary or UTF-16, JSON that ends early, JSON that is no
// cache. A text without a line of a tuner is none: it has no entries.
Result<TacticLog> read_tactic_log(const std::filesystem::path& path);
// The same of bytes in memory.
Result<TacticLog> read_tactic_text(std::string_view bytes, std::string_view name);

std::string_view to_string(Status status);

}  // namespace nibble::logs
