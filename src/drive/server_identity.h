// What a server says of itself, for the report and for finding the model's name.
//
//   const ServerIdentity identity = identify(url, web);
//   identity.models          // {"nvidia/GLM-5-NVFP4"}
//   setup.server = identity.json;
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "net/url.h"
#include "telemetry/web.h"

namespace nibble::drive {

struct ServerIdentity {
  std::vector<std::string> models;  // ids of /v1/models, in its order
  std::string models_reason;        // why there are none
  // By model id, where /v1/models tells it: tokens of prompt and answer together.
  std::map<std::string, std::int64_t, std::less<>> max_model_len;
  std::string engine;  // "vllm", "sglang", "trtllm", "llamacpp", ""
  // How many token ids there are, where the server tells: nibble's /server_info and llama.cpp's
  // /v1/models do.
  std::optional<std::int64_t> vocabulary;
  // {"engine": ..., "version": ..., "healthy": true, "models": [...], "server_info": {...},
  // "props": {...}, "reasons": {"/props": "..."}}: the entries of /v1/models and the answers of
  // /get_server_info or /server_info and /props as they came, without what looks like a secret,
  // long texts and lists cut. What there is not is null.
  Json json;
};

// Asks all at once, three seconds at most. What a server does not have is a reason, never an error.
ServerIdentity identify(const net::Url& url, const telemetry::WebOptions& web);

// The same from the answers: path -> body or why there is none. `sent` are the headers of the
// requests: an answer that repeats their values is a secret told.
using Answers = std::map<std::string, Result<std::string>, std::less<>>;
ServerIdentity identity_of(const Answers& answers, const net::Headers& sent);

}  // namespace nibble::drive
