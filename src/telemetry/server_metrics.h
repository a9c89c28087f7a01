// What an inference server says of itself, under one set of names: vLLM, SGLang, TensorRT-LLM,
// llama.cpp and nibble serve each have their own.
//
//   const ServerReading reading = read_server_metrics(body);
//   reading.engine;                        // "vllm"
//   reading.values.at("server.running");   // requests in the batch
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "telemetry/histogram.h"
#include "telemetry/prometheus.h"
#include "telemetry/signal.h"

namespace nibble::telemetry {

struct ServerReading {
  std::string
      engine;  // "vllm", "nibble", "sglang", "trtllm", "llamacpp"; "" when no name was known
  std::map<std::string, double, std::less<>> values;         // by the names of server_signals()
  std::map<std::string, std::string, std::less<>> names;     // the server's own name of each
  std::map<std::string, Histogram, std::less<>> histograms;  // "ttft", "itl", "queue_time", ...
  std::map<std::string, std::string, std::less<>> histogram_faults;  // why one of them is missing
  std::vector<std::string> faults;  // of the page; what was understood is good
};

// A Prometheus page, also as a quoted JSON string, or TensorRT-LLM's iteration statistics in JSON.
// Never fails: a page without a name that is known gives no values.
ServerReading read_server_metrics(std::string_view body);

// What a server may tell, described: "server.running", "server.kv_usage", ...
std::span<const Signal> server_signals();

}  // namespace nibble::telemetry
