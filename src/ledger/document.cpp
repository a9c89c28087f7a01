// The ledger as JSON (`nibble.ledger/1`, docs/schemas/nibble.ledger.1.json) and its assumptions.
#include "base/units.h"
#include "ledger/sharding.h"
#include "ledger/step.h"

namespace nibble {
namespace {

Json shape_json(const OpShape& shape) {
  Json json = Json::object();
  json.set("text", shape.text);
  json.set("groups", shape.groups).set("m", shape.m).set("n", shape.n).set("k", shape.k);
  return json;
}

std::string traffic_sentence(const ParallelLayout& layout, AllReduce algorithm) {
  switch (expert_traffic(layout)) {
    case ExpertTraffic::kAllReduce:
      return fmt::format(
          "every GPU of a stage has every token; two all-reduces a layer ({}), none overlapped",
          to_string(algorithm));
    case ExpertTraffic::kGather:
      return "tokens are gathered over the attention groups before the experts and scattered back "
             "after, not "
             "overlapped";
    case ExpertTraffic::kAllToAll:
      return "tokens go once to each rank that has one of their experts and back in bf16 "
             "(all-to-all), not "
             "overlapped; the shared expert stays with its tokens";
  }
  return "";
}

}  // namespace

Json to_json(const Op& op) {
  Json json = Json::object();
  json.set("name", op.name)
      .set("count", op.count)
      .set("shape", shape_json(op.shape))
      .set("format", op.format);
  json.set("weight_bytes", op.bytes.weight_bytes).set("scale_bytes", op.bytes.scale_bytes);
  json.set("kv_bytes", op.bytes.kv_bytes).set("activation_bytes", op.bytes.activation_bytes);
  json.set("link_bytes", op.bytes.link_bytes);
  json.set("flop", op.flop);
  json.set("precision", op.flop > 0 ? Json(to_string(op.precision)) : Json());
  json.set("launches", op.launches);
  json.set("memory_us", op.memory_us).set("compute_us", op.compute_us).set("tile_us", op.tile_us);
  json.set("link_us", op.link_us).set("launch_us", op.launch_us);
  json.set("floor_us", op.floor_us).set("total_us", op.count * op.floor_us);
  json.set("regime", to_string(op.regime));
  json.set("tensor_activity", op.tensor_activity).set("dram_activity", op.dram_activity);
  json.set("tile_coverage", op.coverage).set("tile_padding", op.padding);
  json.set("misaligned", op.misaligned.empty() ? Json() : Json(op.misaligned));
  json.set("note", op.note);
  return json;
}

Json to_json(const Step& step) {
  Json json = Json::object();
  json.set("concurrency", step.concurrency).set("rows", step.rows);
  json.set("step_us", step.step_us).set("tokens_per_s", step.tokens_per_s);
  json.set("tokens_per_s_per_sequence", step.tokens_per_s_per_sequence);
  json.set("distinct_experts", step.routing ? Json(step.routing->distinct) : Json());
  json.set("weight_bytes", step.weight_bytes).set("scale_bytes", step.scale_bytes);
  json.set("kv_bytes", step.kv_bytes).set("activation_bytes", step.activation_bytes);
  json.set("link_bytes", step.link_bytes).set("flop", step.flop);
  json.set("memory_us", step.memory_us).set("compute_us", step.compute_us);
  json.set("link_us", step.link_us).set("launch_us", step.launch_us);
  json.set("weights_and_kv_us", step.weights_and_kv_us);
  json.set("bound_memory_us", step.bound_memory_us).set("bound_compute_us", step.bound_compute_us);
  json.set("bound_link_us", step.bound_link_us).set("bound_launch_us", step.bound_launch_us);
  json.set("pipeline_bubble_us", step.pipeline_bubble_us);
  json.set("regime", to_string(step.regime));
  json.set("tensor_activity", step.tensor_activity).set("dram_activity", step.dram_activity);
  json.set("microbatches", step.microbatches).set("stage", step.stage);
  json.set("routing", step.routing ? to_json(*step.routing) : Json());
  Json ops = Json::array();
  for (const Op& op : step.ops) ops.push(to_json(op));
  json.set("ops", std::move(ops));
  return json;
}

Json to_json(const Capacity& capacity) {
  Json json = Json::object();
  json.set("weight_bytes_per_gpu", capacity.weight_bytes_per_gpu);
  json.set("kv_bytes_per_token", capacity.kv_bytes_per_token);
  json.set("stage", capacity.stage);
  json.set("budget_bytes", capacity.budget_bytes).set("tokens", capacity.tokens);
  json.set("limit", capacity.limit.empty() ? Json() : Json(capacity.limit));
  return json;
}

std::vector<std::string> assumptions(const Deployment& deployment) {
  const ParallelLayout& layout = deployment.layout;
  std::vector<std::string> lines;
  lines.push_back(
      "operations run one after another; each takes the largest of bytes / bandwidth, FLOP / dense "
      "peak and link time, plus the gap before its kernel");
  lines.push_back(
      fmt::format("bandwidth {} GB/s x {}; weights, KV and activations all come from DRAM",
                  format_number(deployment.machine.bandwidth_gb_s.value),
                  format_number(deployment.bandwidth_efficiency)));
  lines.push_back(fmt::format("launch gap {} us per kernel ({})",
                              format_number(deployment.effective_launch_gap_us()),
                              deployment.launch_gap_us           ? "given"
                              : deployment.machine.launch_gap_us ? "catalog"
                              : deployment.machine.is_cpu        ? "assumed"
                                                          : "assumed for a replayed CUDA graph"));
  if (deployment.model.moe)
    lines.push_back(fmt::format("routing: {}, tokens independent", deployment.routing.source));
  lines.push_back(fmt::format("KV cache in {}, {} tokens of context per sequence",
                              to_string(deployment.effective_kv_format()),
                              format_number(deployment.context)));
  if (layout.gpus() > 1) {
    const LinkSpeed link = deployment.effective_link();
    lines.push_back(fmt::format("link {} GB/s per direction and GPU, {} us per hop",
                                format_number(link.bandwidth_gb_s),
                                format_number(link.latency_us)));
    lines.push_back(traffic_sentence(layout, deployment.all_reduce));
  }
  if (layout.pp > 1) {
    lines.push_back(
        "each pipeline stage reads its weights once per microbatch; the slowest stage sets the "
        "pace");
  }
  lines.push_back(
      "fused: residual with norm, activation with the GEMM before it, gather and weighted combine "
      "with "
      "the expert GEMMs; logits are not gathered; sampling and MTP layers are left out");
  return lines;
}

}  // namespace nibble
