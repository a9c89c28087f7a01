// Which of a store's signals are the server's: its GPUs, its processors, its metrics page.
//
//   const ServerHosts hosts = find_server_hosts(store);
//   hosts.gpus         // {"node7:9753/gpu0", "node7:9753/gpu1"}
//   hosts.gpu_reason   // why there are none
#pragma once

#include <string>
#include <vector>

#include "telemetry/store.h"

namespace nibble::drive {

struct ServerHosts {
  std::vector<std::string> gpus;  // owners of signals: "gpu0", "node7:9753/gpu0"
  std::string gpu_reason;         // why there are none
  std::string lacking;            // a host of which nothing is known: sums would be too small
  std::vector<std::string> cpus;  // "cpu", "node7:9753/cpu"
  std::string cpu_reason;
  std::vector<std::string> servers;  // "server", "server1"
  std::string server_reason;
};

// The choice is described in join.h.
ServerHosts find_server_hosts(const telemetry::SampleStore& store);

}  // namespace nibble::drive
