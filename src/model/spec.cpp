#include "model/spec.h"

#include <algorithm>

namespace nibble {

double AttentionSpan::tokens_read(double context) const {
  const auto size = static_cast<double>(tokens);
  switch (kind) {
    case SpanKind::kFull:
      return context;
    case SpanKind::kWindow:
      return std::min(context, size);
    // A query sees its own chunk only, up to itself: 1 to `size` tokens, half of it on average.
    case SpanKind::kChunked:
      return context <= size ? context : size / 2;
  }
  return context;
}

std::string_view to_string(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::kMha:
      return "MHA";
    case AttentionKind::kGqa:
      return "GQA";
    case AttentionKind::kMla:
      return "MLA";
  }
  return "";
}

std::string_view to_string(Part part) {
  switch (part) {
    case Part::kEmbedding:
      return "embedding";
    case Part::kLmHead:
      return "lm_head";
    case Part::kQ:
      return "q";
    case Part::kK:
      return "k";
    case Part::kV:
      return "v";
    case Part::kQA:
      return "q_a";
    case Part::kQB:
      return "q_b";
    case Part::kKvA:
      return "kv_a";
    case Part::kKvB:
      return "kv_b";
    case Part::kOut:
      return "o";
    case Part::kIndexerQB:
      return "indexer.q_b";
    case Part::kIndexerK:
      return "indexer.k";
    case Part::kIndexerWeights:
      return "indexer.weights";
    case Part::kRouter:
      return "router";
    case Part::kDenseGateUp:
      return "dense.gate_up";
    case Part::kDenseDown:
      return "dense.down";
    case Part::kSharedGateUp:
      return "shared.gate_up";
    case Part::kSharedDown:
      return "shared.down";
    case Part::kExpertGateUp:
      return "experts.gate_up";
    case Part::kExpertDown:
      return "experts.down";
    case Part::kMtpProjection:
      return "mtp.projection";
    case Part::kSmall:
      return "small";
  }
  return "";
}

}  // namespace nibble
