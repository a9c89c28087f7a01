#include "ledger/layout.h"

namespace nibble {
namespace {

Result<> at_least_one(std::string_view flag, std::int64_t value) {
  if (value >= 1) return {};
  return usage_error("{} is {}; give a whole number of at least 1", flag, value);
}

Result<> divides(std::string_view what, std::int64_t total, std::string_view by,
                 std::int64_t parts) {
  if (total % parts == 0) return {};
  return input_error("{} {} does not divide by {} {}: {} / {} = {:.3f}", what, total, by, parts,
                     total, parts, static_cast<double>(total) / static_cast<double>(parts));
}

Result<> validate_attention(const ParallelLayout& layout, const AttentionSpec& attention) {
  const std::int64_t tp = layout.attention_tp();
  NIBBLE_RETURN_IF_ERROR(divides("attention head count", attention.heads, "--tp", tp));
  if (attention.kind == AttentionKind::kMla) return {};
  // Fewer KV heads than ranks are repeated, whole, on tp / kv_heads ranks each.
  if (attention.kv_heads % tp != 0 && tp % attention.kv_heads != 0) {
    return input_error("{} KV heads cannot be spread over --tp {}: neither divides the other",
                       attention.kv_heads, tp);
  }
  return {};
}

Result<> validate_experts(const ParallelLayout& layout, const ModelSpec& model) {
  if (!model.moe) {
    if (layout.ep == 1) return {};
    return input_error("{} has no experts; leave --ep out", model.name);
  }
  const MoeSpec& moe = *model.moe;
  if (layout.ep > moe.experts) {
    return input_error("--ep {} is larger than the {} experts of {}", layout.ep, moe.experts,
                       model.name);
  }
  if (layout.stage_gpus() % layout.ep != 0) {
    return input_error("--ep {} must divide tp x dp = {} x {} = {}", layout.ep, layout.tp,
                       layout.dp, layout.stage_gpus());
  }
  NIBBLE_RETURN_IF_ERROR(divides("expert count", moe.experts, "--ep", layout.ep));
  return divides("expert intermediate size", moe.intermediate, "the GPUs that share an expert,",
                 layout.moe_tp());
}

}  // namespace

std::string ParallelLayout::describe() const {
  std::string text = fmt::format("TP{}", tp);
  if (dp_attention) text += " + DP attention";
  if (dp > 1) text += fmt::format(" x DP{}", dp);
  if (ep > 1) text += fmt::format(", EP{}", ep);
  if (pp > 1) text += fmt::format(" x PP{} ({} microbatches)", pp, in_flight());
  return text;
}

Result<> validate(const ParallelLayout& layout, const ModelSpec& model) {
  NIBBLE_RETURN_IF_ERROR(at_least_one("--tp", layout.tp));
  NIBBLE_RETURN_IF_ERROR(at_least_one("--pp", layout.pp));
  NIBBLE_RETURN_IF_ERROR(at_least_one("--dp", layout.dp));
  NIBBLE_RETURN_IF_ERROR(at_least_one("--ep", layout.ep));
  if (layout.microbatches < 0) {
    return usage_error("--pp-microbatches is {}; give a whole number of at least 1",
                       layout.microbatches);
  }
  constexpr std::int64_t kMostGpus = 65536;  // keeps products of the four far from overflow
  for (const std::int64_t size :
       {layout.tp, layout.pp, layout.dp, layout.ep, layout.microbatches}) {
    if (size > kMostGpus)
      return usage_error("a layout of {} parts is refused; the most is {}", size, kMostGpus);
  }
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  if (layout.pp > layers) {
    return input_error("--pp {} is larger than the {} layers of {}", layout.pp, layers, model.name);
  }
  if (layout.microbatches > 0 && layout.pp == 1 && layout.microbatches > 1) {
    return usage_error("--pp-microbatches {} needs --pp of at least 2", layout.microbatches);
  }
  if (layout.dp_attention && layout.tp == 1) {
    return usage_error(
        "--dp-attention needs --tp of at least 2: it splits sequences over the tp group");
  }
  NIBBLE_RETURN_IF_ERROR(validate_attention(layout, model.attention));
  for (const LayerSpec& layer : model.layers) {
    if (layer.moe) continue;
    NIBBLE_RETURN_IF_ERROR(
        divides("dense intermediate size", layer.dense_intermediate, "--tp", layout.tp));
  }
  return validate_experts(layout, model);
}

Json to_json(const ParallelLayout& layout) {
  Json json = Json::object();
  json.set("tp", layout.tp).set("pp", layout.pp).set("dp", layout.dp).set("ep", layout.ep);
  json.set("dp_attention", layout.dp_attention);
  json.set("pp_microbatches", layout.in_flight());
  json.set("gpus", layout.gpus());
  json.set("text", layout.describe());
  return json;
}

}  // namespace nibble
