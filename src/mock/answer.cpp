#include "mock/answer.h"

#include <algorithm>
#include <fmt/core.h>

namespace nibble::mock {
namespace {

using api::Dialect;

api::ReplyNames names_of(const MockScript& script, const ClientRequest& request,
                         std::uint64_t index, std::int64_t created_s) {
  const bool chat = request.dialect == Dialect::kChat;
  return {.id = fmt::format("{}-{}", chat ? "chatcmpl" : "cmpl", index),
          .model = request.asked.model.empty() ? script.model : request.asked.model,
          .created_s = created_s,
          .reasoning_field = script.fields.reasoning_field};
}

}  // namespace

AnswerWriter::AnswerWriter(const MockScript& script, const ClientRequest& request,
                           const RequestPlan& plan, std::int64_t created_s)
    : script_(script),
      request_(request),
      plan_(plan),
      reply_(request.dialect, names_of(script, request, plan.index, created_s)) {
  const bool chat = request.dialect == Dialect::kChat;
  prompt_tokens_ = request.prompt_tokens + (chat ? script.usage.template_tokens : 0);
  cached_tokens_ = cached_prompt_tokens(script, prompt_tokens_);
}

bool AnswerWriter::native() const {
  return request_.dialect == Dialect::kSglang || request_.dialect == Dialect::kLlamacpp;
}

bool AnswerWriter::usage_everywhere() const {
  const UsageWhen when = script_.usage.when;
  if (when == UsageWhen::kEvery) return true;
  if (when != UsageWhen::kRequested) return false;
  return request_.asked.include_usage && request_.asked.continuous_usage;
}

bool AnswerWriter::usage_in_finish() const {
  const UsageWhen when = script_.usage.when;
  if (native()) return when != UsageWhen::kNone;
  return when == UsageWhen::kSame || usage_everywhere();
}

api::Usage AnswerWriter::count() const {
  const bool zeros = script_.usage.when == UsageWhen::kZeros;
  api::Usage usage{.prompt_tokens = zeros ? 0 : prompt_tokens_,
                   .output_tokens = zeros ? 0 : generated_};
  if (script_.usage.cached_share > 0) usage.cached_tokens = zeros ? 0 : cached_tokens_;
  if (plan_.reasoning_tokens > 0) {
    usage.reasoning_tokens = zeros ? 0 : std::min(generated_, plan_.reasoning_tokens);
  }
  return usage;
}

const api::Usage* AnswerWriter::usage_if(bool wanted) {
  if (!wanted) return nullptr;
  so_far_ = count();
  return &so_far_;
}

std::string_view AnswerWriter::reason() const {
  if (!plan_.ended_early) return "length";
  const bool calls = script_.fields.tool_calls && request_.dialect == Dialect::kChat;
  return calls ? "tool_calls" : "stop";
}

api::TextKind AnswerWriter::kind_of(std::int64_t token) const {
  if (token < plan_.reasoning_tokens) return api::TextKind::kReasoning;
  return script_.fields.tool_calls ? api::TextKind::kTool : api::TextKind::kContent;
}

std::string AnswerWriter::text_of(std::int64_t first, std::int64_t tokens) const {
  std::string text;
  for (std::int64_t token = first; token < first + tokens; ++token) {
    text += token_text(script_, plan_.index, token);
  }
  // Longer words, not more of them, so that the count of words stays that of tokens.
  const auto least = static_cast<std::size_t>(script_.text.chunk_bytes);
  if (tokens > 0 && text.size() < least) text.append(least - text.size(), 'x');
  return text;
}

void AnswerWriter::role(std::string& out) {
  reply_.role(out, usage_if(usage_everywhere()));
}

void AnswerWriter::empty(std::string& out) {
  reply_.piece(out, {.usage = usage_if(usage_everywhere())});
}

void AnswerWriter::tokens(std::string& out, const Chunk& chunk) {
  generated_ = chunk.first + chunk.tokens;
  const std::string text = text_of(chunk.first, chunk.tokens);
  const bool ends = chunk.last && script_.stream.finish == FinishForm::kSame;
  api::Piece piece{.kind = kind_of(chunk.first), .text = text};
  piece.usage = usage_if(ends ? usage_in_finish() : usage_everywhere());
  if (ends) piece.finish_reason = reason();
  reply_.piece(out, piece);
}

void AnswerWriter::finish(std::string& out) {
  reply_.finish(out, reason(), usage_if(usage_in_finish()), times_);
}

void AnswerWriter::usage(std::string& out) {
  const UsageWhen when = script_.usage.when;
  const bool wanted = when == UsageWhen::kLast || when == UsageWhen::kZeros ||
                      when == UsageWhen::kEvery ||
                      (when == UsageWhen::kRequested && request_.asked.include_usage);
  if (wanted) reply_.usage(out, count());
}

void AnswerWriter::done(std::string& out) {
  reply_.done(out);
}

void AnswerWriter::late(std::string& out) {
  reply_.piece(out, {.text = " late"});
}

std::string AnswerWriter::body() {
  generated_ = plan_.output_tokens;
  const std::int64_t thought = plan_.reasoning_tokens;
  const std::string reasoning = text_of(0, thought);
  const std::string text = text_of(thought, plan_.output_tokens - thought);
  std::vector<api::Piece> pieces;
  if (thought > 0) pieces.push_back({.kind = api::TextKind::kReasoning, .text = reasoning});
  pieces.push_back({.kind = kind_of(thought), .text = text});
  return reply_.body(pieces, reason(), usage_if(script_.usage.when != UsageWhen::kNone), times_);
}

}  // namespace nibble::mock
