// The measurement itself: which curves there are, and in what order the GPUs allow them.

#include "base/text.h"
#include "bench/link.h"
#include "bench/link_rig.h"
#include "machine/roof_cache.h"
#include "measure/machine_state.h"

extern char** environ;

namespace nibble {
namespace {

struct Plan {
  LinkCurve curve;
  LinkMessage message;  // without its bytes
};

class LinkRun {
 public:
  LinkRun(LinkRig& rig, const LinkRequest& request, const LinkProgress& progress,
          LinkReport& report)
      : rig_(rig), request_(request), progress_(progress), report_(report) {
    // Of n GPUs: a staged pair, the direct pairs of the first, three collectives.
    curves_ = static_cast<double>(3 + 3 * (rig.ranks() - 1) + 3);
  }

  Result<> copies();
  Result<> collectives();

 private:
  void measure(Plan plan);
  LinkRow measure_row(const LinkMessage& message);
  Plan copy_plan(std::size_t from, std::size_t to, bool both_ways, bool direct) const;
  void pair(std::size_t other, bool direct);

  LinkRig& rig_;
  const LinkRequest& request_;
  const LinkProgress& progress_;
  LinkReport& report_;
  double curves_ = 1;
  double done_ = 0;
  bool graphs_missed_ = false;
};

LinkRow LinkRun::measure_row(const LinkMessage& message) {
  LinkRow row{.bytes = static_cast<double>(message.bytes)};
  if (const Result<> right = rig_.check(message); !right) {
    row.error = right.error().message;
    return row;
  }
  Result<LinkTiming> timing = rig_.time(message, {.budget_s = request_.row_seconds});
  if (!timing) {
    row.error = timing.error().message;
    return row;
  }
  if (!timing->no_graph.empty() && !graphs_missed_) {
    graphs_missed_ = true;
    report_.notes.push_back(fmt::format(
        "some rows are timed without CUDA graphs, the host's part included: {}", timing->no_graph));
  }
  row.time_us = std::move(timing->time_us);
  row.graphs = timing->graphs;
  return row;
}

void LinkRun::measure(Plan plan) {
  const std::size_t step = link_step(rig_.ranks());
  const double sizes = static_cast<double>(request_.sizes.size());
  for (const std::int64_t size : request_.sizes) {
    progress_(curve_title(plan.curve), done_ / curves_);
    plan.message.bytes = (static_cast<std::size_t>(size) + step - 1) / step * step;
    plan.curve.rows.push_back(measure_row(plan.message));
    done_ += 1 / sizes;
    // What failed once on a GPU fails again: its context is lost.
    if (!plan.curve.rows.back().error.empty()) break;
  }
  report_.curves.push_back(std::move(plan.curve));
}

Plan LinkRun::copy_plan(std::size_t from, std::size_t to, bool both_ways, bool direct) const {
  LinkCurve curve{.op = LinkOp::kCopy,
                  .route = direct ? LinkRoute::kDirect : LinkRoute::kStaged,
                  .devices = {rig_.device(from).ordinal(), rig_.device(to).ordinal()},
                  .both_ways = both_ways};
  return {
      std::move(curve),
      {.op = LinkOp::kCopy, .from = from, .to = to, .both_ways = both_ways, .peer_access = direct}};
}

void LinkRun::pair(std::size_t other, bool direct) {
  measure(copy_plan(0, other, false, direct));
  measure(copy_plan(other, 0, false, direct));
  measure(copy_plan(0, other, true, direct));
}

// Staged copies come first: access between two GPUs, once given, stays, and NCCL gives it too.
Result<> LinkRun::copies() {
  NIBBLE_RETURN_IF_ERROR(rig_.set_access(0, 1, false));
  pair(1, false);
  for (std::size_t other = 1; other < rig_.ranks(); ++other) {
    NIBBLE_ASSIGN_OR_RETURN(const bool able, rig_.can_access(0, other));
    if (!able) {
      report_.notes.push_back(
          fmt::format("no direct copies: the driver gives GPU {} and GPU {} no access to each "
                      "other's memory",
                      rig_.device(0).ordinal(), rig_.device(other).ordinal()));
      continue;
    }
    NIBBLE_RETURN_IF_ERROR(rig_.set_access(0, other, true));
    if (other == 1) {
      NIBBLE_ASSIGN_OR_RETURN(report_.nvlink, rig_.has_atomics(0, other));
    }
    pair(other, true);
  }
  return {};
}

Result<> LinkRun::collectives() {
  NIBBLE_ASSIGN_OR_RETURN(const Nccl* nccl, Nccl::load(request_.nccl));
  NIBBLE_RETURN_IF_ERROR(rig_.open_nccl(*nccl));
  report_.nccl_version = nccl->version();
  report_.notes.push_back(fmt::format("NVLink multicast is off: {} was set for NCCL {} ({})",
                                      kNcclSetting, nccl->version(), nccl->path()));
  std::vector<int> devices;
  for (std::size_t rank = 0; rank < rig_.ranks(); ++rank) {
    devices.push_back(rig_.device(rank).ordinal());
  }
  for (const LinkOp op : {LinkOp::kAllReduce, LinkOp::kAllGather, LinkOp::kAllToAll}) {
    measure({{.op = op, .route = LinkRoute::kNccl, .devices = devices}, {.op = op}});
    if (report_.curves.back().rows.back().error.empty()) continue;
    rig_.abort_nccl();
    break;
  }
  return {};
}

// What the user set for NCCL changes what is measured.
void note_settings(LinkReport& report) {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.substr(0, 5) != "NCCL_" || text == kNcclSetting) continue;
    if (text.substr(0, 10) == "NCCL_DEBUG") continue;  // changes no time that counts
    report.notes.push_back(fmt::format("set in the environment: {}", printable(text)));
  }
}

Result<std::vector<int>> wanted_devices(const LinkRequest& request) {
  NIBBLE_ASSIGN_OR_RETURN(const int present, cuda::device_count());
  std::vector<int> devices = request.devices;
  for (int ordinal = 0;
       devices.size() < kMostLinkDevices && request.devices.empty() && ordinal < present;
       ++ordinal) {
    devices.push_back(ordinal);
  }
  if (present < 2) {
    return run_error("a link is between two GPUs, and this process sees {}", present);
  }
  for (const int ordinal : devices) {
    if (ordinal < present) continue;
    return usage_error("--on names cuda:{}, and this process sees cuda:0 to cuda:{}", ordinal,
                       present - 1);
  }
  return devices;
}

}  // namespace

Result<LinkReport> run_link(const LinkRequest& request, const LinkProgress& progress) {
  NIBBLE_CHECK(!request.sizes.empty());
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<int> devices, wanted_devices(request));
  const MachineState before = read_machine_state();
  LinkReport report{.cpu = probe_cpu(), .taken_unix_s = unix_now()};
  const std::size_t step = link_step(devices.size());
  const std::size_t most = static_cast<std::size_t>(request.sizes.back()) + step;
  NIBBLE_ASSIGN_OR_RETURN(LinkRig rig, LinkRig::make(devices, most / step * step));
  for (std::size_t rank = 0; rank < rig.ranks(); ++rank) {
    const cuda::Device& gpu = rig.device(rank);
    report.gpus.push_back({gpu.ordinal(), gpu.info().name, gpu.info().pci});
  }
  LinkRun run(rig, request, progress, report);
  if (const Result<> copied = run.copies(); !copied) {
    report.notes.push_back("not all copies were measured: " + copied.error().message);
  }
  if (const Result<> done = run.collectives(); !done) {
    report.notes.push_back("no collectives were measured: " + done.error().message);
  }
  note_settings(report);
  const MachineState after = read_machine_state();
  report.state = state_json(before, after);
  for (std::string& note : state_notes(before, after)) report.notes.push_back(std::move(note));
  return report;
}

}  // namespace nibble
