#include "telemetry/telemetry.h"

#include <array>
#include <utility>

#include "net/url.h"
#include "telemetry/nvml_source.h"
#include "telemetry/remote_source.h"

namespace nibble::telemetry {
namespace {

using Sources = std::vector<std::unique_ptr<Source>>;

void append(Sources& all, Sources more) {
  for (std::unique_ptr<Source>& source : more) all.push_back(std::move(source));
}

Result<> add_servers(const TelemetryOptions& options, Telemetry& telemetry, Sources& sources) {
  for (std::size_t at = 0; at < options.servers.size(); ++at) {
    NIBBLE_ASSIGN_OR_RETURN(const net::Url url, net::parse_url(options.servers[at]));
    NIBBLE_ASSIGN_OR_RETURN(std::shared_ptr<PageFetcher> pages,
                            PageFetcher::make(url, options.web));
    const std::string where = url.authority() + url.path;
    ServerHistograms& histograms = telemetry.histograms.emplace_back();
    histograms = {.where = where, .log = std::make_shared<HistogramLog>()};
    sources.push_back(
        server_source([pages](std::string_view target) { return pages->get(target); },
                      {.where = where, .owner = at == 0 ? "server" : fmt::format("server{}", at)},
                      *telemetry.store, histograms.log));
  }
  return {};
}

Result<> add_remotes(const TelemetryOptions& options, Telemetry& telemetry, Sources& sources) {
  for (const std::string& remote : options.remotes) {
    const bool has_scheme = remote.find("://") != std::string::npos;
    NIBBLE_ASSIGN_OR_RETURN(const net::Url url,
                            net::parse_url(has_scheme ? remote : "http://" + remote));
    NIBBLE_ASSIGN_OR_RETURN(std::unique_ptr<Source> source, remote_source(url, *telemetry.store));
    sources.push_back(std::move(source));
  }
  return {};
}

// The histograms of servers that a level's table shows.
constexpr std::array<std::string_view, 6> kHistogramNames = {
    "ttft", "itl", "e2e", "queue_time", "prefill_time", "decode_time"};

Json quantiles_json(const HistogramLog& log, const Window& window) {
  Json json = Json::object();
  for (const std::string_view name : kHistogramNames) {
    Json entry = Json::object();
    for (const auto& [key, q] : {std::pair{"p50", 0.5}, {"p99", 0.99}}) {
      const Result<HistogramQuantile> quantile = log.quantile(name, q, window);
      if (quantile) {
        entry.set(key, quantile->value).set(std::string(key) + "_note", quantile->text);
      } else {
        entry.set(key, Json()).set(std::string(key) + "_note", quantile.error().message);
      }
    }
    json.set(name, std::move(entry));
  }
  return json;
}

}  // namespace

Result<Telemetry> open_telemetry(const TelemetryOptions& options) {
  Telemetry telemetry;
  telemetry.store = std::make_shared<SampleStore>(options.retention);
  Sources sources;
  if (options.gpus) {
    auto nvml = std::make_shared<const Nvml>(Nvml::open(options.nvml_library.c_str()));
    append(sources, nvml_sources(nvml, *telemetry.store));
  }
  if (options.cpu) append(sources, cpu_sources(options.cpu_options, *telemetry.store));
  NIBBLE_RETURN_IF_ERROR(add_servers(options, telemetry, sources));
  NIBBLE_RETURN_IF_ERROR(add_remotes(options, telemetry, sources));
  telemetry.sampler = std::make_unique<Sampler>(telemetry.store, std::move(sources));
  return telemetry;
}

std::vector<std::string> energy_owners(const SampleStore& store) {
  std::vector<std::string> owners;
  for (const SignalState& state : store.states()) {
    if (quantity_of(state.signal.name) != "energy" || state.kept == 0) continue;
    owners.emplace_back(owner_of(state.signal.name));
  }
  return owners;
}

WindowEnergy energy_of(const SampleStore& store, std::string_view owner, const Window& window) {
  const std::string_view device = owner.substr(owner.rfind('/') + 1);
  // A host's processor has its power from the energy counter itself, read at that period.
  const bool gpu = device.starts_with("gpu");
  return window_energy(
      store, owner, window,
      {.power = gpu ? kPowerPeriod : kCpuPeriod, .counter = gpu ? kEnergyPeriod : kCpuPeriod});
}

Json telemetry_json(const Telemetry& telemetry, const Window& window) {
  Json signals = Json::array();
  for (const SignalWindow& signal : window_of(*telemetry.store, window)) {
    signals.push(window_json(signal));
  }
  Json energy = Json::object();
  for (const std::string& owner : energy_owners(*telemetry.store)) {
    energy.set(owner, energy_json(energy_of(*telemetry.store, owner, window)));
  }
  Json servers = Json::object();
  for (const ServerHistograms& server : telemetry.histograms) {
    servers.set(server.where, quantiles_json(*server.log, window));
  }
  return Json::object()
      .set("begin_ns", window.begin)
      .set("end_ns", window.end)
      .set("signals", std::move(signals))
      .set("energy", std::move(energy))
      .set("server_histograms", std::move(servers));
}

}  // namespace nibble::telemetry
