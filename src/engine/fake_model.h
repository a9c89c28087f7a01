// A model for tests: its next token depends on every token before it, as read back from the blocks
// that it was given. A wrong block, one that is overwritten, or one that was never computed changes
// the answer. Beside it stands what it must say, from the tokens alone.
//
//   FakeModel model;
//   EXPECT_EQ(answer, answer_alone(request));
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/stats.h"
#include "engine/model.h"
#include "engine/sampler.h"

namespace nibble::engine {

inline constexpr std::int64_t kFakeVocabulary = 50;
inline constexpr TokenId kBadToken = 49;  // logits after it are not finite
inline constexpr TokenId kFakeStop = 7;

inline std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  return Random(Random(a).next() ^ b).next();
}

// What a position's keys and values stand for: all tokens up to it.
inline std::uint64_t fake_keys(std::uint64_t before, TokenId token) {
  return mixed(before, static_cast<std::uint64_t>(token));
}

// Logits from a digest of the keys of all positions. The bad token itself is never chosen.
inline void fake_logits(std::uint64_t digest, TokenId last, std::span<float> logits) {
  Random random(digest);
  for (float& logit : logits) logit = static_cast<float>(random.uniform() * 6);
  logits[kBadToken] = -100;
  if (last == kBadToken) logits[3] = std::numeric_limits<float>::quiet_NaN();
}

struct FakeOptions {
  std::int64_t max_context = 1000;
  std::int64_t kv_bytes_per_token = 8;
  std::function<void(const ForwardBatch&)> before_forward;  // on the engine's thread
};

class FakeModel : public Model {
 public:
  explicit FakeModel(FakeOptions options = {}) : options_(std::move(options)) {
    info_ = {.architecture = "Fake",
             .vocabulary = kFakeVocabulary,
             .max_context = options_.max_context,
             .kv_bytes_per_token = options_.kv_bytes_per_token};
  }
  const ModelInfo& info() const override { return info_; }
  Result<> reserve(const Reservation& reservation) override {
    reserved_ = reservation;
    keys_.assign(static_cast<std::size_t>(reservation.blocks * reservation.block_tokens), 0);
    return {};
  }
  void forward(const ForwardBatch& batch, std::span<float> logits, ThreadPool&,
               StepProbe*) override {
    forward(batch, logits);
  }
  void forward(const ForwardBatch& batch, std::span<float> logits) {
    if (options_.before_forward) options_.before_forward(batch);
    NIBBLE_CHECK(std::ssize(batch.tokens) <= reserved_.most_rows);
    std::int64_t next_row = 0;
    for (const SequenceRows& rows : batch.sequences) {
      NIBBLE_CHECK(rows.first_row == next_row && rows.rows > 0 && rows.logit_rows <= 1);
      next_row += rows.rows;
      const auto tokens = batch.tokens.subspan(static_cast<std::size_t>(rows.first_row),
                                               static_cast<std::size_t>(rows.rows));
      write(rows, tokens);
      if (rows.logit_rows == 0) continue;
      fake_logits(digest(rows), tokens.back(), logits.first(kFakeVocabulary));
      logits = logits.subspan(kFakeVocabulary);
    }
    NIBBLE_CHECK(logits.empty() && next_row == std::ssize(batch.tokens));
  }

 private:
  std::uint64_t& keys(const SequenceRows& rows, std::int64_t position) {
    const auto index = static_cast<std::size_t>(position / reserved_.block_tokens);
    NIBBLE_CHECK(index < rows.blocks.size());
    const std::int32_t block = rows.blocks[index];
    NIBBLE_CHECK(block >= 0 && block < reserved_.blocks);
    const std::int64_t offset = position % reserved_.block_tokens;
    return keys_[static_cast<std::size_t>(block * reserved_.block_tokens + offset)];
  }
  void write(const SequenceRows& rows, std::span<const TokenId> tokens) {
    std::int64_t position = rows.context;
    for (const TokenId token : tokens) {
      const std::uint64_t before = position == 0 ? 0 : keys(rows, position - 1);
      keys(rows, position++) = fake_keys(before, token);
    }
  }
  std::uint64_t digest(const SequenceRows& rows) {
    std::uint64_t digest = 0;
    for (std::int64_t position = 0; position < rows.context + rows.rows; ++position) {
      digest = mixed(digest, keys(rows, position));
    }
    return digest;
  }

  FakeOptions options_;
  ModelInfo info_;
  Reservation reserved_;
  std::vector<std::uint64_t> keys_;
};

struct Answer {
  std::vector<TokenId> tokens;
  std::optional<Finish> finish;
  bool operator==(const Answer&) const = default;
};

// What a request must get, without blocks, batches and other requests.
inline Answer answer_alone(const EngineRequest& request) {
  Answer answer;
  Sampler sampler(kFakeVocabulary);
  std::uint64_t keys = 0;
  std::uint64_t digest = 0;
  auto read = [&](TokenId token) {
    keys = fake_keys(keys, token);
    digest = mixed(digest, keys);
  };
  for (const TokenId token : request.prompt) read(token);
  TokenId last = request.prompt.back();
  while (!answer.finish) {
    std::vector<float> logits(kFakeVocabulary);
    fake_logits(digest, last, logits);
    std::span<const TokenId> forbidden;
    if (std::ssize(answer.tokens) < request.min_tokens) forbidden = request.stop_ids;
    const auto token = sampler.sample({.sampling = request.sampling,
                                       .prompt = request.prompt,
                                       .output = answer.tokens,
                                       .forbidden = forbidden},
                                      logits);
    if (!token) return {answer.tokens, Finish::kFailed};
    last = token->id;
    for (const TokenId stop : request.stop_ids) {
      if (last == stop) return {answer.tokens, Finish::kStop};
    }
    answer.tokens.push_back(last);
    read(last);
    if (std::ssize(answer.tokens) == request.max_tokens) answer.finish = Finish::kLength;
  }
  return answer;
}

// `count` tokens that no other `kind` begins with.
inline std::vector<TokenId> prompt_of(std::int64_t count, TokenId kind = 1) {
  std::vector<TokenId> prompt;
  for (std::int64_t index = 0; index < count; ++index) {
    prompt.push_back(static_cast<TokenId>((kind + index * 3) % (kFakeVocabulary - 1)));
  }
  return prompt;
}

}  // namespace nibble::engine
