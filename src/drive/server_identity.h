// What a server says of itself, for the report and for finding the model's name.
//
//   const ServerIdentity identity = identify(url, web);
//   identity.models          // {"nvidia/GLM-5-NVFP4"}
//   setup.server = identity.json;
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "net/url.h"
#include "telemetry/web.h"

namespace nibble::drive {

struct ServerIdentity {
  std::vector<std::string> models;  // ids of /v1/models, in its order
  std::string models_reason;        // why there are none
  std::string engine;               // "vllm", "sglang", "trtllm", "llamacpp", ""
  // {"version": ..., "models": [...], "server_info": {...}, "props": {...}, "reasons": {...}}: the
  // answers of /version, /v1/models, /get_server_info or /server_info, and /props as they came,
  // long ones cut; keys that look like secrets are left out.
  Json json;
};

// Asks, a few seconds at most. What a server does not have is a reason, never an error.
ServerIdentity identify(const net::Url& url, const telemetry::WebOptions& web);

}  // namespace nibble::drive
