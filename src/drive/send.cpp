#include "drive/send.h"

#include <utility>

namespace nibble::drive {
namespace {

constexpr Nanoseconds kPageTimeout = 5'000'000'000;
constexpr Nanoseconds kLookForInterrupt = 5'000'000;

net::HttpRequest request_of(const Target& target, Job& job) {
  const std::string_view endpoint =
      target.endpoint.empty() ? target.backend.endpoint : std::string_view(target.endpoint);
  net::HttpRequest request;
  request.method = "POST";
  request.target = target.url.target(endpoint);
  request.headers.emplace_back("Content-Type", "application/json");
  request.headers.emplace_back("Accept", job.stream ? "text/event-stream" : "application/json");
  request.body = std::move(job.body);
  return request;
}

}  // namespace

boost::asio::awaitable<Sent> send(net::HttpClient& client, const Target& target, Job job,
                                  bool keep_text, Tally& tally) {
  AnswerReader reader(target.backend.dialect,
                      {.keep_text = keep_text,
                       .tokens_asked = job.output_tokens_asked,
                       .sent = &target.client.headers},
                      tally);
  net::HttpRequest request = request_of(target, job);
  const net::Exchange exchange = co_await client.exchange(std::move(request), reader);
  Sent sent;
  sent.start = exchange.stamps.start;
  sent.local_fault = exchange.fault == net::NetFault::kLocal;
  sent.record.index = job.index;
  sent.record.prompt_tokens_asked = job.prompt_tokens_asked;
  sent.record.output_tokens_asked = job.output_tokens_asked;
  sent.record.prompt_repeated = job.prompt_repeated;
  reader.finish(exchange, sent.record);
  sent.text = reader.take_text();
  co_return sent;
}

Result<std::unique_ptr<Prober>> Prober::make(const net::Url& url, const net::ClientOptions& options,
                                             const std::atomic<bool>& interrupted) {
  std::unique_ptr<Prober> prober(new Prober(interrupted));
  net::ClientOptions for_pages = options;
  for_pages.timeouts.total = kPageTimeout;
  NIBBLE_ASSIGN_OR_RETURN(net::HttpClient requests,
                          net::HttpClient::make(prober->loops_, 0, url, options));
  NIBBLE_ASSIGN_OR_RETURN(net::HttpClient pages,
                          net::HttpClient::make(prober->loops_, 0, url, for_pages));
  prober->requests_ = std::make_unique<net::HttpClient>(std::move(requests));
  prober->pages_ = std::make_unique<net::HttpClient>(std::move(pages));
  return prober;
}

// Runs the task, and looks after interrupts until it has ended.
void Prober::run(const net::Loops::Task& task) {
  bool done = false;
  loops_.spawn(0, [&]() -> boost::asio::awaitable<void> {
    co_await task();
    done = true;
  });
  loops_.run(0, [&]() -> boost::asio::awaitable<void> {
    while (!done) {
      co_await net::sleep_for(kLookForInterrupt);
      if (!interrupted_) continue;
      requests_->cancel_all();
      pages_->cancel_all();
    }
  });
}

Sent Prober::ask(const Target& target, Job job) {
  Sent sent;
  run([&]() -> boost::asio::awaitable<void> {
    sent = co_await send(*requests_, target, std::move(job), false, tally_);
  });
  return sent;
}

net::Response Prober::page(const char* method, const std::string& target) {
  net::Response response;
  run([&]() -> boost::asio::awaitable<void> {
    net::HttpRequest request;
    request.method = method;
    request.target = pages_->url().target(target);
    response = co_await pages_->fetch(std::move(request));
  });
  return response;
}

}  // namespace nibble::drive
