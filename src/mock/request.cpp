#include "mock/request.h"

#include <utility>

#include "api/json_scan.h"

namespace nibble::mock {
namespace {

constexpr std::size_t kMostPrompts = 4096;

bool is_space(char letter) {
  return letter == ' ' || letter == '\n' || letter == '\t' || letter == '\r' || letter == '\f' ||
         letter == '\v';
}

std::int64_t count_tokens(std::string_view text, std::size_t ids) {
  return count_words(text) + static_cast<std::int64_t>(ids);
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
  NIBBLE_ASSIGN_OR_RETURN(api::RequestBatch batch, api::parse_batch(dialect, body, kMostPrompts));
  ClientRequest request{.dialect = dialect, .asked = std::move(batch.request)};
  request.asked.extra_body = {};
  const std::string prompt = std::exchange(request.asked.prompt, {});
  const std::vector<std::int32_t> ids = std::exchange(request.asked.prompt_ids, {});
  request.prompt_tokens = count_tokens(prompt, ids.size());
  for (const api::Prompt& other : batch.others) {
    request.prompt_tokens += count_tokens(other.text, other.ids.size());
  }
  for (const api::ChatMessage& message : std::exchange(request.asked.messages, {})) {
    request.prompt_tokens += count_words(message.content);
  }
  return request;
}

}  // namespace nibble::mock
