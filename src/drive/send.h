// One request to a server, from a body that is ready to a row that is nearly so.
//
//   Sent sent = co_await send(client, target, std::move(job), options, tally);
//   sent.record.outcome, sent.text        // level, index and schedule are the caller's
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>

#include "drive/answer.h"
#include "drive/job_feeder.h"
#include "net/http_client.h"
#include "net/loop.h"

namespace nibble::drive {

struct Sent {
  load::RequestRecord record;
  std::string text;       // of the answer, or its end
  Nanoseconds start = 0;  // the exchange began: before connecting
  // This host could not send (no port or descriptor left): says nothing of the server.
  bool local_fault = false;
};

// The client, the target and the tally must outlive the coroutine.
boost::asio::awaitable<Sent> send(net::HttpClient& client, const Target& target, Job job,
                                  bool keep_text, Tally& tally);

// Sends requests one at a time from a thread that may wait: what must be known of a server before
// load is put on it.
class Prober {
 public:
  // When `interrupted` becomes true, whatever is asked ends within 0.1 s.
  static Result<std::unique_ptr<Prober>> make(const net::Url& url,
                                              const net::ClientOptions& options,
                                              const std::atomic<bool>& interrupted);
  Sent ask(const Target& target, Job job);
  // Pages beside the API; 5 s at most.
  net::Response get(const std::string& target) { return page("GET", target); }
  net::Response post(const std::string& target) { return page("POST", target); }

 private:
  explicit Prober(const std::atomic<bool>& interrupted) : interrupted_(interrupted) {}
  void run(const net::Loops::Task& task);
  net::Response page(const char* method, const std::string& target);

  const std::atomic<bool>& interrupted_;
  net::Loops loops_{1};
  std::unique_ptr<net::HttpClient> requests_, pages_;
  Tally tally_;
};

}  // namespace nibble::drive
