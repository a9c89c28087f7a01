#include "capi/cpu_tokens.h"

#include <algorithm>

#include "capi/arguments.h"
#include "capi/cpu_range.h"
#include "capi/elements.h"
#include "kernels/moe/dispatch.h"

namespace nibble::capi {
namespace {

// How many values of a row share a unit: 64, or with the FP4 operand a factor of all.
std::int64_t columns_of_unit(const nibble_moe_desc& desc, std::int64_t columns) {
  return desc.operand == NIBBLE_OPERAND_FP4 ? columns : kUnitColumns;
}

}  // namespace

Result<CpuTokens> CpuTokens::read(const nibble_moe_desc& desc, const nibble_moe_args& args) {
  const std::size_t bytes = bytes_of_dtype(desc.dtype);
  NIBBLE_RETURN_IF_ERROR(check_alignment("topk_ids", args.topk_ids, alignof(std::int32_t)));
  NIBBLE_RETURN_IF_ERROR(check_alignment("topk_weights", args.topk_weights, alignof(float)));
  NIBBLE_RETURN_IF_ERROR(check_alignment("hidden_states", args.hidden_states, bytes));
  NIBBLE_RETURN_IF_ERROR(check_alignment("shared", args.shared, bytes));
  NIBBLE_RETURN_IF_ERROR(check_alignment("out", args.out, bytes));
  const auto choices = static_cast<std::size_t>(args.tokens * desc.top_k);
  CpuTokens tokens{.ids = {args.topk_ids, choices}, .weights = {args.topk_weights, choices}};
  NIBBLE_RETURN_IF_ERROR(check_expert_ids(tokens.ids, desc.top_k, desc.experts));
  NIBBLE_RETURN_IF_ERROR(check_finite("topk_weights", tokens.weights, desc.top_k));
  const std::int64_t values = args.tokens * desc.hidden;
  tokens.x = widened(args.hidden_states, desc.dtype, values);
  const auto beyond = beyond_range(tokens.x, desc.hidden, columns_of_unit(desc, desc.hidden));
  if (beyond) {
    const std::string where = fmt::format("hidden_states[{}, {}]", beyond->row, beyond->column);
    return input_error("{}", beyond_sentence(where, *beyond));
  }
  if (args.shared != nullptr) {
    tokens.shared = widened(args.shared, desc.dtype, values);
    NIBBLE_RETURN_IF_ERROR(check_finite("shared", tokens.shared, desc.hidden));
  }
  return tokens;
}

Result<> check_layer_made(const nibble_moe_desc& desc, const MoeWorkspace& workspace,
                          std::span<const float> y) {
  const auto beyond = beyond_range(workspace.activated(), desc.intermediate,
                                   columns_of_unit(desc, desc.intermediate));
  if (beyond) {
    const auto slots = workspace.slot_of();
    const auto choice =
        std::find(slots.begin(), slots.end(), static_cast<std::int32_t>(beyond->row)) -
        slots.begin();
    const std::string where =
        fmt::format("the activation of token {} in expert {}, column {}", choice / desc.top_k,
                    workspace.expert_ids()[static_cast<std::size_t>(choice)], beyond->column);
    return run_error("{}", beyond_sentence(where, *beyond));
  }
  if (const auto wrong = not_finite(y, desc.hidden)) {
    return run_error(
        "out[{}, {}] is {}: sums of the layer leave fp32; give smaller hidden_states, weights or "
        "topk_weights",
        wrong->row, wrong->column, wrong->value);
  }
  return {};
}

}  // namespace nibble::capi
