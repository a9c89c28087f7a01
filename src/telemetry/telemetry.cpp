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

// For a server that answers, but not with its metrics.
constexpr std::string_view kMetricsAdvice =
    "SGLang has metrics with --enable-metrics, llama.cpp with --metrics";

// "http://host:port", or "host:port" alone.
Result<net::Url> parse_address(const std::string& text) {
  const bool has_scheme = text.find("://") != std::string::npos;
  return net::parse_url(has_scheme ? text : "http://" + text);
}

// Each of them once: two sources of one name would mix their samples.
Result<std::vector<net::Url>> parse_addresses(const std::vector<std::string>& texts) {
  std::vector<net::Url> urls;
  for (const std::string& text : texts) {
    NIBBLE_ASSIGN_OR_RETURN(net::Url url, parse_address(text));
    for (const net::Url& other : urls) {
      if (other.text() == url.text()) return input_error("{} is given twice", url.text());
    }
    urls.push_back(std::move(url));
  }
  return urls;
}

Result<> add_servers(const TelemetryOptions& options, Telemetry& telemetry, Sources& sources) {
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<net::Url> urls, parse_addresses(options.servers));
  for (std::size_t at = 0; at < urls.size(); ++at) {
    const net::Url& url = urls[at];
    if (url.path.ends_with("/metrics")) {
      return input_error("{} is a metrics page; give the server's address alone", url.text());
    }
    NIBBLE_ASSIGN_OR_RETURN(std::shared_ptr<PageFetcher> pages,
                            PageFetcher::make(url, options.web));
    const std::string where = url.authority() + url.path;
    ServerHistograms& histograms = telemetry.histograms.emplace_back();
    histograms = {.where = where, .log = std::make_shared<HistogramLog>()};
    sources.push_back(server_source(
        [pages](std::string_view target) { return pages->get(target, kMetricsAdvice); },
        {.where = where,
         .owner = at == 0 ? "server" : fmt::format("server{}", at),
         .period = options.scrape_period},
        *telemetry.store, histograms.log));
  }
  return {};
}

Result<> add_remotes(const TelemetryOptions& options, Telemetry& telemetry, Sources& sources) {
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<net::Url> urls, parse_addresses(options.remotes));
  for (const net::Url& url : urls) {
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
