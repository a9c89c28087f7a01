#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "base/units.h"
#include "telemetry/nvml_source.h"
#include "telemetry/watch.h"

namespace nibble::telemetry {
namespace {

constexpr Nanoseconds kStale = 5'000'000'000;

// The newest values by signal name.
using Values = std::map<std::string, double, std::less<>>;

std::optional<double> find(const Values& values, const std::string& owner, const char* quantity) {
  const auto found = values.find(owner.empty() ? quantity : owner + "." + quantity);
  return found == values.end() ? std::nullopt : std::optional<double>(found->second);
}

std::string shown(std::optional<double> value, const char* unit, int digits = 0) {
  return value ? fmt::format("{:.{}f}{}", *value, digits, unit) : std::string("-");
}

GpuNow gpu_now(const Values& values, const std::string& owner) {
  return {.utilization = find(values, owner, "utilization"),
          .sm = find(values, owner, "sm_active"),
          .tensor = find(values, owner, "tensor_active"),
          .dram = find(values, owner, "dram_active"),
          .power = find(values, owner, "power"),
          .power_limit = find(values, owner, "power_limit"),
          .throttle_mask = find(values, owner, "throttle_mask")};
}

std::string gpu_table(const std::set<std::string>& owners, const Values& values,
                      const Style& style) {
  Table table({{"GPU"},
               {"power", Align::kRight},
               {"util", Align::kRight, 3},
               {"SM", Align::kRight, 4},
               {"tensor", Align::kRight},
               {"DRAM", Align::kRight},
               {"clock", Align::kRight, 2},
               {"temp", Align::kRight, 5},
               {"memory", Align::kRight, 1},
               {"doing"}});
  for (const std::string& owner : owners) {
    const GpuNow gpu = gpu_now(values, owner);
    const Activity activity = gpu_activity(gpu);
    const auto memory = find(values, owner, "memory_used");
    table.row({owner, shown(gpu.power, " W"), shown(gpu.utilization, " %"), shown(gpu.sm, " %"),
               shown(gpu.tensor, " %"), shown(gpu.dram, " %"),
               shown(find(values, owner, "clock_sm"), " MHz"),
               shown(find(values, owner, "temperature"), " C"),
               memory ? format_bytes(*memory, 3) : std::string("-"),
               Cell(activity.text, activity.emphasis)});
  }
  return table.render(style);
}

// Of the prompts that come now; while none come, of all since the server's start.
std::optional<double> hit_percent(const std::string& owner, const Values& values,
                                  const Values& rates) {
  const auto hits = find(rates, owner, "prefix_hits");
  const auto queries = find(rates, owner, "prefix_queries");
  if (hits && queries && *queries > 0) return 100 * *hits / *queries;
  const auto share = find(values, owner, "prefix_hit_rate");
  return share ? std::optional<double>(100 * *share) : std::nullopt;
}

std::string server_table(const std::set<std::string>& owners, const Values& values,
                         const Values& rates, const Style& style) {
  Table table({{"server"},
               {"running", Align::kRight},
               {"waiting", Align::kRight},
               {"KV", Align::kRight},
               {"tok/s", Align::kRight},
               {"prefix hits", Align::kRight, 2},
               {"preempted", Align::kRight, 1},
               {"doing"}});
  for (const std::string& owner : owners) {
    const ServerNow server{.running = find(values, owner, "running"),
                           .waiting = find(values, owner, "waiting"),
                           .kv_usage = find(values, owner, "kv_usage")};
    std::optional<double> rate = find(rates, owner, "generation_tokens");
    if (!rate) rate = find(values, owner, "generation_rate");
    const std::optional<double> kv =
        server.kv_usage ? std::optional<double>(100 * *server.kv_usage) : std::nullopt;
    const Activity activity = server_activity(server);
    table.row({owner, shown(server.running, ""), shown(server.waiting, ""), shown(kv, " %", 1),
               shown(rate, ""), shown(hit_percent(owner, values, rates), " %"),
               shown(find(values, owner, "preemptions"), ""),
               Cell(activity.text, activity.emphasis)});
  }
  return table.render(style);
}

std::string host_line(const std::string& prefix, const Values& values, const Style& style) {
  const std::string owner = prefix + "cpu";
  const auto total = find(values, owner, "utilization");
  if (!total) return "";
  std::string line = fmt::format("{}: {:.0f} % of all cores", owner, *total);
  if (const auto busiest = find(values, owner, "busiest_core")) {
    line += fmt::format(", busiest core {:.0f} %{}", *busiest,
                        *busiest >= 95 ? " (full: what runs on it may wait for it)" : "");
  }
  if (const auto mhz = find(values, owner, "frequency")) line += fmt::format(", {:.0f} MHz", *mhz);
  if (const auto switches = find(values, owner, "context_switches")) {
    line += fmt::format(", {} context switches/s", format_count(*switches));
  }
  for (const auto& [name, value] : values) {
    const std::string_view device = owner_of(name);
    if (quantity_of(name) == "power" && device.starts_with(prefix + "package")) {
      line += fmt::format(", {} {:.0f} W", device.substr(prefix.size()), value);
    }
  }
  return style.wrap(line, 2) + "\n";
}

// Signals that share a reason stand on one line.
std::string absences(const std::vector<SignalState>& states, const Style& style) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const SignalState& state : states) {
    if (!state.signal.available) by_reason[state.signal.reason].push_back(state.signal.name);
  }
  std::string text;
  for (const auto& [reason, names] : by_reason) {
    std::vector<std::string> first(
        names.begin(),
        names.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(names.size(), 3)));
    std::string line = join(first, ", ");
    if (names.size() > first.size())
      line += fmt::format(" and {} more", names.size() - first.size());
    line += ": " + printable(reason, 200);
    text += "  " + style.wrap(line, 4) + "\n";
  }
  return text.empty() ? "" : style.faint("not available") + "\n" + text;
}

}  // namespace

Activity gpu_activity(const GpuNow& gpu) {
  Activity activity;
  const bool low_power = gpu.power && gpu.power_limit && *gpu.power < 0.4 * *gpu.power_limit;
  if (gpu.tensor && gpu.dram) {
    const bool quiet = *gpu.tensor < 5 && *gpu.dram < 5;
    if (*gpu.tensor >= 50) {
      activity = {"tensor cores work", Emphasis::kGood};
    } else if (*gpu.dram >= 60) {
      activity = {"memory works", Emphasis::kGood};
    } else if (quiet && gpu.utilization.value_or(0) >= 90 && (low_power || !gpu.power)) {
      activity = {"a kernel is resident but spins or waits", Emphasis::kWarning};
    } else if (quiet && gpu.utilization.value_or(0) < 5) {
      activity = {"idle", Emphasis::kFaint};
    } else {
      activity = {"partly busy", Emphasis::kNone};
    }
  } else if (gpu.utilization) {
    activity = *gpu.utilization < 5
                   ? Activity{"idle", Emphasis::kFaint}
                   : Activity{"a kernel is resident (no counters to say what it does)"};
  } else {
    activity = {"not known", Emphasis::kFaint};
  }
  const auto mask = static_cast<unsigned long long>(gpu.throttle_mask.value_or(0));
  const std::string throttled = throttle_text(mask);
  if (!throttled.empty()) {
    activity.text += "; slowed by " + throttled;
    activity.emphasis = Emphasis::kWarning;
  }
  return activity;
}

Activity server_activity(const ServerNow& server) {
  if (!server.running) return {"not known", Emphasis::kFaint};
  if (server.waiting.value_or(0) > 0) {
    if (server.kv_usage.value_or(0) > 0.95) {
      return {"requests wait for KV cache", Emphasis::kWarning};
    }
    return *server.running > 0 ? Activity{"requests wait for a place", Emphasis::kWarning}
                               : Activity{"requests wait, none runs", Emphasis::kBad};
  }
  return *server.running > 0 ? Activity{"works", Emphasis::kGood}
                             : Activity{"idle", Emphasis::kFaint};
}

std::string watch_table(const SampleStore& store, Nanoseconds now, const Style& style) {
  const std::vector<SignalState> states = store.states();
  Values values;
  Values rates;
  std::set<std::string> gpus;
  std::set<std::string> servers;
  std::set<std::string> prefixes;  // "" is this host
  for (std::size_t id = 0; id < states.size(); ++id) {
    const SignalState& state = states[id];
    if (!state.latest || !state.signal.available || now - state.latest->at > kStale) continue;
    const std::string& name = state.signal.name;
    values.emplace(name, state.latest->value);
    const std::string owner(owner_of(name));
    const std::size_t host_end = owner.rfind('/') + 1;
    const std::string_view device = std::string_view(owner).substr(host_end);
    if (device.starts_with("gpu")) gpus.insert(owner);
    if (device.starts_with("server")) servers.insert(owner);
    if (device == "cpu") prefixes.insert(owner.substr(0, host_end));
    if (state.signal.kind == SignalKind::kCounter) {
      const auto points = store.points(static_cast<SignalId>(id), now - kStale, now);
      if (points.size() < 2 || points.back().at <= points.front().at) continue;
      const double grown = points.back().value - points.front().value;
      if (grown >= 0) rates.emplace(name, grown / seconds(points.back().at - points.front().at));
    }
  }
  std::string text;
  if (!gpus.empty()) text += gpu_table(gpus, values, style);
  if (!servers.empty()) text += server_table(servers, values, rates, style);
  for (const std::string& prefix : prefixes) text += host_line(prefix, values, style);
  return text + absences(states, style);
}

std::string health_table(const std::vector<SourceHealth>& health, const Style& style) {
  Table table({{"source"},
               {"period", Align::kRight},
               {"samples", Align::kRight},
               {"failed", Align::kRight},
               {"cost", Align::kRight},
               {"longest", Align::kRight},
               {"last fault"}});
  for (const SourceHealth& source : health) {
    table.row({source.name, format_time_us(static_cast<double>(source.period) * 1e-3),
               format_count(static_cast<double>(source.samples)),
               format_count(static_cast<double>(source.failures)),
               format_time_us(source.mean_cost_us), format_time_us(source.max_cost_us),
               Cell(printable(source.last_failure, 100),
                    source.hung_for > 0 ? Emphasis::kBad : Emphasis::kFaint)});
  }
  return table.render(style);
}

}  // namespace nibble::telemetry
