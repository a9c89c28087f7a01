#include "mock/sse_writer.h"

#include <algorithm>
#include <fmt/core.h>

namespace nibble::mock {
namespace {

constexpr std::string_view kData = "data: ";
constexpr std::string_view kEnd = "\n\n";

std::string_view line_end_of(LineEnd end) {
  switch (end) {
    case LineEnd::kLf:
      return "\n";
    case LineEnd::kCrLf:
      return "\r\n";
    case LineEnd::kCr:
      return "\r";
  }
  return "\n";
}

}  // namespace

SseWriter::SseWriter(const SseForm& form)
    : form_(form),
      line_end_(line_end_of(form.line_end)),
      colon_(form.space_after_colon ? ": " : ":"),
      plain_(form.line_end == LineEnd::kLf && form.space_after_colon && !form.multi_line &&
             form.event.empty() && !form.id) {}

std::string SseWriter::begin() const {
  std::string out;
  if (form_.byte_order_mark) out += "\xEF\xBB\xBF";
  if (form_.retry_ms > 0) append_field(out, "retry", fmt::format("{}", form_.retry_ms));
  return out;
}

void SseWriter::append_field(std::string& out, std::string_view name,
                             std::string_view value) const {
  out += name;
  out += colon_;
  out += value;
  out += line_end_;
}

void SseWriter::append_event(std::string& out, std::string_view data) {
  ++events_;
  if (!form_.event.empty()) append_field(out, "event", form_.event);
  if (form_.id) append_field(out, "id", fmt::format("{}", events_));
  // JSON may be broken behind the bracket that opens it; the lines come together with a line end.
  if (form_.multi_line && data.size() > 1 && data.front() == '{') {
    append_field(out, "data", data.substr(0, 1));
    append_field(out, "data", data.substr(1));
  } else {
    append_field(out, "data", data);
  }
  out += line_end_;
}

void SseWriter::append(std::string& out, std::string_view events, bool last) {
  if (plain_) {
    out += events;
  } else {
    while (events.starts_with(kData)) {
      const std::size_t end = std::min(events.find(kEnd), events.size());
      append_event(out, events.substr(kData.size(), end - kData.size()));
      events.remove_prefix(std::min(events.size(), end + kEnd.size()));
    }
  }
  if (last && !form_.final_newline && out.ends_with(line_end_)) {
    // The empty line and the end of the line before it.
    out.resize(out.size() - 2 * line_end_.size());
  }
}

void SseWriter::append_comment(std::string& out, std::string_view text) const {
  out += ':';
  if (form_.space_after_colon) out += ' ';
  out += text;
  out += line_end_;
  out += line_end_;
}

std::vector<std::string> cut(const SseForm& form, std::string bytes) {
  std::vector<std::string> pieces;
  std::string_view rest = bytes;
  if (form.cut_characters) {
    const auto many = std::find_if(rest.begin(), rest.end(), [](char letter) {
      return static_cast<unsigned char>(letter) >= 0xC0;
    });
    if (many != rest.end()) {
      const auto first = static_cast<std::size_t>(many - rest.begin()) + 1;
      pieces.emplace_back(rest.substr(0, first));
      rest.remove_prefix(first);
    }
  }
  if (pieces.empty() && form.cut_bytes <= 0) {
    pieces.push_back(std::move(bytes));
    return pieces;
  }
  const std::size_t size =
      form.cut_bytes > 0 ? static_cast<std::size_t>(form.cut_bytes) : rest.size();
  for (; !rest.empty(); rest.remove_prefix(std::min(size, rest.size()))) {
    pieces.emplace_back(rest.substr(0, size));
  }
  return pieces;
}

}  // namespace nibble::mock
