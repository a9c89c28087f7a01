#include "mock/request.h"

#include <utility>

#include "api/json_scan.h"

namespace nibble::mock {
namespace {

bool is_space(char letter) {
  return letter == ' ' || letter == '\n' || letter == '\t' || letter == '\r' || letter == '\f' ||
         letter == '\v';
}

}  // namespace

std::int64_t count_words(std::string_view text) {
  std::int64_t words = 0;
  bool inside = false;
  for (const char letter : text) {
    const bool space = is_space(letter);
    if (!space && !inside) ++words;
    inside = !space;
  }
  return words;
}

bool has_stream_options(std::string_view body) {
  using api::JsonScanner;
  JsonScanner scan(body);
  bool found = false;
  for (scan.open_object(); scan.next_member();) {
    found |= scan.key() == "stream_options" && scan.peek() == JsonScanner::Kind::kObject;
    scan.skip();
  }
  return scan.finish() && found;
}

Result<ClientRequest> read_request(api::Dialect dialect, std::string_view body) {
  NIBBLE_ASSIGN_OR_RETURN(api::GenerationRequest asked, api::parse_request(dialect, body));
  ClientRequest request{.dialect = dialect, .asked = std::move(asked)};
  request.asked.extra_body = {};
  const std::string prompt = std::exchange(request.asked.prompt, {});
  const std::vector<std::int32_t> ids = std::exchange(request.asked.prompt_ids, {});
  request.prompt_tokens = count_words(prompt) + static_cast<std::int64_t>(ids.size());
  for (const api::ChatMessage& message : std::exchange(request.asked.messages, {})) {
    request.prompt_tokens += count_words(message.content);
  }
  return request;
}

}  // namespace nibble::mock
