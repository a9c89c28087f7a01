#include "cli/analyze_kernels.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "base/units.h"
#include "bench/model_shapes.h"

namespace nibble::cli {
namespace {

// What was measured must have been this, to the number.
struct Wanted {
  FormatPair formats;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t experts = 1;
  std::int64_t top_k = 1;
  double tokens = 0;
};

bool is_grouped(const Op& op) {
  return op.name == "moe.gate_up" || op.name == "moe.down";
}

bool is_shape(const BenchShape& shape, const Wanted& wanted) {
  return shape.op == BenchOp::kGemm && shape.n == wanted.n && shape.k == wanted.k &&
         shape.experts == wanted.experts && shape.top_k == wanted.top_k;
}

bool is_tokens(const BenchShape& shape, double tokens) {
  return std::abs(static_cast<double>(shape.tokens.front()) - tokens) < 1e-6 * tokens;
}

// The row that was measured, or the first thing in which all rows differ from what is wanted.
KernelCell find_row(const Wanted& wanted, const BenchFile& file) {
  const BenchFileRow* found = nullptr;
  bool shape = false;
  bool formats = false;
  std::vector<std::string> tokens;
  for (const BenchFileRow& row : file.rows) {
    if (!is_shape(row.shape, wanted)) continue;
    shape = true;
    if (row.shape.format != wanted.formats.weights ||
        row.shape.activations != wanted.formats.activations) {
      continue;
    }
    formats = true;
    tokens.push_back(fmt::format("{}", row.shape.tokens.front()));
    // A step reads its weights from memory: a cold row tells more than a hot one.
    if (is_tokens(row.shape, wanted.tokens) && (found == nullptr || (row.cold && !found->cold))) {
      found = &row;
    }
  }
  if (found != nullptr) {
    if (found->time_us)
      return {.time_us = found->time_us, .kernel = found->kernel, .cold = found->cold};
    return {.kernel = found->kernel, .reason = "not timed: " + printable(found->error)};
  }
  if (formats) {
    return {.reason = fmt::format("measured at {} tokens, not at {}", join(tokens, ", "),
                                  format_compact(wanted.tokens))};
  }
  return {.reason = shape ? fmt::format("its shape was not measured in {} x {}",
                                        to_string(wanted.formats.weights),
                                        to_string(wanted.formats.activations))
                          : std::string("its shape was not measured")};
}

KernelCell cell_of(const Deployment& deployment, const Op& op, const BenchFile& file) {
  const std::optional<FormatPair> formats = parse_format_pair(op.format);
  if (op.flop <= 0 || !formats || op.shape.k < 1) {
    return {.reason = "nibble bench measures products only"};
  }
  Wanted wanted{.formats = *formats,
                .n = static_cast<std::int64_t>(op.shape.n),
                .k = static_cast<std::int64_t>(op.shape.k),
                .tokens = op.shape.m};
  if (is_grouped(op) && deployment.model.moe) {
    if (deployment.layout.moe_ep() > 1) {
      return {.reason = "bench measures all experts on one rank, here they are split"};
    }
    wanted.experts = deployment.model.moe->experts;
    wanted.top_k = deployment.model.moe->top_k;
    wanted.tokens = op.shape.groups * op.shape.m / static_cast<double>(wanted.top_k);
  }
  return find_row(wanted, file);
}

}  // namespace

std::vector<KernelCell> kernel_cells(const Deployment& deployment, const Step& step,
                                     const BenchFile& file) {
  std::vector<KernelCell> cells;
  for (const Op& op : step.ops) cells.push_back(cell_of(deployment, op, file));
  return cells;
}

Json kernels_json(const Deployment& deployment, const std::vector<Step>& levels,
                  const BenchFile& file) {
  Json steps = Json::array();
  for (const Step& step : levels) {
    Json ops = Json::array();
    const std::vector<KernelCell> cells = kernel_cells(deployment, step, file);
    for (std::size_t index = 0; index < cells.size(); ++index) {
      const KernelCell& cell = cells[index];
      ops.push(Json::object()
                   .set("name", step.ops[index].name)
                   .set("kernel_us", cell.time_us)
                   .set("kernel", cell.kernel.empty() ? Json() : Json(cell.kernel))
                   .set("cold", cell.time_us ? Json(cell.cold) : Json())
                   .set("reason", cell.reason.empty() ? Json() : Json(cell.reason)));
    }
    steps.push(Json::object().set("concurrency", step.concurrency).set("ops", std::move(ops)));
  }
  return Json::object()
      .set("source", file.path)
      .set("machine", file.machine)
      .set("version", file.version)
      .set("levels", std::move(steps));
}

}  // namespace nibble::cli
