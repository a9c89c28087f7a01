// Facts of the serving engine out of a table of signals. Of several servers: means of shares and
// times, sums of rates.
#include <algorithm>
#include <fmt/format.h>

#include "base/stats.h"
#include "diagnose/read_signals.h"

namespace nibble::diagnose {
namespace {

constexpr double kMs = 1e3;
constexpr double kMostOccupancy = 1.02;  // two clocks are compared; more is no share

class EngineFacts {
 public:
  EngineFacts(const SignalTable& table, const FactWriter& writer, std::string_view engine)
      : table_(table), writer_(writer), engine_(engine), servers_(table.servers()) {}

  void put_all() const {
    put_steps();
    put_prompt_rate();
    const std::vector<double> experts = means("expert_load_ratio");
    writer_.put(Fact::kBusiestExpert, average(experts), "server.expert_load_ratio",
                why_not("expert_load_ratio"));
  }

 private:
  static std::optional<double> average(const std::vector<double>& values) {
    return values.empty() ? std::nullopt : std::optional(nibble::mean(values));
  }

  std::string why_not(std::string_view quantity) const {
    if (servers_.empty()) {
      return table_.empty() ? "no telemetry was recorded"
                            : "the server's metrics page was not read";
    }
    return table_.why_not(fmt::format("{}.{}", servers_.front(), quantity));
  }

  std::vector<double> means(std::string_view quantity) const {
    std::vector<double> all;
    for (const std::string& server : servers_) {
      const auto mean = table_.mean(fmt::format("{}.{}", server, quantity));
      if (mean) all.push_back(*mean);
    }
    return all;
  }

  // nullopt unless every server counts it.
  std::optional<double> rise(std::string_view quantity) const {
    double sum = 0;
    for (const std::string& server : servers_) {
      const auto rise = table_.rise(fmt::format("{}.{}", server, quantity));
      if (!rise) return std::nullopt;
      sum += *rise;
    }
    if (servers_.empty()) return std::nullopt;
    return sum;
  }

  std::optional<double> length_s() const {
    const double length = table_.window().length_s();
    return length > 0 ? std::optional(length) : std::nullopt;
  }

  void put_steps() const {
    const std::optional<double> steps = rise("steps");
    const std::optional<double> in_steps_s = rise("step_time");
    const std::optional<double> wall_s = length_s();
    put_occupancy(in_steps_s, wall_s);
    std::optional<double> step_ms;
    if (steps && in_steps_s && *steps > 0) step_ms = *in_steps_s / *steps * kMs;
    writer_.put(Fact::kServerStep, step_ms, "server.step_time / server.steps",
                steps == 0.0 ? "the engine made no step" : why_not("step_time"));
    // TensorRT-LLM tells the length of its newest iteration.
    writer_.put(Fact::kServerStep, average(means("iteration_time")), "server.iteration_time",
                why_not("iteration_time"));
    writer_.put(Fact::kStepRate, steps && wall_s ? std::optional(*steps / *wall_s) : std::nullopt,
                "server.steps", why_not("steps"));
  }

  void put_occupancy(std::optional<double> in_steps_s, std::optional<double> wall_s) const {
    std::optional<double> share;
    std::string reason = why_not("step_time");
    if (in_steps_s && wall_s) {
      share = *in_steps_s / *wall_s / static_cast<double>(servers_.size());
      if (!(*share >= 0 && *share <= kMostOccupancy)) {
        reason = fmt::format("accounting error: {:.0f} % of the time in steps", *share * 100);
        share = std::nullopt;
      }
    }
    if (share) share = std::min(*share, 1.0);
    if (!share) {
      share = average(means("forward_occupancy"));
      if (share) share = std::min(*share, 1.0);
      writer_.put(Fact::kOccupancy, share, "server.forward_occupancy", reason);
      return;
    }
    writer_.put(Fact::kOccupancy, share, "server.step_time", reason);
  }

  // llama.cpp counts the prompt tokens that it computed, all others those that came.
  void put_prompt_rate() const {
    const std::optional<double> came = rise("prompt_tokens");
    const std::optional<double> cached = rise("prefix_hits");
    const std::optional<double> wall_s = length_s();
    std::optional<double> computed = came;
    const bool counts_computed = engine_ == "llamacpp";
    if (came && cached && !counts_computed) computed = std::max(0.0, *came - *cached);
    writer_.put(Fact::kPromptRate,
                computed && wall_s ? std::optional(*computed / *wall_s) : std::nullopt,
                cached && !counts_computed ? "server.prompt_tokens - server.prefix_hits"
                                           : "server.prompt_tokens",
                why_not("prompt_tokens"));
  }

  const SignalTable& table_;
  const FactWriter& writer_;
  std::string_view engine_;
  std::vector<std::string> servers_;
};

}  // namespace

void put_engine_facts(const SignalTable& table, const FactWriter& writer, std::string_view engine) {
  EngineFacts(table, writer, engine).put_all();
}

}  // namespace nibble::diagnose
