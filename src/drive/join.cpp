#include "drive/join.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <thread>

#include "base/stats.h"
#include "drive/server_hosts.h"
#include "telemetry/nvml_source.h"

namespace nibble::drive {
namespace {

using load::Seen;
using load::SeenValue;
using telemetry::Point;

// Scrapes of a server that is slow under load are up to their timeout of 5 s apart.
constexpr double kLongestHole_s = 5;
constexpr double kPercent = 0.01;
constexpr double kMostShare = 1.02;
// A scrape period and the fetch itself.
constexpr Nanoseconds kNextSample = 1'200'000'000;

using OfOwner = std::function<SeenValue(const std::string& owner)>;

SeenValue missing(std::string reason) {
  return {.value = std::nullopt, .reason = std::move(reason)};
}

SeenValue scaled(SeenValue seen, double factor) {
  if (seen.value) *seen.value *= factor;
  return seen;
}

// Sources may overshoot a share by a little: two clocks are compared. More than that is no share.
SeenValue share(SeenValue seen, double factor = 1) {
  seen = scaled(std::move(seen), factor);
  if (!seen.value) return seen;
  if (!(*seen.value >= 0 && *seen.value <= kMostShare)) {
    return missing(
        fmt::format("accounting error: {:.1f} % is no share of anything", *seen.value / kPercent));
  }
  seen.value = std::min(*seen.value, 1.0);
  return seen;
}

// All must tell theirs: a sum of some is a wrong number.
SeenValue sum_of(const std::vector<std::string>& owners, const std::string& none,
                 const OfOwner& read) {
  if (owners.empty()) return missing(none);
  double sum = 0;
  for (const std::string& owner : owners) {
    SeenValue seen = read(owner);
    if (!seen.value) return seen;
    sum += *seen.value;
  }
  return {.value = sum, .reason = ""};
}

// Over those that tell theirs; the first reason where nobody does.
SeenValue combined(const std::vector<std::string>& owners, const std::string& none,
                   const OfOwner& read, const std::function<double(std::span<const double>)>& how) {
  std::vector<double> values;
  std::string reason = none;
  for (const std::string& owner : owners) {
    SeenValue seen = read(owner);
    if (seen.value) values.push_back(*seen.value);
    if (!seen.value && (reason == none)) reason = std::move(seen.reason);
  }
  if (values.empty()) return missing(std::move(reason));
  return {.value = how(values), .reason = ""};
}

class Joiner {
 public:
  Joiner(const telemetry::SampleStore& store, const load::Window& window,
         const load::LevelMetrics& metrics)
      : store_(store),
        hosts_(find_server_hosts(store)),
        window_{window.start, window.stop},
        metrics_(metrics) {}

  load::Joined join() const {
    load::Joined joined;
    const auto gauge = [this](std::string_view quantity) -> OfOwner {
      return [this, quantity](const std::string& owner) { return mean_of(owner, quantity); };
    };
    joined[Seen::kRunning] = sum_of(hosts_.servers, hosts_.server_reason, gauge("running"));
    joined[Seen::kWaiting] = sum_of(hosts_.servers, hosts_.server_reason, gauge("waiting"));
    joined[Seen::kKvUsage] = share(
        combined(hosts_.servers, hosts_.server_reason, gauge("kv_usage"),
                 [](std::span<const double> values) { return *std::ranges::max_element(values); }));
    joined[Seen::kPreemptions] =
        sum_of(hosts_.servers, hosts_.server_reason,
               [this](const std::string& owner) { return rise_of(owner, "preemptions"); });
    joined[Seen::kPower] = power();
    joined[Seen::kTensor] = share(mean_of_gpus(gauge("tensor_active")), kPercent);
    joined[Seen::kDram] = share(mean_of_gpus(gauge("dram_active")), kPercent);
    joined[Seen::kSmActive] = share(mean_of_gpus(gauge("sm_active")), kPercent);
    joined[Seen::kSmClock] = mean_of_gpus(gauge("clock_sm"));
    joined[Seen::kThrottled] =
        mean_of_gpus([this](const std::string& gpu) { return throttled(gpu); });
    joined[Seen::kHostCpu] =
        share(combined(hosts_.cpus, hosts_.cpu_reason, gauge("utilization"), &mean), kPercent);
    const SeenValue joules = energy();
    joined[Seen::kEnergyPerOutput] = per_token(joules, metrics_.output_throughput);
    joined[Seen::kEnergyPerTotal] = per_token(joules, metrics_.total_throughput);
    return joined;
  }

 private:
  SeenValue mean_of_gpus(const OfOwner& read) const {
    return combined(hosts_.gpus, hosts_.gpu_reason, read, &mean);
  }

  SeenValue power() const {
    if (!hosts_.lacking.empty()) return missing(hosts_.lacking);
    return sum_of(hosts_.gpus, hosts_.gpu_reason,
                  [this](const std::string& gpu) { return mean_of(gpu, "power"); });
  }

  SeenValue mean_of(const std::string& owner, std::string_view quantity) const {
    const std::string name = fmt::format("{}.{}", owner, quantity);
    const auto id = store_.find(name);
    if (!id) return missing(fmt::format("{} was not sampled", name));
    const telemetry::SignalWindow seen = window_of(store_, *id, window_);
    if (!seen.aggregate) return missing(fmt::format("{}: {}", name, seen.reason));
    const double hole_s = longest_hole_s(store_.points(*id, window_.begin, window_.end));
    if (hole_s > kLongestHole_s && hole_s > window_.length_s() / 2) {
      const std::string why = store_.state(*id).signal.reason;
      return missing(fmt::format("{}: no sample in {:.1f} s of the window's {:.1f} s{}{}", name,
                                 hole_s, window_.length_s(), why.empty() ? "" : "; ", why));
    }
    return {.value = seen.aggregate->mean, .reason = ""};
  }

  double longest_hole_s(std::span<const Point> points) const {
    Nanoseconds longest = 0;
    Nanoseconds before = window_.begin;
    for (const Point& point : points) {
      longest = std::max(longest, point.at - before);
      before = point.at;
    }
    return seconds(std::max(longest, window_.end - before));
  }

  SeenValue rise_of(const std::string& owner, std::string_view quantity) const {
    const std::string name = fmt::format("{}.{}", owner, quantity);
    const auto id = store_.find(name);
    if (!id) return missing(fmt::format("{} was not sampled", name));
    const telemetry::SignalWindow seen = window_of(store_, *id, window_);
    if (!seen.difference) return missing(fmt::format("{}: {}", name, seen.reason));
    return {.value = seen.difference, .reason = ""};
  }

  // Counters of one cause overlap, so that the largest is it; nullopt: none of them tells.
  std::optional<double> held_down_s(const std::string& gpu,
                                    std::initializer_list<std::string_view> counters) const {
    std::optional<double> most;
    for (const std::string_view counter : counters) {
      const SeenValue rise = rise_of(gpu, counter);
      if (rise.value) most = std::max(most.value_or(0), *rise.value);
    }
    return most;
  }

  SeenValue throttled(const std::string& gpu) const {
    const std::optional<double> power =
        held_down_s(gpu, {"throttle_power", "throttle_hw_power_brake"});
    const std::optional<double> heat =
        held_down_s(gpu, {"throttle_thermal", "throttle_sw_thermal", "throttle_hw_thermal"});
    const SeenValue sampled = share_of_masks(gpu);
    if (!power || !heat) return sampled;
    // Counters that stand still while the mask names a cause are not kept by that driver.
    if (*power + *heat == 0 && sampled.value) return sampled;
    return {.value = std::min(1.0, (*power + *heat) / window_.length_s()), .reason = ""};
  }

  SeenValue share_of_masks(const std::string& gpu) const {
    const SeenValue any = mean_of(gpu, "throttle_mask");  // the reason, where there is one
    if (!any.value) return any;
    const std::vector<Point> masks = store_.points(
        *store_.find(fmt::format("{}.throttle_mask", gpu)), window_.begin, window_.end);
    const auto held = std::count_if(masks.begin(), masks.end(), [](const Point& point) {
      return !telemetry::throttle_text(static_cast<unsigned long long>(point.value)).empty();
    });
    return {.value = static_cast<double>(held) / static_cast<double>(masks.size()), .reason = ""};
  }

  SeenValue energy() const {
    if (!hosts_.lacking.empty()) return missing(hosts_.lacking);
    return sum_of(hosts_.gpus, hosts_.gpu_reason, [this](const std::string& gpu) -> SeenValue {
      const telemetry::WindowEnergy found = telemetry::energy_of(store_, gpu, window_);
      if (!found.valid) return missing(fmt::format("{}: {}", gpu, found.reason));
      return {.value = found.joules, .reason = ""};
    });
  }

  SeenValue per_token(const SeenValue& joules, const std::optional<double>& tokens_per_s) const {
    if (!joules.value) return joules;
    const double tokens = tokens_per_s.value_or(0) * metrics_.durations.benchmark;
    if (!(tokens > 0)) return missing("no tokens came in the window");
    return {.value = *joules.value / tokens, .reason = ""};
  }

  const telemetry::SampleStore& store_;
  ServerHosts hosts_;
  telemetry::Window window_;
  const load::LevelMetrics& metrics_;
};

load::Joined all_missing(const char* reason) {
  load::Joined joined;
  for (SeenValue& seen : joined.values) seen.reason = reason;
  return joined;
}

}  // namespace

load::Joined join(const telemetry::Telemetry* telemetry, const load::Window& window,
                  const load::LevelMetrics& metrics) {
  if (telemetry == nullptr) return all_missing("telemetry is switched off");
  if (window.stop <= window.start) return all_missing("the window has no length");
  return Joiner(*telemetry->store, window, metrics).join();
}

void wait_for_samples(const load::Window& window) {
  const Nanoseconds left = window.stop + kNextSample - monotonic_now();
  if (left <= 0) return;
  std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(left, kNextSample)));
}

}  // namespace nibble::drive
