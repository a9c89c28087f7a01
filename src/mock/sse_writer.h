// Events on the wire, in every form that the grammar of server-sent events allows (SseForm).
//
//   SseWriter sse(script.sse);
//   std::string bytes = sse.begin();                 // byte order mark, retry:
//   sse.append(bytes, "data: {}\n\n");               // the same events in the script's form
//   for (std::string& piece : cut(script.sse, std::move(bytes))) write(std::move(piece));
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mock/script.h"

namespace nibble::mock {

class SseWriter {
 public:
  explicit SseWriter(const SseForm& form);

  // What the stream begins with; may be nothing.
  std::string begin() const;
  // `events` in the plain form, "data: ...\n\n" each. `last`: no more follow, and the end of the
  // line of the last is left out where the form says so.
  void append(std::string& out, std::string_view events, bool last = false);
  void append_comment(std::string& out, std::string_view text) const;

 private:
  void append_event(std::string& out, std::string_view data);
  void append_field(std::string& out, std::string_view name, std::string_view value) const;

  const SseForm& form_;
  std::string_view line_end_;
  std::string_view colon_;
  bool plain_ = true;  // events need no rewriting
  std::int64_t events_ = 0;
};

// The pieces in which the form has bytes leave; one when it cuts nothing.
std::vector<std::string> cut(const SseForm& form, std::string bytes);

}  // namespace nibble::mock
