#include "drive/row_finisher.h"

#include <chrono>
#include <utility>

#include "api/degenerate.h"

namespace nibble::drive {
namespace {

using Clock = std::chrono::steady_clock;

// A program that is killed loses no more rows than those of this time.
constexpr auto kFlushEvery = std::chrono::seconds(1);
// Answers shorter than this may well be one word a few times.
constexpr std::int64_t kLeastTokensToRepeat = 16;

}  // namespace

RowFinisher::RowFinisher(load::RowWriter& writer, std::optional<text::Tokenizer> tokenizer)
    : writer_(writer), tokenizer_(std::move(tokenizer)), thread_([this] { work(); }) {}

RowFinisher::~RowFinisher() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  pushed_.notify_one();
  thread_.join();
}

void RowFinisher::push(load::RequestRecord record, std::string text) {
  const std::lock_guard lock(mutex_);
  queue_.push_back({std::move(record), std::move(text)});
  pushed_.notify_one();
}

void RowFinisher::drain() {
  {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return queue_.empty() && !busy_; });
  }
  note(writer_.flush());
}

std::int64_t RowFinisher::written() const {
  const std::lock_guard lock(mutex_);
  return written_;
}

std::optional<Error> RowFinisher::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

void RowFinisher::work() {
  auto flush_at = Clock::now() + kFlushEvery;
  std::unique_lock lock(mutex_);
  while (true) {
    pushed_.wait_until(lock, flush_at, [&] { return !queue_.empty() || ending_; });
    if (queue_.empty() && ending_) break;
    std::optional<Entry> entry;
    if (!queue_.empty()) {
      entry = std::move(queue_.front());
      queue_.pop_front();
    }
    busy_ = true;
    lock.unlock();
    if (entry) write(std::move(*entry));
    if (Clock::now() >= flush_at) {
      note(writer_.flush());
      flush_at = Clock::now() + kFlushEvery;
    }
    lock.lock();
    busy_ = false;
    if (queue_.empty()) idle_.notify_all();
  }
}

void RowFinisher::note(const Result<>& done) {
  const std::lock_guard lock(mutex_);
  if (!done.ok() && !fault_) fault_ = done.error();
}

void RowFinisher::finish(Entry& entry) const {
  load::RequestRecord& record = entry.record;
  if (tokenizer_ && !entry.text.empty()) {
    const auto ids = tokenizer_->encode(entry.text, {.add_special = false});
    if (ids.ok()) record.counted_tokens = static_cast<std::int64_t>(ids->size());
    const bool from_server = record.output_tokens.value_or(0) > 0;
    if (ids.ok() && !from_server) record.token_source = load::TokenSource::kTokenizer;
  }
  const std::int64_t tokens =
      record.output_tokens.value_or(static_cast<std::int64_t>(record.events.size()));
  record.degenerate = tokens >= kLeastTokensToRepeat && api::find_repetition(entry.text);
}

void RowFinisher::write(Entry entry) {
  finish(entry);
  const Result<> done = writer_.write(entry.record);
  note(done);
  if (!done.ok()) return;
  const std::lock_guard lock(mutex_);
  ++written_;
}

}  // namespace nibble::drive
