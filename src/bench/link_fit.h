// Latency and bandwidth of a link from the times of messages over it, such that the ledger's
// formulas (ledger/collective.h) give those times back.
//
//   const std::vector<LinkPoint> points = {{2048, 9.1}, {1 << 20, 14.3}, {64 << 20, 201}};
//   NIBBLE_ASSIGN_OR_RETURN(const LinkFit fit, fit_link(LinkOp::kAllReduce, {.ranks = 2}, points));
//   fit.link.bandwidth_gb_s, fit.link.latency_us, fit.worst_factor
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "ledger/collective.h"

namespace nibble {

enum class LinkOp { kCopy, kAllReduce, kAllGather, kAllToAll };

std::string_view to_string(LinkOp op);  // "copy", "all_reduce", "all_gather", "all_to_all"

// What a message's size means, as NCCL's own tests count it: of a copy and an all-reduce the bytes
// that a rank gives; of an all-gather those that it ends with; of an all-to-all those of its whole
// buffer, of which it keeps 1/ranks.
struct LinkPoint {
  double bytes = 0;
  double time_us = 0;
};

struct LinkModel {
  std::int64_t ranks = 2;
  AllReduce all_reduce = AllReduce::kFastest;  // what `nibble analyze` assumes by default
};

// The ledger's time and bytes of one message.
CollectiveCost link_cost(LinkOp op, const LinkModel& model, double bytes, LinkSpeed link);

struct LinkFit {
  LinkSpeed link;
  double worst_factor = 1;  // largest ratio of fitted to measured time, or of measured to fitted
  double worst_bytes = 0;   // the message that has it
};

// Least squares of the relative errors, neither number below zero: every size counts alike, where
// plain least squares would see the largest messages alone. Refused: fewer than two sizes, numbers
// that are not positive, and times that do not grow with the bytes.
Result<LinkFit> fit_link(LinkOp op, const LinkModel& model, std::span<const LinkPoint> points);

}  // namespace nibble
