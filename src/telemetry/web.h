// One page of another host, fetched on a thread that may wait for it: for sources that scrape.
//
//   NIBBLE_ASSIGN_OR_RETURN(std::unique_ptr<PageFetcher> server, PageFetcher::make(url, {}));
//   const Result<std::string> page = server->get("/metrics");
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "net/http_client.h"
#include "net/loop.h"
#include "net/url.h"

namespace nibble::telemetry {

struct WebOptions {
  Nanoseconds timeout = 5'000'000'000;  // of a whole fetch
  net::Headers headers;                 // an API key
  bool verify_certificate = true;
  std::filesystem::path ca_file = {};  // PEM; empty: the system's authorities
};

class PageFetcher {
 public:
  static Result<std::unique_ptr<PageFetcher>> make(const net::Url& url, const WebOptions& options);

  // Status 200 or a sentence, which ends with the advice where another status came; at most 16 MiB.
  // The target is below the URL's path.
  Result<net::Response> fetch(std::string_view target, std::string_view advice = {});
  Result<std::string> get(std::string_view target, std::string_view advice = {});

  const net::Url& url() const { return client_->url(); }

 private:
  PageFetcher() = default;
  net::Loops loops_{1};
  std::unique_ptr<net::HttpClient> client_;
};

}  // namespace nibble::telemetry
