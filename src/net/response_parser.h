// The answer to a request, byte by byte: what the client reads every answer with, and what the fuzz
// target feeds.
//
//   ResponseParser parser({.head_only = false});
//   while (parser.feed(bytes_just_read, now, sink) == ResponseParser::Step::kMore) ...
//   parser.finish();                                  // when the peer closed
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "net/exchange.h"
#include "net/headers.h"

namespace nibble::net {

// Reads one response in pieces cut anywhere; interim responses (100 Continue) before it are
// skipped. Bytes of the body go to the sink as they lie in the piece, without being copied.
class ResponseParser {
 public:
  struct Options {
    bool head_only = false;  // the request was HEAD: no body follows
    std::size_t max_header_bytes = std::size_t{64} << 10;
  };
  enum class Step { kMore, kDone, kStopped, kFailed };

  explicit ResponseParser(Options options);
  ~ResponseParser();
  ResponseParser(const ResponseParser&) = delete;
  ResponseParser& operator=(const ResponseParser&) = delete;

  // Not to be called again once it gave anything but kMore.
  Step feed(std::string_view bytes, Nanoseconds received_at, BodySink& sink);
  // The peer has closed: kDone when that ends the body, kFailed when something is missing.
  Step finish();

  int status() const;  // 0 before the head is done
  Headers take_headers();
  Nanoseconds head_at() const;        // 0: not yet
  Nanoseconds first_byte_at() const;  // of the body
  bool keep_alive() const;  // another response may follow: all was said and nothing came behind it
  NetFault fault() const;   // of kFailed
  const std::string& message() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::net
