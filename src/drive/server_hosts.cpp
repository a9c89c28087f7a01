#include "drive/server_hosts.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/text.h"

namespace nibble::drive {
namespace {

// What the store has of one host. "" is this one.
struct Host {
  std::vector<std::string> gpus;
  std::string no_gpu;  // what it says of having none
  std::vector<std::string> cpus;
  std::vector<std::string> servers;
  bool heard = false;        // more than our own bound of its clock
  std::string not_heard_of;  // why not
};

bool is_numbered(std::string_view device, std::string_view kind, bool number_needed) {
  if (!device.starts_with(kind)) return false;
  const std::string_view number = device.substr(kind.size());
  if (number.empty()) return !number_needed;
  return std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void add_once(std::vector<std::string>& names, std::string_view name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
}

void take(Host& host, const telemetry::Signal& signal, std::string_view owner,
          std::string_view device) {
  if (device == "clock") {
    host.not_heard_of = signal.available ? "no signal has come yet" : signal.reason;
    return;
  }
  host.heard = true;
  if (is_numbered(device, "gpu", true)) add_once(host.gpus, owner);
  if (device == "gpu") host.no_gpu = signal.reason;
  if (device == "cpu") add_once(host.cpus, owner);
  if (is_numbered(device, "server", false)) add_once(host.servers, owner);
}

void take_all(const Host& host, ServerHosts& all) {
  all.gpus.insert(all.gpus.end(), host.gpus.begin(), host.gpus.end());
  all.cpus.insert(all.cpus.end(), host.cpus.begin(), host.cpus.end());
  if (all.gpu_reason.empty()) all.gpu_reason = host.no_gpu;
}

}  // namespace

ServerHosts find_server_hosts(const telemetry::SampleStore& store) {
  std::map<std::string, Host, std::less<>> hosts;
  for (const telemetry::SignalState& state : store.states()) {
    const std::string_view owner = telemetry::owner_of(state.signal.name);
    const std::size_t slash = owner.rfind('/');
    const bool remote = slash != std::string_view::npos;
    Host& host = hosts[std::string(remote ? owner.substr(0, slash) : std::string_view())];
    take(host, state.signal, owner, remote ? owner.substr(slash + 1) : owner);
  }
  ServerHosts all;
  bool on_remotes = false;
  for (const auto& [name, host] : hosts) {
    if (name.empty()) continue;
    on_remotes = on_remotes || !host.heard || !host.gpus.empty();
    if (!host.heard && all.lacking.empty()) {
      all.lacking = fmt::format("{}: {}", name, host.not_heard_of);
    }
  }
  const Host here = hosts[""];
  if (!on_remotes) take_all(here, all);
  for (const auto& [name, host] : hosts) {
    if (on_remotes && !name.empty()) take_all(host, all);
  }
  all.servers = here.servers;
  if (!all.lacking.empty()) all.gpu_reason = all.lacking;
  if (all.gpu_reason.empty()) all.gpu_reason = "GPUs were not sampled";
  all.cpu_reason = all.lacking.empty() ? "processors were not sampled" : all.lacking;
  all.server_reason = "the server's metrics page was not read";
  return all;
}

}  // namespace nibble::drive
