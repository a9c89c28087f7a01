// Answers that come as one body.
#include "api/error_text.h"
#include "api/stream.h"
#include "base/text.h"

namespace nibble::api {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// White space, a BOM and comment lines, with which proxies keep a connection alive.
std::string_view without_keep_alive(std::string_view body) {
  for (;;) {
    body = trim(body);
    if (body.starts_with(kByteOrderMark)) {
      body.remove_prefix(kByteOrderMark.size());
    } else if (body.starts_with(':')) {
      const std::size_t end = body.find_first_of("\r\n");
      body.remove_prefix(end == std::string_view::npos ? body.size() : end);
    } else {
      return body;
    }
  }
}

bool begins_as_events(std::string_view text) {
  for (const std::string_view field : {"data:", "event:", "id:", "retry:"}) {
    if (text.starts_with(field)) return true;
  }
  return false;
}

StreamItem malformed(std::string message) {
  StreamItem item;
  item.malformed = true;
  item.message = std::move(message);
  return item;
}

}  // namespace

StreamItem read_body(Dialect dialect, std::string_view body) {
  body = without_keep_alive(body);
  if (body.empty()) return malformed("the body is empty");
  if (body.front() == '<') return malformed(error_text(body));
  if (begins_as_events(body)) {
    return malformed("the body is a stream of events, though its header does not say so");
  }
  StreamReader reader(dialect);
  StreamItem item = reader.read(body);
  // A count that the reader refused, such as zero with text, is not to come back here.
  item.done = false;
  item.new_tokens.reset();
  if (item.malformed || item.is_error || item.has_choice) return item;
  // FastAPI and others answer 200 with {"detail": ...} or {"message": ...}.
  const bool says_something = body.find("\"detail\"") != std::string_view::npos ||
                              body.find("\"message\"") != std::string_view::npos;
  item.is_error = says_something;
  item.malformed = !says_something;
  item.message = says_something ? error_text(body) : "JSON without an answer: " + error_text(body);
  return item;
}

bool is_event_stream(std::string_view content_type, std::string_view beginning) {
  const std::string type = to_lower(trim(content_type.substr(0, content_type.find(';'))));
  if (!type.empty() && type != "application/octet-stream" && type != "text/plain") {
    return type == "text/event-stream";
  }
  if (beginning.starts_with(kByteOrderMark)) beginning.remove_prefix(kByteOrderMark.size());
  beginning = trim(beginning);
  return begins_as_events(beginning) || beginning.starts_with(':');
}

}  // namespace nibble::api
