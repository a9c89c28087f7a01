#include "bench/link_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace nibble {
namespace {

// What a message costs of each unknown: time = hops x latency + wire_bytes / bandwidth.
struct Terms {
  double hops = 0;
  double wire_bytes = 0;
  bool operator==(const Terms&) const = default;
};

// The better of one-shot and two-shot depends on the link that is sought: it is chosen under the
// link found so far.
LinkModel settled(const LinkModel& model, double bytes, LinkSpeed link) {
  if (model.all_reduce != AllReduce::kFastest) return model;
  const auto time_us = [&](AllReduce algorithm) {
    return all_reduce(algorithm, model.ranks, bytes, link).time_us;
  };
  const bool one_shot = time_us(AllReduce::kOneShot) < time_us(AllReduce::kTwoShot);
  return {model.ranks, one_shot ? AllReduce::kOneShot : AllReduce::kTwoShot};
}

Terms terms_of(LinkOp op, const LinkModel& model, double bytes, LinkSpeed so_far) {
  const LinkModel one = settled(model, bytes, so_far);
  return {link_cost(op, one, 0, {1, 1}).time_us, link_cost(op, one, bytes, {1, 0}).link_bytes};
}

struct Coefficients {
  double latency_us = 0;
  double us_per_byte = 0;
};

// The normal equations of rows (hops, wire) / time = 1; an unknown that would be negative is held
// at zero.
Coefficients solve(std::span<const Terms> terms, std::span<const LinkPoint> points) {
  double hh = 0, hw = 0, ww = 0, h = 0, w = 0;
  for (std::size_t at = 0; at < terms.size(); ++at) {
    const double hops = terms[at].hops / points[at].time_us;
    const double wire = terms[at].wire_bytes / points[at].time_us;
    hh += hops * hops;
    hw += hops * wire;
    ww += wire * wire;
    h += hops;
    w += wire;
  }
  const double determinant = hh * ww - hw * hw;
  if (determinant <= 0) return {};
  const Coefficients both{(h * ww - w * hw) / determinant, (w * hh - h * hw) / determinant};
  if (both.latency_us < 0) return {0, w / ww};
  if (both.us_per_byte < 0) return {h / hh, 0};
  return both;
}

Result<> check_points(const LinkModel& model, std::span<const LinkPoint> points) {
  if (model.ranks < 2) return input_error("a link is between at least two ranks");
  double least = INFINITY;
  double most = 0;
  for (const LinkPoint& point : points) {
    const auto usable = [](double value) { return std::isfinite(value) && value > 0; };
    if (!usable(point.bytes) || !usable(point.time_us)) {
      return input_error("a message of {} B in {} us cannot be fitted; give numbers above 0",
                         point.bytes, point.time_us);
    }
    least = std::min(least, point.bytes);
    most = std::max(most, point.bytes);
  }
  if (least >= most) return input_error("latency and bandwidth need messages of two sizes");
  return {};
}

void find_worst(LinkOp op, const LinkModel& model, std::span<const LinkPoint> points,
                LinkFit& fit) {
  for (const LinkPoint& point : points) {
    const double ratio = link_cost(op, model, point.bytes, fit.link).time_us / point.time_us;
    const double factor = std::max(ratio, 1 / ratio);
    if (factor <= fit.worst_factor) continue;
    fit.worst_factor = factor;
    fit.worst_bytes = point.bytes;
  }
}

}  // namespace

std::string_view to_string(LinkOp op) {
  switch (op) {
    case LinkOp::kCopy:
      return "copy";
    case LinkOp::kAllReduce:
      return "all_reduce";
    case LinkOp::kAllGather:
      return "all_gather";
    case LinkOp::kAllToAll:
      return "all_to_all";
  }
  NIBBLE_CHECK(false);
}

CollectiveCost link_cost(LinkOp op, const LinkModel& model, double bytes, LinkSpeed link) {
  const auto ranks = static_cast<double>(model.ranks);
  switch (op) {
    case LinkOp::kCopy:
      return send(bytes, link);
    case LinkOp::kAllReduce:
      return all_reduce(model.all_reduce, model.ranks, bytes, link);
    case LinkOp::kAllGather:
      return all_gather(model.ranks, bytes, link);
    case LinkOp::kAllToAll:
      return all_to_all(model.ranks, bytes * (ranks - 1) / ranks, link);
  }
  NIBBLE_CHECK(false);
}

Result<LinkFit> fit_link(LinkOp op, const LinkModel& model, std::span<const LinkPoint> points) {
  NIBBLE_RETURN_IF_ERROR(check_points(model, points));
  // Each round chooses the algorithms under the last link; some messages may swing between two, so
  // that the rounds are limited.
  constexpr int kMostRounds = 16;
  LinkFit fit{.link = {1, 0}};
  std::vector<Terms> last;
  for (int round = 0; round < kMostRounds; ++round) {
    std::vector<Terms> terms;
    for (const LinkPoint& point : points) {
      terms.push_back(terms_of(op, model, point.bytes, fit.link));
    }
    if (terms == last) break;
    const Coefficients found = solve(terms, points);
    if (!(found.us_per_byte > 0)) {
      return input_error("the times do not grow with the bytes: no bandwidth can be told");
    }
    fit.link = {1e-3 / found.us_per_byte, found.latency_us};
    last = std::move(terms);
  }
  find_worst(op, model, points, fit);
  return fit;
}

}  // namespace nibble
