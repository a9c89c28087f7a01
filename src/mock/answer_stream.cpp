#include "mock/answer_stream.h"

namespace nibble::mock {

// What stands before the first event, once.
std::string AnswerStream::opened() {
  std::string out;
  if (!opened_) out = sse_.begin();
  opened_ = true;
  return out;
}

std::string AnswerStream::formed(const std::string& events, bool last) {
  std::string out = opened();
  sse_.append(out, events, last);
  return out;
}

std::string AnswerStream::role() {
  std::string events;
  answer_.role(events);
  return formed(events);
}

std::string AnswerStream::empty() {
  std::string events;
  answer_.empty(events);
  return formed(events);
}

bool AnswerStream::empty_is_next() const {
  const std::int64_t every = script_.stream.empty_every;
  return script_.stream.mode == StreamMode::kTokens && every > 0 && chunks_ > 0 &&
         chunks_ % every == 0;
}

std::string AnswerStream::keep_alive() {
  std::string out = opened();
  sse_.append_comment(out, "keep-alive");
  return out;
}

std::string AnswerStream::chunk(const Chunk& chunk) {
  const bool whole = script_.stream.mode == StreamMode::kOneChunk;
  if (whole && !chunk.last) return "";
  std::string events;
  events.reserve(512);
  const bool first = whole || chunk.first == 0;
  if (first && script_.stream.role == RoleDelta::kWithFirst) answer_.role(events);
  if (whole) {
    append_whole(events, chunk);
  } else {
    answer_.tokens(events, chunk);
  }
  std::string out = opened();
  const std::int64_t every = script_.sse.comment_every;
  if (every > 0 && chunks_ % every == 0) sse_.append_comment(out, "comment");
  ++chunks_;
  sse_.append(out, events);
  return out;
}

// The whole answer as one event, or two when it begins with reasoning.
void AnswerStream::append_whole(std::string& events, const Chunk& last) {
  const std::int64_t thought = plan_.reasoning_tokens;
  const std::int64_t rest = plan_.output_tokens - thought;
  if (thought > 0) answer_.tokens(events, {.tokens = thought, .due = last.due, .last = rest == 0});
  if (rest == 0) return;
  answer_.tokens(events, {.first = thought, .tokens = rest, .due = last.due, .last = true});
}

void AnswerStream::append_end(std::string& events) {
  if (script_.sse.done != DoneForm::kNone) answer_.done(events);
  if (script_.sse.done == DoneForm::kThenData) answer_.late(events);
}

std::string AnswerStream::tail() {
  if (script_.stream.finish == FinishForm::kSeparate) return tail_alone();
  std::string events;
  answer_.usage(events);
  append_end(events);
  return formed(events, true);
}

std::string AnswerStream::tail_alone() {
  std::string events;
  answer_.finish(events);
  answer_.usage(events);
  append_end(events);
  return formed(events, true);
}

std::string AnswerStream::tail_with(std::string events) {
  append_end(events);
  return formed(events, true);
}

}  // namespace nibble::mock
