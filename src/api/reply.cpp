#include "api/reply.h"

#include <fmt/format.h>

#include "api/json_write.h"

namespace nibble::api {
namespace {

constexpr std::string_view kData = "data: ";
constexpr std::string_view kEnd = "\n\n";

bool is_openai(Dialect dialect) {
  return dialect == Dialect::kChat || dialect == Dialect::kCompletions;
}

void append_field(std::string& out, std::string_view name, std::int64_t value) {
  out += name;
  append_json_integer(out, value);
}

void append_usage(std::string& out, const Usage& usage) {
  append_field(out, R"({"prompt_tokens":)", usage.prompt_tokens.value_or(0));
  append_field(out, R"(,"total_tokens":)", usage.total());
  append_field(out, R"(,"completion_tokens":)", usage.output_tokens.value_or(0));
  if (usage.cached_tokens) {
    append_field(out, R"(,"prompt_tokens_details":{"cached_tokens":)", *usage.cached_tokens);
    out += '}';
  }
  if (usage.reasoning_tokens) {
    append_field(out, R"(,"completion_tokens_details":{"reasoning_tokens":)",
                 *usage.reasoning_tokens);
    out += '}';
  }
  out += '}';
}

void append_usage_member(std::string& out, const Usage* usage) {
  if (usage == nullptr) return;
  out += R"(,"usage":)";
  append_usage(out, *usage);
}

// What ends every choice: `,"logprobs":null,"finish_reason":null}`.
void append_choice_end(std::string& out, std::string_view logprobs, std::string_view reason) {
  out += R"(,"logprobs":)";
  out += logprobs.empty() ? "null" : logprobs;
  out += R"(,"finish_reason":)";
  if (reason.empty()) {
    out += "null";
  } else {
    append_json_string(out, reason);
  }
  out += '}';
}

void append_tool_call(std::string& out, std::string_view arguments) {
  out += R"("tool_calls":[{"index":0,"function":{"arguments":)";
  append_json_string(out, arguments);
  out += "}}]";
}

void append_timings(std::string& out, const Usage& usage, const ReplyTimes& times) {
  const std::int64_t cached = usage.cached_tokens.value_or(0);
  const std::int64_t computed = usage.prompt_tokens.value_or(0) - cached;
  const std::int64_t predicted = usage.output_tokens.value_or(0);
  const auto per_second = [](std::int64_t count, double ms) {
    return ms > 0 ? static_cast<double>(count) * 1e3 / ms : 0.0;
  };
  fmt::format_to(std::back_inserter(out),
                 R"("timings":{{"cache_n":{},"prompt_n":{},"prompt_ms":{},"prompt_per_second":{},)"
                 R"("predicted_n":{},"predicted_ms":{},"predicted_per_second":{}}})",
                 cached, computed, times.prompt_ms, per_second(computed, times.prompt_ms),
                 predicted, times.output_ms, per_second(predicted, times.output_ms));
}

}  // namespace

ReplyWriter::ReplyWriter(Dialect dialect, ReplyNames names)
    : dialect_(dialect), names_(std::move(names)) {
  if (!is_openai(dialect)) return;
  const bool chat = dialect == Dialect::kChat;
  usage_head_ = fmt::format("{}{}", kData,
                            before_choices(chat ? "chat.completion.chunk" : "text_completion"));
  head_ = usage_head_ + R"({"index":)";
}

std::string ReplyWriter::before_choices(std::string_view object) const {
  std::string out = R"({"id":)";
  append_json_string(out, names_.id);
  out += R"(,"object":)";
  append_json_string(out, object);
  append_field(out, R"(,"created":)", names_.created_s);
  out += R"(,"model":)";
  append_json_string(out, names_.model);
  out += R"(,"choices":[)";
  return out;
}

void ReplyWriter::role(std::string& out, const Usage* usage, std::int64_t index) const {
  if (dialect_ != Dialect::kChat) return;
  append_field(out, head_, index);
  out += R"(,"delta":{"role":"assistant","content":""})";
  append_choice_end(out, {}, {});
  out += ']';
  append_usage_member(out, usage);
  out += '}';
  out += kEnd;
}

void ReplyWriter::openai_piece(std::string& out, const Piece& piece) const {
  append_field(out, head_, piece.index);
  if (dialect_ == Dialect::kCompletions) {
    out += R"(,"text":)";
    append_json_string(out, piece.text);
  } else {
    out += R"(,"delta":{)";
    if (piece.kind == TextKind::kTool) {
      append_tool_call(out, piece.text);
    } else {
      append_json_string(out,
                         piece.kind == TextKind::kContent ? "content" : names_.reasoning_field);
      out += ':';
      append_json_string(out, piece.text);
    }
    out += '}';
  }
  append_choice_end(out, piece.logprobs, piece.finish_reason);
  out += ']';
  append_usage_member(out, piece.usage);
  out += '}';
  out += kEnd;
}

void ReplyWriter::append_sglang(std::string& out, std::string_view text, std::string_view reason,
                                const Usage* counted) const {
  const Usage usage = counted == nullptr ? Usage{} : *counted;
  out += R"({"text":)";
  append_json_string(out, text);
  out += R"(,"meta_info":{"id":)";
  append_json_string(out, names_.id);
  out += R"(,"finish_reason":)";
  if (reason.empty()) {
    out += "null";
  } else {
    out += R"({"type":)";
    append_json_string(out, reason);
    if (reason == "length") append_field(out, R"(,"length":)", usage.output_tokens.value_or(0));
    out += '}';
  }
  append_field(out, R"(,"prompt_tokens":)", usage.prompt_tokens.value_or(0));
  append_field(out, R"(,"completion_tokens":)", usage.output_tokens.value_or(0));
  append_field(out, R"(,"cached_tokens":)", usage.cached_tokens.value_or(0));
  if (usage.reasoning_tokens) {
    append_field(out, R"(,"reasoning_tokens":)", *usage.reasoning_tokens);
  }
  out += "}}";
}

void ReplyWriter::append_llamacpp_end(std::string& out, std::string_view text,
                                      std::string_view reason, const Usage* counted,
                                      const ReplyTimes& times) const {
  const Usage usage = counted == nullptr ? Usage{} : *counted;
  out += R"({"index":0,"content":)";
  append_json_string(out, text);
  out += R"(,"tokens":[],"id_slot":0,"stop":true,"model":)";
  append_json_string(out, names_.model);
  append_field(out, R"(,"tokens_predicted":)", usage.output_tokens.value_or(0));
  append_field(out, R"(,"tokens_evaluated":)", usage.prompt_tokens.value_or(0));
  out += R"(,"truncated":false,"stop_type":)";
  out += reason == "length" ? R"("limit")" : R"("eos")";
  append_field(out, R"(,"stopping_word":"","tokens_cached":)", usage.total());
  if (counted != nullptr && (times.prompt_ms > 0 || times.output_ms > 0)) {
    out += ',';
    append_timings(out, usage, times);
  }
  out += '}';
}

void ReplyWriter::piece(std::string& out, const Piece& piece) {
  if (is_openai(dialect_)) return openai_piece(out, piece);
  out += kData;
  if (dialect_ == Dialect::kSglang) {
    so_far_ += piece.text;
    append_sglang(out, so_far_, piece.finish_reason, piece.usage);
  } else if (!piece.finish_reason.empty()) {
    append_llamacpp_end(out, piece.text, piece.finish_reason, piece.usage, {});
  } else {
    const Usage usage = piece.usage == nullptr ? Usage{} : *piece.usage;
    out += R"({"index":0,"content":)";
    append_json_string(out, piece.text);
    append_field(out, R"(,"tokens":[],"stop":false,"id_slot":0,"tokens_predicted":)",
                 usage.output_tokens.value_or(0));
    append_field(out, R"(,"tokens_evaluated":)", usage.prompt_tokens.value_or(0));
    out += '}';
  }
  out += kEnd;
}

void ReplyWriter::finish(std::string& out, std::string_view reason, const Usage* usage,
                         const ReplyTimes& times) {
  if (dialect_ != Dialect::kLlamacpp) return piece(out, {.usage = usage, .finish_reason = reason});
  out += kData;
  append_llamacpp_end(out, "", reason, usage, times);
  out += kEnd;
}

void ReplyWriter::usage(std::string& out, const Usage& usage) const {
  if (!is_openai(dialect_)) return;
  out += usage_head_;
  out += R"(],"usage":)";
  append_usage(out, usage);
  out += '}';
  out += kEnd;
}

void ReplyWriter::done(std::string& out) const {
  if (dialect_ != Dialect::kLlamacpp) out += "data: [DONE]\n\n";
}

std::string ReplyWriter::body(std::span<const Piece> pieces, std::string_view reason,
                              const Usage* usage, const ReplyTimes& times) const {
  if (is_openai(dialect_)) return openai_body(pieces, reason, usage);
  std::string text;
  for (const Piece& piece : pieces) text += piece.text;
  std::string out;
  if (dialect_ == Dialect::kSglang) {
    append_sglang(out, text, reason, usage);
  } else {
    append_llamacpp_end(out, text, reason, usage, times);
  }
  return out;
}

std::string ReplyWriter::openai_body(std::span<const Piece> pieces, std::string_view reason,
                                     const Usage* usage) const {
  std::string content;
  std::string reasoning;
  std::string tool;
  for (const Piece& piece : pieces) {
    std::string& to = piece.kind == TextKind::kTool        ? tool
                      : piece.kind == TextKind::kReasoning ? reasoning
                                                           : content;
    to += piece.text;
  }
  std::string out = before_choices(body_object());
  out += R"({"index":0,)";
  if (dialect_ == Dialect::kCompletions) {
    out += R"("text":)";
    append_json_string(out, content);
  } else {
    out += R"("message":{"role":"assistant","content":)";
    append_json_string(out, content);
    if (!reasoning.empty()) {
      out += ',';
      append_json_string(out, names_.reasoning_field);
      out += ':';
      append_json_string(out, reasoning);
    }
    if (!tool.empty()) {
      out += ',';
      append_tool_call(out, tool);
    }
    out += '}';
  }
  append_choice_end(out, {}, reason);
  out += ']';
  append_usage_member(out, usage);
  out += '}';
  return out;
}

std::string_view ReplyWriter::body_object() const {
  return dialect_ == Dialect::kChat ? "chat.completion" : "text_completion";
}

std::string ReplyWriter::body(std::span<const WholeChoice> choices, const Usage& usage) const {
  std::string out = before_choices(body_object());
  for (std::size_t index = 0; index < choices.size(); ++index) {
    const WholeChoice& choice = choices[index];
    append_field(out, index == 0 ? R"({"index":)" : R"(,{"index":)",
                 static_cast<std::int64_t>(index));
    const bool chat = dialect_ == Dialect::kChat;
    out += chat ? R"(,"message":{"role":"assistant","content":)" : R"(,"text":)";
    append_json_string(out, choice.text);
    if (chat) out += '}';
    append_choice_end(out, choice.logprobs, choice.finish_reason);
  }
  out += ']';
  append_usage_member(out, &usage);
  out += '}';
  return out;
}

}  // namespace nibble::api
