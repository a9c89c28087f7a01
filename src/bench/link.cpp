#include "bench/link.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>

#include "base/text.h"
#include "bench/bench.h"

namespace nibble {
namespace {

LinkModel model_of(const LinkCurve& curve) {
  return {.ranks = static_cast<std::int64_t>(curve.devices.size())};
}

void fit_curve(LinkCurve& curve) {
  std::vector<LinkPoint> points;
  for (const LinkRow& row : curve.rows) {
    if (row.error.empty()) points.push_back({row.bytes, row.time_us.median});
  }
  const Result<LinkFit> fit = fit_link(curve.op, model_of(curve), points);
  if (fit) {
    curve.fit = *fit;
  } else {
    curve.no_fit = fit.error().message;
  }
}

// The collective that a step of tensor parallelism waits for; without NCCL, what the link itself
// does.
const LinkCurve* curve_of_machine(const LinkReport& report) {
  const auto first = [&](LinkOp op, LinkRoute route) -> const LinkCurve* {
    for (const LinkCurve& curve : report.curves) {
      if (curve.op == op && curve.route == route && !curve.both_ways && curve.fit) return &curve;
    }
    return nullptr;
  };
  const LinkCurve* reduce = first(LinkOp::kAllReduce, LinkRoute::kNccl);
  return reduce != nullptr ? reduce : first(LinkOp::kCopy, LinkRoute::kDirect);
}

std::string source_of(const LinkReport& report, const LinkCurve& curve, std::string_view command) {
  return fmt::format("{}: {}{} from {} to {} on {} x {}, fitted to the ledger's formula", command,
                     report.nccl_version.empty() || curve.op == LinkOp::kCopy
                         ? ""
                         : fmt::format("NCCL {} ", report.nccl_version),
                     curve_title(curve), message_size_text(curve.rows.front().bytes),
                     message_size_text(curve.rows.back().bytes), report.gpus.size(),
                     report.gpus.front().name);
}

// As the catalog calls its own link of that kind.
std::string link_name(const std::optional<MachineSpec>& machine, bool nvlink) {
  const std::string kind = nvlink ? "nvlink" : "pcie";
  if (!machine) return kind;
  for (const Link& link : machine->links) {
    if (link.name.substr(0, kind.size()) == kind) return link.name;
  }
  return kind;
}

// More would be noise.
double four_digits(double value) {
  if (!(value > 0)) return 0;
  const double step = std::pow(10, std::floor(std::log10(value)) - 3);
  return std::round(value / step) * step;
}

Json sample_json(const LinkCurve& curve, const LinkRow& row) {
  const bool timed = row.error.empty();
  Json interval;
  if (timed && row.time_us.interval) {
    interval.push(row.time_us.interval->low).push(row.time_us.interval->high);
  }
  return Json::object()
      .set("bytes", row.bytes)
      .set("time_us", timed ? Json(row.time_us.median) : Json())
      .set("time_interval_us", std::move(interval))
      .set("samples", static_cast<std::int64_t>(row.time_us.values.size()))
      .set("stopped", timed ? Json(to_string(row.time_us.stopped)) : Json())
      .set("graphs", row.graphs)
      .set("gb_s", timed ? Json(link_gb_s(curve, row)) : Json())
      .set("error", timed ? Json() : Json(row.error));
}

Json fit_json(const LinkCurve& curve) {
  if (!curve.fit) return {};
  Json json = Json::object();
  json.set("bandwidth_gb_s", curve.fit->link.bandwidth_gb_s);
  json.set("latency_us", curve.fit->link.latency_us);
  json.set("worst_factor", curve.fit->worst_factor);
  json.set("worst_bytes", curve.fit->worst_bytes);
  if (curve.op == LinkOp::kAllReduce) {
    json.set("algorithm", to_string(model_of(curve).all_reduce));
  }
  return json;
}

Json curve_json(const LinkCurve& curve) {
  Json devices = Json::array();
  for (const int device : curve.devices) devices.push(device);
  Json points = Json::array();
  for (const LinkRow& row : curve.rows) points.push(sample_json(curve, row));
  return Json::object()
      .set("op", to_string(curve.op))
      .set("route", to_string(curve.route))
      .set("devices", std::move(devices))
      .set("both_ways", curve.both_ways)
      .set("points", std::move(points))
      .set("fit", fit_json(curve))
      .set("no_fit", curve.fit ? Json() : Json(curve.no_fit));
}

Json link_json(const LinkReport& report) {
  Json gpus = Json::array();
  for (const LinkGpu& gpu : report.gpus) {
    gpus.push(Json::object()
                  .set("on", fmt::format("cuda:{}", gpu.ordinal))
                  .set("name", gpu.name)
                  .set("pci", gpu.pci));
  }
  Json curves = Json::array();
  for (const LinkCurve& curve : report.curves) curves.push(curve_json(curve));
  Json links = Json::array();
  if (report.machine_link) links.push(to_json(*report.machine_link));
  return Json::object()
      .set("gpus", std::move(gpus))
      .set("nvlink", report.nvlink)
      .set("nccl", report.nccl_version.empty() ? Json() : Json(report.nccl_version))
      .set("curves", std::move(curves))
      .set("links", std::move(links));
}

}  // namespace

std::string_view to_string(LinkRoute route) {
  switch (route) {
    case LinkRoute::kDirect:
      return "direct";
    case LinkRoute::kStaged:
      return "staged";
    case LinkRoute::kNccl:
      return "nccl";
  }
  NIBBLE_CHECK(false);
}

bool LinkReport::failed() const {
  return std::any_of(curves.begin(), curves.end(), [](const LinkCurve& curve) {
    return std::any_of(curve.rows.begin(), curve.rows.end(),
                       [](const LinkRow& row) { return !row.error.empty(); });
  });
}

double link_gb_s(const LinkCurve& curve, const LinkRow& row) {
  LinkModel model = model_of(curve);
  model.all_reduce = AllReduce::kRing;  // which sends no more than must be sent
  return link_cost(curve.op, model, row.bytes, {1, 0}).link_bytes / row.time_us.median * 1e-3;
}

std::string curve_title(const LinkCurve& curve) {
  switch (curve.op) {
    case LinkOp::kAllReduce:
      return fmt::format("all-reduce, {} GPUs", curve.devices.size());
    case LinkOp::kAllGather:
      return fmt::format("all-gather, {} GPUs", curve.devices.size());
    case LinkOp::kAllToAll:
      return fmt::format("all-to-all, {} GPUs", curve.devices.size());
    case LinkOp::kCopy:
      break;
  }
  return fmt::format("copy {} {} {}, {}", curve.devices.at(0), curve.both_ways ? "<->" : "->",
                     curve.devices.at(1), to_string(curve.route));
}

MachineSpec with_measured_link(MachineSpec machine, const Link& link) {
  std::erase_if(machine.links, [&](const Link& one) { return one.name == link.name; });
  machine.links.insert(machine.links.begin(), link);
  return machine;
}

void conclude_link(LinkReport& report, std::string_view command) {
  for (LinkCurve& curve : report.curves) fit_curve(curve);
  const LinkCurve* curve = curve_of_machine(report);
  if (curve == nullptr) return;
  const std::optional<MachineSpec> known = find_in_catalog(report.gpus.front().name);
  const auto measured = [&](double value) {
    return Sourced{four_digits(value), Provenance::kMeasured, source_of(report, *curve, command)};
  };
  report.machine_link =
      Link{link_name(known, report.nvlink), measured(curve->fit->link.bandwidth_gb_s),
           measured(curve->fit->link.latency_us)};
  if (known) report.machine = with_measured_link(*known, *report.machine_link);
}

Json to_json(const LinkReport& report) {
  Json notes = Json::array();
  for (const std::string& note : report.notes) notes.push(note);
  return Json::object()
      .set("schema", "nibble.bench/1")
      .set("machine", machine_json(report.cpu))
      .set("taken_unix_s", report.taken_unix_s)
      .set("state", report.state)
      .set("rows", Json::array())
      .set("link", link_json(report))
      .set("notes", std::move(notes));
}

}  // namespace nibble
