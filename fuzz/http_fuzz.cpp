// The readers of HTTP answers and requests on any bytes cut anywhere: no crash and no hang, the
// same verdict and body however the bytes are cut.
//
// The first byte says what the rest is ('r' a request, anything else an answer); the second seeds
// the places of the cuts.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/stats.h"
#include "net/request_parser.h"
#include "net/response_parser.h"

namespace {

using nibble::net::RequestParser;
using nibble::net::ResponseParser;

constexpr std::size_t kMostHeaderBytes = 2048;
constexpr std::size_t kMostBodyBytes = 8192;

class Sink : public nibble::net::BodySink {
 public:
  void on_head(int status, const nibble::net::Headers&) override {
    ++heads;
    NIBBLE_CHECK(status >= 0 && status <= 999 && body.empty());
  }
  bool on_bytes(std::string_view bytes, nibble::Nanoseconds) override {
    NIBBLE_CHECK(heads == 1 && !bytes.empty());
    body.append(bytes);
    return true;
  }
  int heads = 0;
  std::string body;
};

struct Verdict {
  int state = 0;
  int status = 0;
  bool keep_alive = false;
  std::string body;
  bool done = false;
  bool operator==(const Verdict&) const = default;
};

// What is whole must be so in every cut. What is not may be refused early or be waited for: Beast
// looks for the end of a header before it reads the header once it had to wait for bytes.
bool agree(const Verdict& a, const Verdict& b) {
  return a == b || (!a.done && !b.done);
}

Verdict read_response(std::string_view text, std::uint64_t seed, std::uint64_t longest) {
  nibble::Random random(seed);
  ResponseParser parser({.head_only = false, .max_header_bytes = kMostHeaderBytes});
  Sink sink;
  ResponseParser::Step step = ResponseParser::Step::kMore;
  while (!text.empty() && step == ResponseParser::Step::kMore) {
    const std::size_t size = static_cast<std::size_t>(random.below(longest)) + 1;
    step = parser.feed(text.substr(0, size), 1, sink);
    text.remove_prefix(std::min(size, text.size()));
  }
  if (step == ResponseParser::Step::kMore) step = parser.finish();
  NIBBLE_CHECK(step == ResponseParser::Step::kDone || step == ResponseParser::Step::kFailed);
  const bool failed = step == ResponseParser::Step::kFailed;
  NIBBLE_CHECK(failed == !parser.message().empty());
  // Bytes behind an answer are noticed only where they came with its last ones.
  const bool keep = parser.keep_alive() && text.empty();
  return {.state = static_cast<int>(step),
          .status = parser.status(),
          .keep_alive = !failed && keep,
          .body = sink.body,
          .done = !failed};
}

Verdict read_request(std::string_view text, std::uint64_t seed, std::uint64_t longest) {
  nibble::Random random(seed);
  RequestParser parser({.max_header_bytes = kMostHeaderBytes, .max_body_bytes = kMostBodyBytes});
  std::string input;
  while (!text.empty() && parser.state() == RequestParser::State::kMore) {
    const std::size_t size = static_cast<std::size_t>(random.below(longest)) + 1;
    input.append(text.substr(0, size));
    text.remove_prefix(std::min(size, text.size()));
    const std::size_t used = parser.feed(input);
    NIBBLE_CHECK(used <= input.size());
    input.erase(0, used);
  }
  Verdict verdict{.state = static_cast<int>(parser.state())};
  if (parser.state() == RequestParser::State::kDone) {
    verdict.done = true;
    verdict.keep_alive = parser.keep_alive();
    verdict.body = parser.method() + " " + parser.target() + "\n" + parser.take_body();
    NIBBLE_CHECK(!parser.method().empty());
  } else if (parser.state() == RequestParser::State::kRefused) {
    NIBBLE_CHECK(parser.refusal_status() >= 400 && !parser.refusal().empty());
  }
  return verdict;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  // Limits are checked where bytes wait for their line's end, so that input near them may be
  // refused in one cut and not in another.
  const bool small = text.size() < kMostHeaderBytes;
  const auto read = data[0] == 'r' ? read_request : read_response;
  const Verdict whole = read(text, 0, UINT64_MAX >> 1);
  const Verdict bytes = read(text, 0, 1);
  const Verdict pieces = read(text, data[1], 16);
  if (small) NIBBLE_CHECK(agree(whole, bytes));
  if (small) NIBBLE_CHECK(agree(whole, pieces));
  return 0;
}
