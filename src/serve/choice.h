// One of the answers of a request: its place in the engine, its text and its end.
//
//   Choice choice(core, asked, 0, arrival);
//   choice.take(update);
//   if (choice.ended()) ...                    // choice.reason() is "stop" or "length"
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/choice_text.h"
#include "serve/core.h"

namespace nibble::serve {

class Choice {
 public:
  Choice(Core& core, const Parameters& asked, std::int64_t index, Nanoseconds arrival);
  ~Choice();  // what was in the engine and has not ended counts as aborted
  Choice(Choice&&) noexcept;
  Choice& operator=(Choice&&) = delete;

  // Its place in the engine; given up as soon as the answer has ended.
  void hold(engine::Ticket ticket) {
    ticket_ = std::move(ticket);
    held_ = true;
  }
  // Of a choice that has not ended.
  void take(const engine::Update& update);
  // Ends it for a reason that is not the engine's.
  void cut_off(Outcome outcome, Refusal why);

  bool ended() const { return !reason_.empty() || failure_; }
  std::string_view reason() const { return reason_; }                 // empty until the end
  const std::optional<Refusal>& failure() const { return failure_; }  // instead of a reason
  std::int64_t index() const { return index_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t cached_tokens() const { return cached_tokens_; }
  ChoiceText& text() { return text_; }

 private:
  void measure(const engine::Update& update);
  void end(Outcome outcome);

  Core* core_;  // null: moved from
  std::int64_t index_;
  Nanoseconds arrival_;
  ChoiceText text_;
  engine::Ticket ticket_;
  bool held_ = false;
  std::string_view reason_;
  std::optional<Refusal> failure_;
  std::int64_t tokens_ = 0;
  std::int64_t cached_tokens_ = 0;
  Nanoseconds last_ = 0;  // when the tokens before came
};

}  // namespace nibble::serve
