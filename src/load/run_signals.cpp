#include "load/run_signals.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>

#include "base/text.h"
#include "load/level_sentences.h"

namespace nibble::load {
namespace {

constexpr std::array kGpu = {Seen::kPower, Seen::kTensor, Seen::kDram, Seen::kSmClock,
                             Seen::kEnergyPerOutput};
constexpr std::array kServer = {Seen::kRunning, Seen::kWaiting, Seen::kKvUsage};
constexpr std::array kHost = {Seen::kHostCpu};
constexpr std::size_t kMostReason = 160;

// Of a name as "node7:9753/clock.offset_bound", which a host has that was asked and did not answer.
constexpr std::string_view kAsked = "/clock.";

// Hosts of --telemetry that are silent, each with its reason.
std::map<std::string, std::string> silent_hosts(const Json& telemetry) {
  std::map<std::string, std::string> hosts;
  const Json* signals = telemetry.is_object() ? telemetry.find("signals") : nullptr;
  if (signals == nullptr || !signals->is_array()) return hosts;
  for (const Json& signal : signals->as_array()) {
    const Json* name = signal.is_object() ? signal.find("name") : nullptr;
    const Json* reason = signal.is_object() ? signal.find("reason") : nullptr;
    if (name == nullptr || !name->is_string()) continue;
    if (reason == nullptr || !reason->is_string()) continue;
    const std::size_t end = name->as_string().rfind(kAsked);
    if (end != std::string::npos) hosts[name->as_string().substr(0, end)] = reason->as_string();
  }
  return hosts;
}

// "server.running: no sample" -> "no sample": the name of the signal is told anyway, and signals of
// one cause share a sentence.
std::string without_signal(const std::string& reason) {
  const std::size_t end = reason.find(": ");
  const std::string signal = reason.substr(0, end);
  const std::string device = signal.substr(signal.rfind('/') + 1);  // npos + 1 is 0
  const bool own = device.starts_with("server") || device.starts_with("gpu");
  const bool named = own && signal.find(' ') == std::string::npos &&
                     device.find('.') != std::string::npos && end != std::string::npos;
  return named ? reason.substr(end + 2) : reason;
}

// Reasons of one level, each with what it is of.
class Missing {
 public:
  explicit Missing(const Joined& joined) : joined_(joined) {}

  // `all`: their common name, where they lack for one reason.
  void add(std::span<const Seen> group, const std::string& all) {
    std::map<std::string, std::vector<std::string>> reasons;
    for (const Seen seen : group) {
      const SeenValue& value = joined_[seen];
      if (value.value) continue;
      const std::string reason =
          value.reason.empty() ? "not measured" : without_signal(value.reason);
      reasons[reason].emplace_back(info_of(seen).title);
    }
    for (const auto& [reason, titles] : reasons) {
      const bool whole = titles.size() == group.size();
      std::vector<std::string>& names = of_reason(reason);
      if (whole) names.push_back(all);
      if (!whole) names.insert(names.end(), titles.begin(), titles.end());
    }
  }

  // "no GPU and host signals: reason".
  std::vector<std::string> sentences(const std::map<std::string, std::string>& silent) const {
    std::vector<std::string> list;
    for (const auto& [reason, names] : reasons_) {
      const bool of_silent = std::any_of(silent.begin(), silent.end(), [&](const auto& host) {
        return reason.starts_with(host.first + ":");
      });
      if (!of_silent) {
        list.push_back(fmt::format("no {}: {}", listed(names), printable(reason, kMostReason)));
      }
    }
    for (const auto& [host, reason] : silent) list.push_back(silence(host, reason));
    return list;
  }

 private:
  std::vector<std::string>& of_reason(const std::string& reason) {
    for (auto& [known, names] : reasons_) {
      if (known == reason) return names;
    }
    return reasons_.emplace_back(reason, std::vector<std::string>()).second;
  }

  std::string silence(const std::string& host, const std::string& reason) const {
    std::string text = fmt::format("no telemetry of {}: {}", host, printable(reason, kMostReason));
    const bool voids = std::any_of(reasons_.begin(), reasons_.end(), [&](const auto& missing) {
      return missing.first.starts_with(host + ":");
    });
    if (voids) {
      text +=
          "; it counts as the server's host, so that GPUs and processor of this one do not "
          "stand in for it";
    }
    return text;
  }

  const Joined& joined_;
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons_;
};

}  // namespace

void tell_signals(const RunReport& report, std::vector<std::string>& list) {
  LevelSentences said(report);
  for (std::size_t index = 0; index < report.levels.size(); ++index) {
    const LevelResult& level = report.levels[index];
    Missing missing(level.joined);
    missing.add(kServer, "server metrics");
    missing.add(kGpu, "GPU signals");
    missing.add(kHost, "host CPU");
    for (std::string& text : missing.sentences(silent_hosts(level.telemetry))) {
      said.add(index, std::move(text));
    }
  }
  said.tell(list, "");
}

}  // namespace nibble::load
