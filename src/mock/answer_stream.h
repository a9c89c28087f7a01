// The bytes of a streamed answer, piece by piece, in the script's form.
//
//   AnswerStream stream(script, plan, answer);
//   write(stream.chunk(chunk));   // the role before the first, the comments between
//   write(stream.tail());
#pragma once

#include <cstdint>
#include <string>

#include "mock/answer.h"
#include "mock/sse_writer.h"

namespace nibble::mock {

class AnswerStream {
 public:
  // All must outlive the stream.
  AnswerStream(const MockScript& script, const RequestPlan& plan, AnswerWriter& answer)
      : script_(script), plan_(plan), answer_(answer), sse_(script.sse) {}

  std::string role();
  std::string empty();
  // Nothing, where the script keeps all tokens for one chunk and this is not the last.
  std::string chunk(const Chunk& chunk);
  std::string keep_alive();
  // All that comes behind the last token.
  std::string tail();
  // The tail of an answer that had no token.
  std::string tail_alone();
  // The event of a fault, in the plain form, and the end of the stream.
  std::string tail_with(std::string events);

  // Whether an event without tokens stands before the next chunk.
  bool empty_is_next() const;

 private:
  std::string opened();
  std::string formed(const std::string& events, bool last = false);
  void append_whole(std::string& events, const Chunk& last);
  void append_end(std::string& events);

  const MockScript& script_;
  const RequestPlan& plan_;
  AnswerWriter& answer_;
  SseWriter sse_;
  std::int64_t chunks_ = 0;
  bool opened_ = false;
};

}  // namespace nibble::mock
