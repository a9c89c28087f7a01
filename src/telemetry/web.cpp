#include "telemetry/web.h"

#include <utility>

namespace nibble::telemetry {

Result<std::unique_ptr<PageFetcher>> PageFetcher::make(const net::Url& url,
                                                       const WebOptions& options) {
  std::unique_ptr<PageFetcher> fetcher(new PageFetcher);
  net::ClientOptions client_options;
  client_options.timeouts = {.connect = options.timeout,
                             .first_byte = options.timeout,
                             .idle = options.timeout,
                             .total = options.timeout};
  client_options.headers = options.headers;
  client_options.verify_certificate = options.verify_certificate;
  client_options.ca_file = options.ca_file;
  NIBBLE_ASSIGN_OR_RETURN(net::HttpClient client, net::HttpClient::make(fetcher->loops_, 0, url,
                                                                        std::move(client_options)));
  fetcher->client_ = std::make_unique<net::HttpClient>(std::move(client));
  return fetcher;
}

Result<net::Response> PageFetcher::fetch(std::string_view target, std::string_view advice) {
  constexpr std::size_t kLargestPage = std::size_t{16} << 20;
  net::Response response;
  net::HttpRequest request{.target = url().target(target)};
  const bool ended = loops_.run(0, [&]() -> boost::asio::awaitable<void> {
    response = co_await client_->fetch(request, kLargestPage);
  });
  const std::string where = url().authority() + url().target(target);
  const net::Exchange& exchange = response.exchange;
  if (!ended) return run_error("{}: stopped", where);
  if (exchange.fault != net::NetFault::kNone) {
    return run_error("{}", exchange.message);  // it names the address
  }
  if (exchange.status != 200) {
    return run_error("{} answers status {}{}{}", where, exchange.status, advice.empty() ? "" : "; ",
                     advice);
  }
  return response;
}

Result<std::string> PageFetcher::get(std::string_view target, std::string_view advice) {
  NIBBLE_ASSIGN_OR_RETURN(net::Response response, fetch(target, advice));
  return std::move(response.body);
}

}  // namespace nibble::telemetry
