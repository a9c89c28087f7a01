// What `nibble serve` is told, besides the engine's options. All of it is printed at the start and
// served at /server_info, under these names.
//
//   ServeOptions options;
//   options.port = 8000;
//   fmt::print("{}\n", to_json(options).dump());
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "engine/engine.h"
#include "serve/faults.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace nibble::serve {

struct ServeOptions {
  std::string host = "127.0.0.1";
  int port = 0;              // 0: any that is free
  std::size_t threads = 1;   // event loops; text is tokenized on them too
  std::string api_key;       // empty: none is asked for
  std::string allow_origin;  // of pages in a browser that may ask: "*" or one; empty: its own only
  std::size_t max_body_bytes = std::size_t{16} << 20;
  std::size_t max_header_bytes = std::size_t{64} << 10;
  Nanoseconds request_timeout = 0;                // from its arrival to the last token; 0: none
  Nanoseconds ready_timeout = 30'000'000'000;     // without a sign of life of the engine
  Nanoseconds shutdown_timeout = 30'000'000'000;  // for answers under way
  std::string version;                            // of the program
  Faults inject;                                  // told under a heading of its own
};
Json to_json(const ServeOptions& options);  // without the key
Json to_json(const engine::EngineOptions& options);

// What is served, besides the engine's model.
struct ServedModel {
  std::string name;  // of `model` in requests and answers
  std::string path;  // for people
  text::Tokenizer tokenizer;
  std::optional<text::ChatTemplate> chat_template;  // without one there are no chats
  std::vector<engine::TokenId> end_ids;             // end an answer, unless ignore_eos
  engine::Sampling defaults;                        // of requests that do not say
  std::string generation_config = "none";           // where these come from: auto, none
  Json facts;  // an object, or null: what else /server_info tells (formats, activations)
};

}  // namespace nibble::serve
