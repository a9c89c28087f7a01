// What telemetry said in one window, by signal: out of a document, or out of a recorded stream.
//
//   NIBBLE_ASSIGN_OR_RETURN(const SignalTable table, SignalTable::parse(telemetry, "load.json:
//   ...")); const std::optional<double> watts = table.mean("gpu0.power"); put_machine_facts(table,
//   writer, evidence.setting);
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "diagnose/evidence.h"
#include "diagnose/read_level.h"
#include "telemetry/window.h"

namespace nibble::diagnose {

class SignalTable {
 public:
  // `telemetry` of a level of nibble.load/1: {"begin_ns", "end_ns", "signals": [...]}; null and
  // absent members give an empty table.
  static Result<SignalTable> parse(const Json* telemetry, const std::string& where);
  SignalTable(std::vector<telemetry::SignalWindow> signals, telemetry::Window window);

  bool empty() const { return signals_.empty(); }
  const telemetry::Window& window() const { return window_; }
  const telemetry::SignalWindow* find(std::string_view name) const;
  std::optional<telemetry::Aggregate> gauge(std::string_view name) const;
  std::optional<double> mean(std::string_view name) const;
  std::optional<double> rise(std::string_view name) const;  // of a counter in the window
  std::string why_not(std::string_view name) const;         // there is no number of that name

  // Owners of one kind, "gpu" -> "gpu0", "node7:9753/gpu1". Where another host has GPUs, the ones
  // here are not those that serve.
  std::vector<std::string> gpus() const;
  std::string why_no_gpu() const;
  std::vector<std::string> servers() const;  // "server", "server1"

 private:
  std::map<std::string, telemetry::SignalWindow, std::less<>> signals_;
  telemetry::Window window_;
};

// Of the GPUs: power, utilization, activities, clocks, throttling, heat, links, their spread; and
// the host's CPU.
void put_machine_facts(const SignalTable& table, const FactWriter& writer, Setting& setting);

// Of the engine: steps, occupancy, prompt tokens, experts.
void put_engine_facts(const SignalTable& table, const FactWriter& writer, std::string_view engine);

}  // namespace nibble::diagnose
