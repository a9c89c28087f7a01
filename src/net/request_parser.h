// A request to the server, byte by byte: what the server reads every request with, and what the
// fuzz target feeds.
//
//   RequestParser parser({});
//   const std::size_t used = parser.feed(input);
//   if (parser.state() == RequestParser::State::kRefused) answer(parser.refusal_status());
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "net/headers.h"

namespace nibble::net {

// Reads one request; what follows it in the input is left there (pipelining).
class RequestParser {
 public:
  struct Options {
    std::size_t max_header_bytes = std::size_t{64} << 10;
    std::size_t max_body_bytes = std::size_t{64} << 20;
  };
  enum class State { kMore, kDone, kRefused };

  explicit RequestParser(Options options);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  // Gives how many bytes are used up; the rest is to be given again with more behind it. Not to be
  // called again once the state is not kMore.
  std::size_t feed(std::string_view bytes);
  State state() const;
  bool started() const;  // a byte of the request came

  bool expects_continue() const;  // the peer waits for "100 Continue" before it sends the body
  // Of kDone.
  std::string method() const;
  std::string target() const;
  Headers headers() const;
  std::string take_body();
  bool keep_alive() const;
  bool http_1_0() const;
  // Of kRefused: 400, 413, 431, 501 or 505, and one sentence.
  int refusal_status() const;
  const std::string& refusal() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::net
