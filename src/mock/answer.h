// One scripted answer in the words of the API: its events, or its one body.
//
//   AnswerWriter answer(script, request, plan_request(script, 7, asked), seconds_since_1970);
//   std::string out;
//   answer.tokens(out, chunk);    // "data: {...}\n\n"
//   answer.tail(out);             // finish_reason, usage, [DONE], as the script wants them
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/reply.h"
#include "base/clock.h"
#include "mock/engine.h"
#include "mock/request.h"
#include "mock/script.h"

namespace nibble::mock {

// The text of token `token` of answer `index`, with its leading space.
std::string_view token_text(const MockScript& script, std::uint64_t index, std::int64_t token);

class AnswerWriter {
 public:
  // The script must outlive the writer.
  AnswerWriter(const MockScript& script, const ClientRequest& request, const RequestPlan& plan,
               std::int64_t created_s);

  // Each appends whole events, "data: ...\n\n"; role and done may append nothing.
  void role(std::string& out);
  void empty(std::string& out);
  void tokens(std::string& out, const Chunk& chunk);
  void finish(std::string& out);
  void usage(std::string& out);  // the event of its own, where the script wants it
  void done(std::string& out);
  void late(std::string& out);  // a word that comes behind [DONE]
  // The whole answer.
  std::string body();

  // For llama.cpp's timings.
  void set_times(api::ReplyTimes times) { times_ = times; }
  api::Dialect dialect() const { return request_.dialect; }
  std::int64_t prompt_tokens() const { return prompt_tokens_; }
  std::int64_t cached_tokens() const { return cached_tokens_; }

 private:
  bool native() const;
  bool usage_everywhere() const;
  bool usage_in_finish() const;
  const api::Usage* usage_if(bool wanted);
  api::Usage count() const;
  api::TextKind kind_of(std::int64_t token) const;
  std::string text_of(std::int64_t first, std::int64_t tokens) const;
  std::string_view reason() const;

  const MockScript& script_;
  ClientRequest request_;
  RequestPlan plan_;
  api::ReplyWriter reply_;
  api::ReplyTimes times_;
  std::int64_t prompt_tokens_ = 0;
  std::int64_t cached_tokens_ = 0;
  std::int64_t generated_ = 0;
  api::Usage so_far_;
};

}  // namespace nibble::mock
