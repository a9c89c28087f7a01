// What a machine can do: roofs, memory, SMs, links, power; each number with its source.
//
//   NIBBLE_ASSIGN_OR_RETURN(MachineSpec machine, load_machine("rtx-pro-6000-server"));
//   machine.bandwidth_gb_s.value          // 1597
//   machine.peak(Precision::kFp4)->dense_tflops.value
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "formats/format.h"

namespace nibble {

enum class Provenance {
  kDatasheet,  // printed by the maker
  kReported,   // stated by a third party: a reseller, a database, a tool's system file
  kMeasured,   // measured by the named source, or by us on this machine
  kDerived,    // computed from other numbers; `source` has the formula
  kAssumed,    // ours; replace it when you know better
  kGiven,      // set by the user: a flag or a file
};

std::string_view to_string(Provenance provenance);  // "datasheet", ...
std::optional<Provenance> provenance_from_string(std::string_view name);

struct Sourced {
  double value = 0;
  Provenance provenance = Provenance::kAssumed;
  std::string source;
};

struct Peak {
  Sourced dense_tflops;                  // dense, fp32 accumulation where the unit has it
  std::optional<Sourced> sparse_tflops;  // 2:4 structured sparsity, when the chip has it
};

// One way from this GPU to its peers.
struct Link {
  std::string name;        // "pcie5-x16", "nvlink4"
  Sourced bandwidth_gb_s;  // per direction and GPU
  Sourced latency_us;      // of one hop
};

struct PowerSpec {
  std::optional<Sourced> limit_w;
  std::optional<Sourced> copy_w;          // while copying device memory at full speed
  std::optional<Sourced> idle_context_w;  // a context open, nothing running
  std::optional<Sourced> waiting_w;       // ranks spinning in collectives
};

struct MachineSpec {
  std::string name;   // "rtx-pro-6000-server"
  std::string title;  // "NVIDIA RTX PRO 6000 Blackwell Server Edition"
  std::vector<std::string> aliases;
  std::string arch;  // "sm_120", "gfx942", "x86-64"
  bool is_cpu = false;
  std::map<Precision, Peak> peaks;
  Sourced bandwidth_gb_s;        // DRAM read
  Sourced memory_gb;             // capacity, 1e9 bytes
  std::optional<Sourced> l2_mb;  // or last-level cache
  std::optional<Sourced> shared_per_sm_bytes;
  std::optional<Sourced> shared_per_block_bytes;  // opt-in maximum
  std::optional<Sourced> registers_per_sm;        // 32-bit
  std::optional<Sourced> sms;                     // or cores
  std::optional<Sourced> clock_mhz;               // boost
  std::optional<Sourced> launch_gap_us;           // between dependent kernels in a graph
  std::vector<Link> links;                        // the first is the default
  PowerSpec power;
  std::vector<std::string> notes;  // where sources disagree, and what was not measured

  const Peak* peak(Precision precision) const;
};

// The unit that runs `weights` x `activations` on this machine, widening where it lacks one (an
// H200 multiplies NVFP4 weights in bf16). Needs a bf16 or fp32 peak, which every machine has.
Precision compute_precision(const MachineSpec& machine, Format weights, Format activations);
// Whether the machine takes both operands as they are, without widening either. A CPU multiplies
// 4-bit codes as 8-bit integers (e2m1 in halves: -12 .. 12), exactly.
bool multiplies_as_is(const MachineSpec& machine, Format weights, Format activations);
// Empty when the machine multiplies the pair natively, else the missing unit and the one used:
// "no fp4 unit: multiplied in bf16".
std::string widening_note(const MachineSpec& machine, Format weights, Format activations);

// Reads nibble.machine/1 (docs/schemas/nibble.machine.1.json). `where` names the file in errors and
// becomes the source of numbers that are given bare. Required: name, bandwidth_gb_s, memory_gb and
// a dense bf16 or fp32 peak.
Result<MachineSpec> parse_machine(const Json& json, std::string_view where);
Json to_json(const MachineSpec& machine);
Json to_json(const Link& link);  // a member of `links`

// A catalog name, alias or title (any case, spaces as dashes), a JSON file, or "this".
Result<MachineSpec> load_machine(std::string_view name_or_path);
std::vector<MachineSpec> machine_catalog();  // sorted by name
// The catalog alone, by name, alias or title: "NVIDIA H100 80GB HBM3" as NVML reports it.
std::optional<MachineSpec> find_in_catalog(std::string_view name);
std::vector<std::string> nearest_machines(std::string_view name);  // catalog names, best first

// Replaces one number by its path: "bandwidth_gb_s", "peaks.fp4.dense_tflops", "power.limit_w",
// "links.0.bandwidth_gb_s", under the rules of machine files (machine/fields.h); the machine stays
// as it was when the number is refused. A dense peak above the sparse one takes that along by the
// chip's ratio. Unknown paths are usage errors with the nearest ones.
Result<> set_number(MachineSpec& machine, std::string_view path, double value,
                    std::string_view source = "--set");
std::vector<std::string> settable_paths(const MachineSpec& machine);

// How a quoted peak is meant.
enum class PeakIs { kDense, kSparse };

// Sets a quoted peak: kSparse is divided by the chip's sparse:dense ratio (2 unless the catalog
// has both). With `scale_others` the other precisions follow by the catalog's ratios: a quoted
// peak implies a clock, and that clock holds for all of them.
Result<> set_peak(MachineSpec& machine, Precision precision, double quoted_tflops, PeakIs is,
                  bool scale_others, std::string_view source);

}  // namespace nibble
