// All that can be sampled on this host and beside it, opened in one call: for `nibble watch` and
// for each level of `nibble load`.
//
//   NIBBLE_ASSIGN_OR_RETURN(Telemetry telemetry, open_telemetry({.servers = {url}}));
//   telemetry.sampler->start();
//   ...
//   const Json levels = telemetry_json(telemetry, {t0, t1});
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "telemetry/cpu_source.h"
#include "telemetry/energy.h"
#include "telemetry/sampler.h"
#include "telemetry/server_source.h"
#include "telemetry/web.h"

namespace nibble::telemetry {

struct TelemetryOptions {
  bool gpus = true;
  bool cpu = true;
  std::vector<std::string> servers;  // "http://host:port" or "host:port": inference servers
  std::vector<std::string> remotes;  // "host:port" of `nibble watch --listen` elsewhere
  WebOptions web;                    // of servers
  Nanoseconds scrape_period = kScrapePeriod;
  CpuOptions cpu_options;
  std::string nvml_library = "libnvidia-ml.so.1";
  Nanoseconds retention = SampleStore::kDefaultRetention;
};

struct ServerHistograms {
  std::string where;
  std::shared_ptr<HistogramLog> log;
};

struct Telemetry {
  std::shared_ptr<SampleStore> store;
  std::vector<ServerHistograms> histograms;  // one a server
  std::unique_ptr<Sampler> sampler;          // not started yet
};

// An error only where the options are wrong: what is not there is a signal with a reason.
Result<Telemetry> open_telemetry(const TelemetryOptions& options);

// Who has an instant power and an energy counter: "gpu0", "node7:9753/gpu3".
std::vector<std::string> energy_owners(const SampleStore& store);
WindowEnergy energy_of(const SampleStore& store, std::string_view owner, const Window& window);

// A window: its signals, energies, and quantiles of the servers' histograms.
Json telemetry_json(const Telemetry& telemetry, const Window& window);

}  // namespace nibble::telemetry
