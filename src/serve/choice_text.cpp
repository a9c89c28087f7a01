#include "serve/choice_text.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace nibble::serve {
namespace {

constexpr std::size_t kNotOut = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kReplacementBytes = 3;  // U+FFFD

bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

bool begins_character(char byte) {  // of several bytes
  const auto value = static_cast<unsigned char>(byte);
  return value >= 0xC2U && value <= 0xF4U;
}

}  // namespace

ChoiceText::ChoiceText(text::Tokenizer tokenizer, const Parameters& asked)
    : tokenizer_(std::move(tokenizer)),
      stops_(asked.stop, asked.include_stop),
      skip_special_(asked.skip_special),
      keeps_tokens_(asked.sampling.logprobs.has_value()),
      min_tokens_(asked.min_tokens) {}

bool ChoiceText::feed(const engine::OutputToken& token) {
  ++tokens_fed_;
  const bool left_out = skip_special_ && tokenizer_.is_special(token.id);
  const std::string_view bytes =
      left_out ? std::string_view() : tokenizer_.token_bytes(token.id).value_or("");
  if (keeps_tokens_) {
    Held held{.token = {.token = token, .bytes = std::string(bytes)}, .text_at = decoded_};
    held.token.text_offset = characters_decoded_;
    held_.push_back(std::move(held));
  }
  give(stops_.feed(decode(bytes), may_stop()));
  release();
  return !stops_.stopped();
}

std::string ChoiceText::decode(std::string_view bytes) {
  std::string text;
  if (keeps_tokens_) {
    for (const char byte : bytes) decode_byte(byte, text);
  } else {
    characters_.feed(bytes, text);
    decoded_ += text.size();
  }
  return text;
}

// One byte at a time, so that it is known with which byte of text each of them is out.
void ChoiceText::decode_byte(char byte, std::string& text) {
  std::string fresh;
  characters_.feed(std::string_view(&byte, 1), fresh);
  ends_.push_back(kNotOut);
  ++unfinished_;
  if (fresh.empty()) return;
  const bool completed = continues_character(byte) && fresh.size() == unfinished_;
  if (!completed && unfinished_ > 1) {  // what had begun did not go on
    for (std::size_t back = 1; back < unfinished_; ++back) {
      ends_[ends_.size() - 1 - back] = decoded_ + kReplacementBytes;
    }
    unfinished_ = 1;
  }
  decoded_ += fresh.size();
  characters_decoded_ += std::count_if(fresh.begin(), fresh.end(),
                                       [](char part) { return !continues_character(part); });
  text += fresh;
  if (begins_character(byte)) return;  // itself unfinished
  for (; unfinished_ > 0; --unfinished_) ends_[ends_.size() - unfinished_] = decoded_;
}

void ChoiceText::finish() {
  std::string rest;
  if (!stops_.stopped()) {
    characters_.finish(rest);
    decoded_ += rest.size();
    give(stops_.feed(rest, may_stop()));
  }
  if (keeps_tokens_) {
    for (; unfinished_ > 0; --unfinished_) ends_[ends_.size() - unfinished_] = decoded_;
  }
  give(stops_.finish());
  release_last();
}

void ChoiceText::give(std::string text) {
  given_ += text.size();
  text_ += text;
}

void ChoiceText::release() {
  while (!held_.empty()) {
    const std::size_t bytes = held_.front().token.bytes.size();
    const std::size_t needed = bytes == 0 ? held_.front().text_at : ends_[bytes - 1];
    if (needed > given_) return;
    tokens_.push_back(std::move(held_.front().token));
    held_.pop_front();
    ends_.erase(ends_.begin(), ends_.begin() + static_cast<std::ptrdiff_t>(bytes));
  }
}

// What a stop string cut off is not given.
void ChoiceText::release_last() {
  release();
  if (held_.empty()) return;
  GivenToken& token = held_.front().token;
  const auto size = static_cast<std::ptrdiff_t>(token.bytes.size());
  const auto kept = std::count_if(ends_.begin(), ends_.begin() + size,
                                  [&](std::size_t end) { return end <= given_; });
  token.bytes.resize(static_cast<std::size_t>(kept));
  if (kept > 0) tokens_.push_back(std::move(token));
  held_.clear();
  ends_.clear();
}

std::string ChoiceText::take_text() {
  return std::exchange(text_, {});
}

std::vector<GivenToken> ChoiceText::take_tokens() {
  return std::exchange(tokens_, {});
}

}  // namespace nibble::serve
