// What the kernels around the grouped products are compiled for, and what they are launched with:
// shared by host C++ and device code.
//
//   constexpr MoeShape kShape{.experts = 256, .top_k = 8, .hidden = 6144};
//   route_tables<kShape>(tables);       // device
//   most_slots(tokens, 8, 256);         // how long the lists of slots are at most
//
// Slots: the tokens of an expert, in ascending order, stand in consecutive slots that begin at a
// multiple of eight (w4a16_layout.h); what is left of the last eight is padding. A choice is one
// expert of one token, counted token by token.
#pragma once

#include "kernels/device/element.h"
#include "kernels/gemm/device/w4a16_layout.h"

namespace nibble {

struct MoeShape {
  int experts = 1;
  int top_k = 1;
  int groups = 1;      // equal runs of neighbouring experts; kernels/moe/router.h has the rules
  int top_groups = 1;  // of which experts are chosen
  bool sigmoid = false;
  bool renormalise = false;
  bool softmax_after_top_k = false;
  bool correction_bias = false;
  int hidden = 2;                   // even
  Element output = Element::kBf16;  // of the layer, and of the rows that it adds up
  friend constexpr bool operator==(const MoeShape&, const MoeShape&) = default;
};

// A lane keeps two numbers of every 32nd expert, and a block three of every expert.
inline constexpr int kMostDeviceExperts = 1536;

inline constexpr int kTopKThreads = 256;    // a warp a token
inline constexpr int kTablesThreads = 512;  // a choice a thread and round
inline constexpr int kRowThreads = 256;     // gather and combine: 16 bytes a thread

// Up to here one block chooses the experts too, and a launch is saved.
inline constexpr int kFusedTokens = 32;
inline constexpr int kFusedChoices = 1024;
inline constexpr int kFusedExperts = 512;  // so that their scores fit in registers
NIBBLE_HOST_DEVICE constexpr bool has_fused_route(int experts) {
  return experts <= kFusedExperts;
}
NIBBLE_HOST_DEVICE constexpr bool is_fused_route(int experts, int top_k, int64_t tokens) {
  return has_fused_route(experts) && tokens <= kFusedTokens && tokens * top_k <= kFusedChoices;
}

NIBBLE_HOST_DEVICE constexpr int64_t most_slots(int64_t tokens, int64_t top_k, int64_t experts) {
  const int64_t choices = tokens * top_k;
  const int64_t active = choices < experts ? choices : experts;
  return ceil_div(choices + (kSlotGroup - 1) * active, kSlotGroup) * kSlotGroup;
}

// Choices that a block of route_tables places: one round of its threads as long as there are
// blocks for it.
NIBBLE_HOST_DEVICE constexpr int64_t choices_per_block(int64_t choices, int64_t blocks) {
  return ceil_div(choices, blocks * kTablesThreads) * kTablesThreads;
}

// Columns that a thread of combine takes: 16 bytes, or less where rows do not begin at multiples of
// that.
NIBBLE_HOST_DEVICE constexpr int combine_columns(int hidden, Element element) {
  int columns = 16 / bytes_of(element);
  while (hidden % columns != 0) columns /= 2;
  return columns;
}

// Which experts every token meets.
struct RouteTopK {
  const float* logits = nullptr;           // [tokens, experts]
  const float* linear_bias = nullptr;      // [experts], added first; or nullptr
  const float* correction_bias = nullptr;  // [experts] where the shape has one
  int* ids = nullptr;                      // [tokens, top_k], best first
  float* weights = nullptr;                // [tokens, top_k]
  float scaling_factor = 1;
  int tokens = 0;
};

// What follows from ids and weights.
struct RouteTables {
  const int* ids = nullptr;        // [tokens, top_k]; one that is no expert is dropped
  const float* weights = nullptr;  // [tokens, top_k]
  int tokens = 0;
  int tile_a = 8;  // tokens of a tile of the first and of the second product
  int tile_b = 8;
  int* counts = nullptr;         // [experts]
  int* offsets = nullptr;        // [experts + 1]: the first slot; at last the number of slots
  int* tiles_a = nullptr;        // [experts + 1]: tiles of the experts before
  int* tiles_b = nullptr;        // [experts + 1]
  int* slot_token = nullptr;     // [slots]; -1: padding
  float* slot_weight = nullptr;  // [slots]; 0: padding
  int* choice_slot = nullptr;    // [tokens, top_k]; -1: dropped
  int* dropped = nullptr;        // [1]: dropped choices are added to it
  uint32_t* flags_a = nullptr;   // [flags_a_count], set to 0
  uint32_t* flags_b = nullptr;   // [flags_b_count], set to 0
  int flags_a_count = 0;
  int flags_b_count = 0;
};

// Tokens to slots: rows to the tiles of w4a16_layout.h, bits as they are.
struct GatherRows {
  const void* x = nullptr;           // [tokens, hidden], 16-bit elements
  const int* choice_slot = nullptr;  // [tokens, top_k]
  void* slots = nullptr;             // [slots / 8][chunks][1024 bytes]
  int tokens = 0;
};

// Slots to tokens.
struct CombineRows {
  const void* rows = nullptr;        // [slots, hidden], the router's weight in them
  const int* choice_slot = nullptr;  // [tokens, top_k]
  const void* shared = nullptr;      // [tokens, hidden], added last; or nullptr; may be y
  void* y = nullptr;                 // [tokens, hidden]
  int tokens = 0;
};

}  // namespace nibble
