// A server of fixed pages, for the tests of what is asked beside the API.
//
//   PageServer server({{"/version", {200, R"({"version": "1"})"}}});
//   identify(server.url(), {});
#pragma once

#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "net/http_server.h"
#include "net/url.h"

namespace nibble::drive {

class PageServer {
 public:
  struct Page {
    int status = 200;
    std::string body;
  };

  explicit PageServer(std::map<std::string, Page> pages)
      : pages_(std::move(pages)), server_(loops_, {.port = 0}) {
    const Result<int> port =
        server_.start([this](net::ServerRequest request,
                             net::ResponseWriter& writer) -> boost::asio::awaitable<void> {
          Page page = take(std::string(request.path()));
          net::Headers headers = {{"Content-Type", "text/plain"}};
          // A negative status: silence.
          if (page.status < 0) co_await net::sleep_for(60'000'000'000);
          co_await writer.respond(page.status, std::move(headers), std::move(page.body));
        });
    EXPECT_TRUE(port.ok());
    port_ = *port;
  }
  ~PageServer() { loops_.stop(); }

  net::Url url() const {
    return std::move(net::parse_url(fmt::format("http://127.0.0.1:{}", port_))).value();
  }
  void set(const std::string& path, Page page) {
    const std::lock_guard lock(mutex_);
    pages_[path] = std::move(page);
  }

 private:
  Page take(const std::string& path) {
    const std::lock_guard lock(mutex_);
    const auto found = pages_.find(path);
    return found == pages_.end() ? Page{404, "nothing here"} : found->second;
  }

  std::mutex mutex_;
  std::map<std::string, Page> pages_;
  net::Loops loops_{1};
  net::HttpServer server_;
  int port_ = 0;
};

}  // namespace nibble::drive
