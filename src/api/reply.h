// The server's end of an answer: events and bodies in all four formats, as vLLM (and OpenAI),
// SGLang and llama.cpp write them.
//
//   ReplyWriter writer(Dialect::kChat, {.id = "chatcmpl-7", .model = "m", .created_s = now});
//   writer.role(out);                                     // chat: who speaks
//   writer.piece(out, {.text = " Hello", .usage = &so_far});
//   writer.finish(out, "length");                         // the last event with a choice
//   writer.usage(out, total);                             // if it was asked for
//   writer.done(out);
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/backend.h"
#include "api/stream.h"
#include "api/usage.h"
#include "base/result.h"

namespace nibble::api {

struct ReplyNames {
  std::string id;
  std::string model;
  std::int64_t created_s = 0;                         // Unix time
  std::string reasoning_field = "reasoning_content";  // or "reasoning"
};

// One delta. `usage`, here and below, is what has been counted so far, this piece included: the
// OpenAI formats show it where it is given; the native ones have counts in every event and show
// zeros without it.
struct Piece {
  TextKind kind = TextKind::kContent;
  std::string_view text;
  const Usage* usage = nullptr;
  std::string_view finish_reason = {};  // of an answer that ends in the same event
  std::int64_t index = 0;               // OpenAI: of the choice
  std::string_view logprobs = {};       // OpenAI: a JSON value; empty: null
};

// OpenAI: one of the answers of a body that has several.
struct WholeChoice {
  std::string_view text;
  std::string_view finish_reason;
  std::string_view logprobs = {};  // a JSON value; empty: null
};

// Times of an answer for llama.cpp's "timings".
struct ReplyTimes {
  double prompt_ms = 0;
  double output_ms = 0;
};

// Writes the events of one answer. Each call appends one whole event, "data: ...\n\n".
class ReplyWriter {
 public:
  ReplyWriter(Dialect dialect, ReplyNames names);

  // Chat: {"role":"assistant","content":""}. Nothing in the other formats.
  void role(std::string& out, const Usage* usage = nullptr, std::int64_t index = 0) const;
  void piece(std::string& out, const Piece& piece);
  // An empty delta with the reason. In the native formats: the event that ends the answer, in
  // llama.cpp's with timings beside the counts.
  void finish(std::string& out, std::string_view reason, const Usage* usage = nullptr,
              const ReplyTimes& times = {});
  // OpenAI: {"choices":[],"usage":{...}}. Nothing in the native formats.
  void usage(std::string& out, const Usage& usage) const;
  // [DONE]; nothing in llama.cpp's format.
  void done(std::string& out) const;

  // The answer as one body instead of events.
  std::string body(std::span<const Piece> pieces, std::string_view reason,
                   const Usage* usage = nullptr, const ReplyTimes& times = {}) const;
  // OpenAI: the answers of several choices, in the order of their indices.
  std::string body(std::span<const WholeChoice> choices, const Usage& usage) const;

 private:
  void openai_piece(std::string& out, const Piece& piece) const;
  void append_sglang(std::string& out, std::string_view text, std::string_view reason,
                     const Usage* usage) const;
  void append_llamacpp_end(std::string& out, std::string_view text, std::string_view reason,
                           const Usage* usage, const ReplyTimes& times) const;
  std::string openai_body(std::span<const Piece> pieces, std::string_view reason,
                          const Usage* usage) const;

  std::string before_choices(std::string_view object) const;
  std::string_view body_object() const;

  Dialect dialect_;
  ReplyNames names_;
  std::string head_;        // of an OpenAI event with a choice, up to `"choices":[{"index":`
  std::string usage_head_;  // of one without, up to `"choices":[`
  std::string so_far_;      // SGLang repeats all text
};

// {"error":{...}} in the words of the format, for the body of a 4xx or 5xx status. `param` names
// the field of the request that is wrong, in the formats that say so.
std::string error_body(Dialect dialect, int status, std::string_view message,
                       std::string_view param = {});
// The same within a stream, as an event.
void append_error_event(std::string& out, Dialect dialect, int status, std::string_view message);

struct ModelInfo {
  std::string id;
  std::optional<std::int64_t> max_model_len;
};

std::int64_t unix_seconds();  // since 1970, for what answers say of themselves

// The body of /v1/models, and what it says.
std::string models_body(std::span<const ModelInfo> models, std::int64_t created_s);
Result<std::vector<ModelInfo>> read_models(std::string_view body);

}  // namespace nibble::api
