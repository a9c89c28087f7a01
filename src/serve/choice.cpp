#include "serve/choice.h"

#include <utility>

namespace nibble::serve {

Choice::Choice(Core& core, const Parameters& asked, std::int64_t index, Nanoseconds arrival)
    : core_(&core), index_(index), arrival_(arrival), text_(core.model.tokenizer, asked) {}

Choice::Choice(Choice&& other) noexcept
    : core_(std::exchange(other.core_, nullptr)),
      index_(other.index_),
      arrival_(other.arrival_),
      text_(std::move(other.text_)),
      ticket_(std::move(other.ticket_)),
      held_(other.held_),
      reason_(other.reason_),
      failure_(std::move(other.failure_)),
      tokens_(other.tokens_),
      cached_tokens_(other.cached_tokens_),
      last_(other.last_) {}

Choice::~Choice() {
  if (core_ == nullptr || !held_ || ended()) return;
  core_->counters.end(Outcome::kCancelled, monotonic_now() - arrival_);
}

void Choice::take(const engine::Update& update) {
  measure(update);
  cached_tokens_ = update.cached_tokens;
  for (const engine::OutputToken& token : update.tokens) {
    ++tokens_;
    if (!text_.feed(token)) break;
  }
  if (text_.stopped()) {
    end(Outcome::kStop);
  } else if (update.finish) {
    end(outcome_of(*update.finish));
  }
}

void Choice::measure(const engine::Update& update) {
  if (update.tokens.empty()) return;
  if (last_ == 0) {
    core_->counters.first_token(update.at - arrival_);
  } else {
    core_->counters.next_tokens(update.tokens.size(), update.at - last_);
  }
  last_ = update.at;
}

void Choice::cut_off(Outcome outcome, Refusal why) {
  failure_ = std::move(why);
  end(outcome);
}

void Choice::end(Outcome outcome) {
  if (outcome == Outcome::kCancelled) {
    failure_ = Refusal{503, "the server stops before the answer has ended", ""};
  } else if (outcome == Outcome::kFailed) {
    failure_ = Refusal{500,
                       "the model gave numbers that are not finite; nothing is to be trusted of "
                       "this answer",
                       ""};
  }
  if (!failure_) reason_ = to_string(outcome);
  text_.finish();
  ticket_ = {};
  core_->counters.end(outcome, monotonic_now() - arrival_);
}

}  // namespace nibble::serve
