#include "ledger/operations.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "ledger/attention.h"

namespace nibble {
namespace {

double activation_bytes(Format format, double rows, double columns) {
  return storage_bytes(format, rows, columns).total();
}

const Weight* find_part(const std::vector<Weight>& weights, Part part) {
  for (const Weight& weight : weights) {
    if (weight.part == part) return &weight;
  }
  return nullptr;
}

// The format in which a matrix takes its input: the user's choice, or the checkpoint's; bf16 where
// the machine has no unit for that pair, since the weights are widened then.
Format input_format(const Deployment& deployment, const Weight& weight) {
  const bool chosen = deployment.activations && weight.format != Format::kBf16;
  const Format wanted = chosen ? *deployment.activations : weight.activations;
  return multiplies_as_is(deployment.machine, weight.format, wanted) ? wanted : Format::kBf16;
}

// K elements that share a scale.
double block_of(Format format) {
  switch (format) {
    case Format::kNvfp4:
      return 16;
    case Format::kMxfp4:
    case Format::kMxfp8:
      return 32;
    case Format::kFp8Block128:
    case Format::kInt4Group128:
      return 128;
    default:
      return 1;
  }
}

// Formats and precision of the product, and what is odd about it on this machine and this cut.
void describe_product(Op& op, const Deployment& deployment, const Weight& weight,
                      const LocalWeight& local) {
  const Format input = input_format(deployment, weight);
  op.format = fmt::format("{} x {}", to_string(weight.format), to_string(input));
  op.precision = compute_precision(deployment.machine, weight.format, input);
  const std::string widening = widening_note(
      deployment.machine, weight.format,
      deployment.activations && weight.format != Format::kBf16 ? *deployment.activations
                                                               : weight.activations);
  if (!widening.empty()) op.note += (op.note.empty() ? "" : "; ") + widening;
  const double block = block_of(weight.format);
  const bool cut = local.columns < static_cast<double>(weight.columns) ||
                   local.rows < static_cast<double>(weight.rows);
  if (cut && std::fmod(local.columns, block) != 0) {
    op.misaligned = fmt::format("K = {} on a GPU is no multiple of the {}-wide blocks of {}",
                                local.columns, block, to_string(weight.format));
  } else if (cut && weight.format == Format::kFp8Block128 && std::fmod(local.rows, block) != 0) {
    op.misaligned = fmt::format("N = {} on a GPU is no multiple of the {}-high blocks of {}",
                                local.rows, block, to_string(weight.format));
  }
}

// One GEMM [rows, n, k] over matrices that share an input, their outputs side by side.
// `output_share`: how much of the output's width is written (half when SwiGLU is fused).
Op dense_op(const Deployment& deployment, std::string name, const std::vector<const Weight*>& fused,
            double rows, double output_share) {
  Op op{.name = std::move(name)};
  Format input = Format::kBf16;
  for (const Weight* weight : fused) {
    const LocalWeight local = shard(*weight, deployment.model, deployment.layout);
    op.shape.n += local.rows;
    op.shape.k = local.columns;
    op.bytes.weight_bytes += local.total_bytes();
    op.bytes.scale_bytes += local.copies * local.bytes_each.scales;
    op.flop += 2 * rows * local.rows * local.columns;
    input = input_format(deployment, *weight);
    if (local.replicated) op.note = "replicated on every rank of the group";
    if (weight == fused.front()) describe_product(op, deployment, *weight, local);
  }
  op.shape.m = rows;
  op.shape.text = fmt::format("[{}, {}, {}]", format_compact(rows), op.shape.n, op.shape.k);
  op.bytes.activation_bytes =
      activation_bytes(input, rows, op.shape.k) + rows * op.shape.n * output_share * kBf16Bytes;
  return op;
}

// Builds the operations of one layer; each method appends the next ones in execution order.
class LayerBuilder {
 public:
  LayerBuilder(const StageContext& context, const LayerClass& layer)
      : deployment_(context.deployment),
        model_(context.deployment.model),
        layout_(context.deployment.layout),
        pass_(context.pass),
        routing_(context.routing),
        layer_(layer) {}

  std::vector<Op> build() {
    norm("attn.norm");
    if (model_.attention.kind == AttentionKind::kMla) {
      mla_projections();
    } else {
      gqa_projections();
    }
    ops_.push_back(attention_core(core_input()));
    dense("attn.out", {Part::kOut}, pass_.rows);
    reduce("attn.all_reduce", layout_.attention_tp(), pass_.rows);
    norm("ffn.norm");
    if (layer_.layer.moe) {
      experts();
    } else {
      dense_ffn();
    }
    return std::move(ops_);
  }

 private:
  // One GEMM over the parts of this layer that are fused into it; parts that it lacks are left out.
  void dense(std::string name, std::initializer_list<Part> parts, double rows,
             double output_share = 1) {
    std::vector<const Weight*> fused;
    for (const Part part : parts) {
      if (const Weight* weight = find_part(layer_.weights, part)) fused.push_back(weight);
    }
    if (!fused.empty())
      ops_.push_back(dense_op(deployment_, std::move(name), fused, rows, output_share));
  }

  // Adds the sublayer's output to the residual and normalises: reads both, writes both.
  void norm(std::string name) {
    const double rows = pass_.rows;
    const auto hidden = static_cast<double>(model_.hidden);
    Op op{.name = std::move(name)};
    op.shape.m = rows;
    op.shape.n = hidden;
    op.shape.text = fmt::format("[{}, {}]", format_compact(rows), model_.hidden);
    op.format = "bf16";
    op.bytes.activation_bytes = 4 * rows * hidden * kBf16Bytes;
    ops_.push_back(std::move(op));
  }

  void link_op(std::string name, const CollectiveCost& cost, double payload_bytes,
               std::string note) {
    if (cost.link_bytes <= 0) return;
    Op op{.name = std::move(name)};
    op.shape.text = fmt::format("{} of bf16", format_bytes(payload_bytes));
    op.format = "bf16";
    op.bytes.link_bytes = cost.link_bytes;
    op.link_us = cost.time_us;
    op.note = std::move(note);
    ops_.push_back(std::move(op));
  }

  double row_bytes(double rows) const {
    return rows * static_cast<double>(model_.hidden) * kBf16Bytes;
  }

  void reduce(std::string name, std::int64_t ranks, double rows) {
    const LinkSpeed link = deployment_.effective_link();
    const double bytes = row_bytes(rows);
    link_op(std::move(name), all_reduce(deployment_.all_reduce, ranks, bytes, link), bytes,
            fmt::format("{} over {} GPUs", to_string(deployment_.all_reduce), ranks));
  }

  void gather(std::string name, std::int64_t ranks, double total_rows) {
    const double bytes = row_bytes(total_rows);
    link_op(std::move(name), all_gather(ranks, bytes, deployment_.effective_link()), bytes,
            fmt::format("over {} GPUs", ranks));
  }

  void mla_projections() {
    dense("attn.qkv_a", {Part::kQA, Part::kKvA}, pass_.rows);
    if (layer_.layer.indexer) {
      dense("attn.index_q", {Part::kIndexerQB}, pass_.rows);
      dense("attn.index_k", {Part::kIndexerK, Part::kIndexerWeights}, pass_.rows);
      ops_.push_back(index_scores(core_input()));
    }
    dense("attn.q", {Part::kQ, Part::kQB}, pass_.rows);
    // Decode absorbs kv_b into the query and the output; prefill expands the latents of the chunk
    // and of what is cached.
    const bool expands = pass_.prefill && !attention_is_sparse(core_input());
    dense("attn.kv_b", {Part::kKvB},
          expands ? pass_.rows + pass_.sequences * pass_.past : pass_.rows);
  }

  void gqa_projections() { dense("attn.qkv", {Part::kQ, Part::kK, Part::kV}, pass_.rows); }

  AttentionInput core_input() const {
    return {.model = model_,
            .layer = layer_.layer,
            .kv_format = deployment_.effective_kv_format(),
            .attention_tp = layout_.attention_tp(),
            .sequences = pass_.sequences,
            .rows = pass_.rows,
            .past = pass_.past,
            .prefill = pass_.prefill};
  }

  // Gate and up come out as one product and leave as half its width after SwiGLU.
  void mlp(const std::string& prefix, Part gate_up, Part down, double rows) {
    dense(prefix + ".gate_up", {gate_up}, rows, 0.5);
    dense(prefix + ".down", {down}, rows);
  }

  void dense_ffn() {
    const bool gathers = layout_.dp_attention;
    if (gathers) gather("dense.all_gather", layout_.tp, pass_.gathered_rows);
    const double rows = gathers ? pass_.gathered_rows : pass_.rows;
    mlp("dense", Part::kDenseGateUp, Part::kDenseDown, rows);
    if (gathers) {
      gather("dense.reduce_scatter", layout_.tp, pass_.gathered_rows);
    } else {
      reduce("dense.all_reduce", dense_tp(layout_), rows);
    }
  }

  void experts() {
    dense("moe.router", {Part::kRouter}, pass_.rows);
    if (layout_.attention_tp() > 1)
      ops_.back().note = "split over the group; engines that replicate it read all of it";
    const ExpertTraffic traffic = expert_traffic(layout_);
    if (traffic == ExpertTraffic::kGather)
      gather("moe.all_gather", layout_.stage_gpus(), pass_.routed_rows);
    if (traffic == ExpertTraffic::kAllToAll) all_to_all_op("moe.dispatch");
    grouped("moe.gate_up", Part::kExpertGateUp, 0.5);
    grouped("moe.down", Part::kExpertDown, 1);
    const double shared_rows = traffic == ExpertTraffic::kAllToAll ? pass_.rows : pass_.routed_rows;
    mlp("shared", Part::kSharedGateUp, Part::kSharedDown, shared_rows);
    if (traffic == ExpertTraffic::kAllToAll) {
      all_to_all_op("moe.combine");
      reduce("shared.all_reduce",
             find_part(layer_.weights, Part::kSharedDown) ? shared_tp(layout_) : 1, pass_.rows);
    } else if (traffic == ExpertTraffic::kGather) {
      gather("moe.reduce_scatter", layout_.stage_gpus(), pass_.routed_rows);
    } else {
      reduce("moe.all_reduce", layout_.stage_gpus(), pass_.rows);
    }
  }

  // Each GPU sends its share of the group's tokens once to every other rank that has one of their
  // experts.
  void all_to_all_op(std::string name) {
    const std::int64_t ranks = layout_.moe_ep();
    const double reached = distinct_ranks(model_.moe->experts, model_.moe->top_k, ranks);
    const double rows = pass_.rows / static_cast<double>(layout_.attention_tp());
    const double sent =
        row_bytes(rows) * reached * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
    link_op(
        std::move(name), all_to_all(ranks, sent, deployment_.effective_link()), sent,
        fmt::format("all-to-all over {} GPUs, {} ranks per token", ranks, format_number(reached)));
  }

  // The grouped GEMM of the rank that has most distinct experts and rows.
  void grouped(std::string name, Part part, double output_share) {
    const Weight* weight = find_part(layer_.weights, part);
    if (weight == nullptr || routing_ == nullptr) return;
    const LocalWeight local = shard(*weight, model_, layout_);
    const double groups = routing_->rank_distinct_max;
    const double rows = routing_->rank_rows_max;
    const Format input = input_format(deployment_, *weight);
    Op op{.name = std::move(name)};
    op.shape = {.groups = groups, .m = rows / groups, .n = local.rows, .k = local.columns};
    op.shape.text = fmt::format("{} x [{}, {}, {}]", format_compact(groups),
                                format_compact(op.shape.m), op.shape.n, op.shape.k);
    describe_product(op, deployment_, *weight, local);
    op.bytes.weight_bytes = groups * local.bytes_each.total();
    op.bytes.scale_bytes = groups * local.bytes_each.scales;
    op.flop = 2 * rows * local.rows * local.columns;
    op.bytes.activation_bytes = grouped_activations(part, input, rows, local, output_share);
    if (layout_.moe_ep() > 1) {
      op.note += (op.note.empty() ? "" : "; ") + std::string("the rank with most distinct experts");
    }
    ops_.push_back(std::move(op));
  }

  // Each token is read once whatever the number of its experts (the copies hit L2), and the
  // weighted sum of its experts leaves in one row: a fused gather and combine.
  double grouped_activations(Part part, Format input, double rows, const LocalWeight& local,
                             double output_share) const {
    const double tokens = std::min(rows, pass_.routed_rows);
    if (part == Part::kExpertGateUp) {
      return activation_bytes(input, tokens, local.columns) +
             rows * local.rows * output_share * kBf16Bytes;
    }
    return activation_bytes(input, rows, local.columns) + row_bytes(tokens);
  }

  const Deployment& deployment_;
  const ModelSpec& model_;
  const ParallelLayout& layout_;
  const Pass& pass_;
  const RoutingStats* routing_;
  const LayerClass& layer_;
  std::vector<Op> ops_;
};

}  // namespace

std::vector<Op> layer_operations(const StageContext& context, const LayerClass& layer) {
  return LayerBuilder(context, layer).build();
}

std::vector<Op> first_stage_operations(const StageContext& context,
                                       const std::vector<Weight>& outer) {
  const Weight* table = find_part(outer, Part::kEmbedding);
  if (table == nullptr) return {};
  const auto hidden = static_cast<double>(context.deployment.model.hidden);
  Op op{.name = "embed"};
  op.shape.m = context.pass.rows;
  op.shape.n = hidden;
  op.shape.text = fmt::format("[{}, {}]", format_compact(context.pass.rows), hidden);
  op.format = std::string(to_string(table->format));
  // A lookup: one row of the table a token, read and written.
  op.bytes.activation_bytes = 2 * context.pass.rows * hidden * kBf16Bytes;
  return {op};
}

std::vector<Op> last_stage_operations(const StageContext& context,
                                      const std::vector<Weight>& outer) {
  const Weight* head = find_part(outer, Part::kLmHead);
  // A tied head multiplies by the embedding table.
  if (head == nullptr) head = find_part(outer, Part::kEmbedding);
  if (head == nullptr) return {};
  Weight as_head = *head;
  as_head.part = Part::kLmHead;
  return {dense_op(context.deployment, "lm_head", {&as_head}, context.pass.logits_rows, 1)};
}

Op stage_transfer(const StageContext& context) {
  const double bytes =
      context.pass.rows * static_cast<double>(context.deployment.model.hidden) * kBf16Bytes;
  const CollectiveCost cost = send(bytes, context.deployment.effective_link());
  Op op{.name = "pp.send"};
  op.shape.text = fmt::format("{} of bf16", format_bytes(bytes));
  op.format = "bf16";
  op.bytes.link_bytes = cost.link_bytes;
  op.link_us = cost.time_us;
  op.note = "hidden states to the next stage";
  return op;
}

}  // namespace nibble
