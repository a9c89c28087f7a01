// What the tests of models share: the golden checkpoints, and one sequence run through a model.
//
//   const Golden golden = read_golden("untied");
//   Runner runner(golden_folder("untied"), {.kv_format = Format::kBf16}, 2);
//   const std::vector<float> logits = runner.run(golden.prompt, 16);   // [prompt, vocabulary]
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "engine/models/load.h"

namespace nibble::engine {

std::filesystem::path golden_folder(const std::string& name);

// What transformers says: tests/golden/qwen3_moe, tools/oracle/qwen3_moe.py.
struct Golden {
  std::vector<text::TokenId> prompt, greedy;
  std::vector<float> prompt_logits, greedy_logits;  // [tokens, vocabulary]
};

Golden read_golden(const std::string& name);

// A model with one sequence, whose blocks lie apart and backwards.
class Runner {
 public:
  static constexpr std::int64_t kMostRows = 64;

  Runner(const std::filesystem::path& folder, const ModelOptions& options, int threads,
         std::int64_t block_tokens = 16)
      : pool_(threads), block_tokens_(block_tokens) {
    Result<std::unique_ptr<Model>> loaded = load_checkpoint_model(folder, options, pool_);
    EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().message);
    NIBBLE_CHECK(loaded.ok());
    model_ = std::move(*loaded);
    constexpr std::int64_t kPositions = 128;
    const std::int64_t needed = (kPositions + block_tokens - 1) / block_tokens;
    const Result<> reserved = model_->reserve({.blocks = 2 * needed,
                                               .block_tokens = block_tokens,
                                               .most_rows = kMostRows,
                                               .most_logits = kMostRows});
    EXPECT_TRUE(reserved.ok()) << (reserved.ok() ? "" : reserved.error().message);
    for (std::int64_t block = needed; block-- > 0;) {
      blocks_.push_back(static_cast<std::int32_t>(2 * block));
    }
  }

  Model& model() { return *model_; }
  ThreadPool& pool() { return pool_; }
  std::span<const std::int32_t> blocks() const { return blocks_; }

  // Logits of all tokens, which go through the model `step` at a time after what ran before.
  std::vector<float> run(std::span<const text::TokenId> tokens, std::int64_t step) {
    const std::int64_t vocabulary = model_->info().vocabulary;
    const auto count = static_cast<std::int64_t>(tokens.size());
    std::vector<float> logits(static_cast<std::size_t>(count * vocabulary), -1e30F);
    for (std::int64_t at = 0; at < count; at += step) {
      const std::int64_t rows = std::min(step, count - at);
      const SequenceRows sequence{
          .rows = rows, .context = context_, .blocks = blocks_, .logit_rows = rows};
      model_->forward(
          {.tokens = tokens.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(rows)),
           .sequences = {&sequence, 1}},
          std::span(logits).subspan(static_cast<std::size_t>(at * vocabulary),
                                    static_cast<std::size_t>(rows * vocabulary)),
          pool_);
      context_ += rows;
    }
    return logits;
  }

 private:
  ThreadPool pool_;
  std::unique_ptr<Model> model_;
  std::int64_t block_tokens_;
  std::vector<std::int32_t> blocks_;
  std::int64_t context_ = 0;
};

}  // namespace nibble::engine
