// The whole measurement behind `nibble bench link`: copies between GPUs and NCCL's collectives from
// small messages to large ones, and the link that the ledger's formulas see in them.
//
//   NIBBLE_ASSIGN_OR_RETURN(const LinkReport report, run_link(request, progress));
//   report.curves.front().fit->link, report.machine_link
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "bench/link_fit.h"
#include "bench/link_request.h"
#include "machine/probe.h"
#include "machine/spec.h"
#include "measure/sampler.h"

namespace nibble {

struct LinkRow {
  double bytes = 0;  // as LinkPoint counts them
  Sample time_us;
  bool graphs = false;  // timed in CUDA graphs, else enqueued one by one
  std::string error;    // why it was not timed
};

enum class LinkRoute {
  kDirect,  // a copy with peer access: from memory to memory over the link
  kStaged,  // a copy without it: through the host, as the driver does it
  kNccl,
};
std::string_view to_string(LinkRoute route);  // "direct", "staged", "nccl"

struct LinkCurve {
  LinkOp op = LinkOp::kCopy;
  LinkRoute route = LinkRoute::kNccl;
  std::vector<int> devices;  // of a copy: from, to
  bool both_ways = false;    // a copy there and another back at the same time
  std::vector<LinkRow> rows;
  std::optional<LinkFit> fit;
  std::string no_fit;  // why there is none
};

struct LinkGpu {
  int ordinal = 0;
  std::string name;  // "NVIDIA H200"
  std::string pci;
};

struct LinkReport {
  CpuStatus cpu;
  Json state;  // load, steal and clock over the whole run
  double taken_unix_s = 0;
  std::vector<LinkGpu> gpus;
  std::string nccl_version;  // empty: none was measured
  bool nvlink = false;  // the GPUs do atomics in each other's memory, which PCIe does not carry
  std::vector<LinkCurve> curves;
  std::vector<std::string> notes;
  std::optional<Link> machine_link;    // as machine files take it
  std::optional<MachineSpec> machine;  // the catalog's entry of this GPU, with that link first
  bool failed() const;                 // a message arrived changed, or could not be timed
};

using LinkProgress = std::function<void(std::string_view what, double share)>;

Result<LinkReport> run_link(const LinkRequest& request, const LinkProgress& progress);

// Fits each curve and chooses the machine's link: the all-reduce's where it was measured, else the
// first direct copy's. `command` becomes part of the source of its numbers.
void conclude_link(LinkReport& report, std::string_view command);

// The catalog's machine with `link` first, in place of the one of that name.
MachineSpec with_measured_link(MachineSpec machine, const Link& link);

// What left a GPU in the time of a message, in GB/s: of an all-reduce 2 (n-1)/n of its bytes, as
// NCCL's own tests count "busbw".
double link_gb_s(const LinkCurve& curve, const LinkRow& row);

std::string curve_title(const LinkCurve& curve);  // "all-reduce, 2 GPUs", "copy 0 -> 1, staged"

Json to_json(const LinkReport& report);  // nibble.bench/1; the caller adds version and command

}  // namespace nibble
