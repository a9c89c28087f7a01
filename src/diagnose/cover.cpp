#include "diagnose/cover.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "diagnose/curve.h"

namespace nibble::diagnose {
namespace {

constexpr const char* kGateUp = "moe.gate_up";
constexpr const char* kDown = "moe.down";

// Of "nvfp4 x bf16" the first; nullopt: the operation is no product.
std::optional<Format> weights_of(const Op& op) {
  const std::size_t between = op.format.find(" x ");
  const bool product = op.flop > 0 && op.shape.n >= 1 && op.shape.k >= 1;
  if (!product || between == std::string::npos) return std::nullopt;
  return format_from_string(op.format.substr(0, between));
}

bool is_four_bit(Format format) {
  return format == Format::kNvfp4 || format == Format::kMxfp4;
}

double whole_tokens(double tokens) {
  return std::max(1.0, std::round(tokens));
}

// Why no kernel is timed for what is no product.
std::string why_no_product(const Op& op) {
  if (op.bytes.link_bytes > 0) return "of several GPUs: nibble bench link";
  if (op.flop > 0 || op.bytes.kv_bytes > 0) return "no kernel of nibble's for attention";
  return "no kernel of nibble's for norms and embeddings";
}

RankProduct dense_product(const Step& step, std::size_t at) {
  const Op& op = step.ops[at];
  RankProduct product{.ops = {at}};
  const std::optional<Format> weights = weights_of(op);
  if (!weights) {
    product.reason = why_no_product(op);
    return product;
  }
  // cuBLASLt's fp8 has one scale a matrix, which costs the same.
  product.format = *weights == Format::kFp8Block128 ? Format::kFp8 : *weights;
  product.n = op.shape.n;
  product.k = op.shape.k;
  product.tokens = whole_tokens(op.shape.m);
  const bool known =
      is_four_bit(*weights) || product.format == Format::kBf16 || product.format == Format::kFp8;
  if (known) {
    product.part = "dense";
  } else {
    product.reason = fmt::format("no kernel for {} weights is timed on a GPU", to_string(*weights));
  }
  return product;
}

// Gate and up are one matrix of the ledger, [2 I, H]; down is [H, I].
RankProduct layer_product(const Step& step, std::size_t gate_up, std::size_t down,
                          const Deployment& deployment) {
  const Op& first = step.ops[gate_up];
  const Op& second = step.ops[down];
  RankProduct product{.ops = {gate_up, down}};
  const std::optional<Format> weights = weights_of(first);
  const bool alike = weights == weights_of(second) && first.shape.n == 2 * second.shape.k &&
                     first.shape.k == second.shape.n && first.count == second.count;
  if (!deployment.model.moe || !weights || !alike) {
    product.reason = "its two products are of no shape that a kernel takes as one layer";
    return product;
  }
  if (!is_four_bit(*weights)) {
    product.reason =
        fmt::format("no kernel takes experts of {} weights on a GPU", to_string(*weights));
    return product;
  }
  if (deployment.layout.moe_ep() > 1) {
    product.reason =
        "with expert parallelism other ranks' tokens meet this rank's experts: no kernel is timed "
        "so";
    return product;
  }
  product.part = "layer";
  product.format = *weights;
  product.experts = static_cast<double>(deployment.model.moe->experts);
  product.top_k = static_cast<double>(deployment.model.moe->top_k);
  product.n = second.shape.k;
  product.k = first.shape.k;
  product.tokens = whole_tokens(first.shape.groups * first.shape.m / product.top_k);
  return product;
}

bool is_of(const GpuRow& row, const RankProduct& product) {
  return row.part == product.part && row.format == to_string(product.format) &&
         row.experts == product.experts && row.top_k == product.top_k && row.n == product.n &&
         row.k == product.k;
}

// Fills time and kernel, or the reason.
void find_time(const RankProduct& product, const std::vector<GpuRow>& rows, CoveredOp& covered) {
  std::vector<CurvePoint> points;
  std::string error;
  for (const GpuRow& row : rows) {
    if (!is_of(row, product)) continue;
    if (!row.time_us) {
      if (error.empty() || row.tokens == product.tokens) error = row.error;
      continue;
    }
    const bool twice = std::any_of(points.begin(), points.end(), [&row](const CurvePoint& point) {
      return point.size == row.tokens;
    });
    if (!twice) points.push_back({row.tokens, *row.time_us});
    if (covered.kernel.empty()) covered.kernel = row.kernel;
  }
  if (points.empty()) {
    covered.reason = error.empty() ? "it was not timed" : "it was not timed: " + error;
    return;
  }
  const TimeCurve curve(std::move(points), {.what = "kernels", .of = "tokens"});
  covered.time_us = curve.at(product.tokens, covered.reason);
}

}  // namespace

std::vector<RankProduct> rank_products(const Step& step, const Deployment& deployment) {
  std::vector<RankProduct> products;
  std::vector<bool> taken(step.ops.size(), false);
  for (std::size_t at = 0; at < step.ops.size(); ++at) {
    if (taken[at]) continue;
    if (step.ops[at].name != kGateUp) {
      products.push_back(dense_product(step, at));
      continue;
    }
    std::size_t down = at + 1;
    while (down < step.ops.size() && (step.ops[down].name != kDown || taken[down])) ++down;
    if (down == step.ops.size()) {
      products.push_back({.ops = {at}, .reason = "the layer has no down product"});
      continue;
    }
    taken[down] = true;
    products.push_back(layer_product(step, at, down, deployment));
  }
  return products;
}

KernelCover cover_of(const Step& step, const Deployment& deployment,
                     const std::vector<GpuRow>& rows) {
  KernelCover cover;
  for (const RankProduct& product : rank_products(step, deployment)) {
    std::vector<std::string> names;
    CoveredOp covered{.tokens = product.tokens, .reason = product.reason};
    for (const std::size_t at : product.ops) {
      names.push_back(step.ops[at].name);
      covered.count = step.ops[at].count;
      covered.floor_us += step.ops[at].floor_us;
    }
    covered.op = join(names, " + ");
    if (!product.part.empty()) find_time(product, rows, covered);
    cover.ops.push_back(std::move(covered));
  }
  return cover;
}

}  // namespace nibble::diagnose
