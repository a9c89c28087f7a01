#include "bench/model_shapes.h"

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "machine/spec.h"
#include "model/config.h"

namespace nibble {
namespace {

bool has_kernel(Format weights) {
  return weights == Format::kNvfp4 || weights == Format::kMxfp4 || weights == Format::kBf16;
}

bool is_grouped(const Op& op) {
  return op.name == "moe.gate_up" || op.name == "moe.down";
}

bool is_same(const BenchShape& left, const BenchShape& right) {
  return left.format == right.format && left.activations == right.activations &&
         left.experts == right.experts && left.top_k == right.top_k && left.n == right.n &&
         left.k == right.k;
}

// What a CPU multiplies as it is; its rates are anybody's, since nothing is priced.
Result<MachineSpec> cpu_without_roofs() {
  NIBBLE_ASSIGN_OR_RETURN(MachineSpec machine, load_machine("h200"));
  const Peak any = machine.peaks.at(Precision::kBf16);
  machine.is_cpu = true;
  machine.peaks = {{Precision::kFp32, any}, {Precision::kBf16, any}, {Precision::kInt8, any}};
  return machine;
}

void fit_experts(BenchShape& shape, double available_bytes) {
  const double each =
      storage_bytes(shape.format, static_cast<double>(shape.n), static_cast<double>(shape.k))
          .total();
  const auto room = static_cast<std::int64_t>(available_bytes / 2 / each);
  const std::int64_t all = shape.experts;
  shape.experts = std::min(all, std::max(shape.top_k, room));
  if (shape.experts == all) return;
  shape.note = fmt::format("{} of the model's {} experts: half of the memory holds no more",
                           shape.experts, all);
}

}  // namespace

std::optional<FormatPair> parse_format_pair(std::string_view text) {
  constexpr std::string_view kBetween = " x ";
  const std::size_t at = text.find(kBetween);
  if (at == std::string_view::npos) return std::nullopt;
  const auto weights = format_from_string(text.substr(0, at));
  const auto activations = format_from_string(text.substr(at + kBetween.size()));
  if (!weights || !activations) return std::nullopt;
  return FormatPair{*weights, *activations};
}

Result<ModelShapes> model_shapes(const Deployment& deployment,
                                 const std::vector<std::int64_t>& tokens, double available_bytes) {
  NIBBLE_ASSIGN_OR_RETURN(const Step step, decode_step(deployment, 1));
  ModelShapes found;
  std::vector<std::string> without;
  for (const Op& op : step.ops) {
    const std::optional<FormatPair> pair = parse_format_pair(op.format);
    if (op.flop <= 0 || op.shape.n < 1 || op.shape.k < 1 || !pair) continue;
    if (!has_kernel(pair->weights)) {
      without.push_back(fmt::format("{} ({})", op.name, to_string(pair->weights)));
      continue;
    }
    BenchShape shape{.name = op.name,
                     .format = pair->weights,
                     .activations = pair->activations,
                     .n = static_cast<std::int64_t>(op.shape.n),
                     .k = static_cast<std::int64_t>(op.shape.k),
                     .tokens = tokens,
                     .where = fmt::format("{} of {}", op.name, deployment.model.title)};
    if (shape.format == Format::kBf16) shape.activations = Format::kBf16;
    if (is_grouped(op)) {
      shape.experts = deployment.model.moe->experts;
      shape.top_k = deployment.model.moe->top_k;
      fit_experts(shape, available_bytes);
    }
    const bool known = std::any_of(found.shapes.begin(), found.shapes.end(),
                                   [&](const BenchShape& other) { return is_same(shape, other); });
    if (!known) found.shapes.push_back(std::move(shape));
  }
  if (!without.empty()) {
    found.notes.push_back(
        fmt::format("no CPU kernel takes the weights of {}", join(without, ", ")));
  }
  if (found.shapes.empty()) {
    return input_error("{} has no product that a CPU kernel takes ({}); --format measures a shape",
                       deployment.model.title,
                       without.empty() ? "none with a format" : join(without, ", "));
  }
  return found;
}

Result<ModelShapes> shapes_on_cpu(const CpuRank& rank) {
  Deployment deployment;
  NIBBLE_ASSIGN_OR_RETURN(deployment.model, load_model(rank.model));
  NIBBLE_ASSIGN_OR_RETURN(deployment.machine, cpu_without_roofs());
  deployment.layout.tp = rank.tp;
  // Shapes depend neither on how long sequences are nor on a link, and nothing is priced.
  deployment.context = 1;
  deployment.link = LinkSpeed{1, 1};
  deployment.activations = rank.activations;
  return model_shapes(deployment, rank.tokens, rank.available_bytes);
}

Result<std::vector<BenchShape>> layer_of_model(std::string_view model, const ModelShapes& products,
                                               std::string_view kernel) {
  const auto gate_up = std::find_if(products.shapes.begin(), products.shapes.end(),
                                    [](const auto& shape) { return shape.name == "moe.gate_up"; });
  if (gate_up == products.shapes.end()) {
    return input_error(
        "{} has no experts in a format that {} takes; bench gemm measures its products", model,
        kernel);
  }
  BenchShape layer = *gate_up;
  layer.op = BenchOp::kMoe;
  layer.name = "moe";
  layer.where = fmt::format("the layer of {}", model);
  layer.n /= 2;  // gate and up are one matrix
  return std::vector<BenchShape>{layer};
}

}  // namespace nibble
