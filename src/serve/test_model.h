// A model for tests that says what it was told: after <|assistant|> it repeats what stands before,
// and then ends. It keeps its tokens in the blocks of the cache as a real one keeps its keys and
// values, so that a block in wrong hands changes the answer.
//
//   const auto control = std::make_shared<TestControl>();
//   auto engine = engine::Engine::start(std::make_unique<TestModel>(control), {.kv_blocks = 64});
//   control->frozen = true;         // from now on no step ends
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fmt/core.h>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/utf8.h"
#include "engine/model.h"
#include "engine/request.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer.h"

namespace nibble::serve {

// A token for each byte, then those of test_tokenizer().
inline constexpr engine::TokenId kEnd = 257;        // <|end|>, special
inline constexpr engine::TokenId kUser = 258;       // <|user|>, special
inline constexpr engine::TokenId kAssistant = 259;  // <|assistant|>, special
inline constexpr engine::TokenId kBegin = 260;      // <bos>, special: before every text
inline constexpr engine::TokenId kHe = 256;         // he
inline constexpr engine::TokenId kPoison = 261;     // <|poison|>: then the logits are not finite
inline constexpr std::int64_t kVocabulary = 270;    // the last ones are ids without a token

struct TestControl {
  std::atomic<bool> frozen = false;  // no step ends
  std::atomic<int> step_us = 0;      // each takes so long
  std::atomic<std::int64_t> steps = 0;
};

class TestModel final : public engine::Model {
 public:
  explicit TestModel(std::shared_ptr<TestControl> control, std::int64_t context = 1024)
      : control_(std::move(control)) {
    info_ = {.architecture = "TestForCausalLM",
             .vocabulary = kVocabulary,
             .max_context = context,
             .kv_bytes_per_token = 4};
  }

  const engine::ModelInfo& info() const override { return info_; }

  Result<> reserve(const engine::Reservation& reservation) override {
    block_tokens_ = reservation.block_tokens;
    cache_.assign(static_cast<std::size_t>(reservation.blocks * block_tokens_), -1);
    return {};
  }

  void forward(const engine::ForwardBatch& batch, std::span<float> logits, ThreadPool&,
               engine::StepProbe*) override {
    while (control_->frozen) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (const int us = control_->step_us)
      std::this_thread::sleep_for(std::chrono::microseconds(us));
    control_->steps.fetch_add(1);
    std::size_t row = 0;
    for (const engine::SequenceRows& sequence : batch.sequences) {
      for (std::int64_t at = 0; at < sequence.rows; ++at) {
        const auto token = batch.tokens[static_cast<std::size_t>(sequence.first_row + at)];
        cell(sequence, sequence.context + at) = token;
        if (at < sequence.rows - sequence.logit_rows) continue;
        write(sequence, sequence.context + at + 1,
              logits.subspan(row++ * static_cast<std::size_t>(kVocabulary), kVocabulary));
      }
    }
  }

 private:
  engine::TokenId& cell(const engine::SequenceRows& sequence, std::int64_t position) {
    const std::int32_t block = sequence.blocks[static_cast<std::size_t>(position / block_tokens_)];
    return cache_[static_cast<std::size_t>(block * block_tokens_ + position % block_tokens_)];
  }

  void write(const engine::SequenceRows& sequence, std::int64_t length, std::span<float> logits) {
    std::vector<engine::TokenId> tokens;
    for (std::int64_t at = 0; at < length; ++at) tokens.push_back(cell(sequence, at));
    const engine::TokenId next = next_of(tokens);
    for (std::size_t id = 0; id < logits.size(); ++id) {
      logits[id] = -static_cast<float>((id * 7919) % 1009) / 500.0F;
    }
    logits[static_cast<std::size_t>(next)] = 40;  // the others have no chance
    if (tokens.back() == kPoison) logits[3] = std::numeric_limits<float>::quiet_NaN();
  }

  // Without the mark: the letters from a on, for ever.
  static engine::TokenId next_of(const std::vector<engine::TokenId>& tokens) {
    for (std::size_t mark = tokens.size(); mark-- > 0;) {
      if (tokens[mark] != kAssistant) continue;
      const std::size_t begin = tokens[0] == kBegin ? 1 : 0;
      const std::size_t at = begin + tokens.size() - 1 - mark;
      return at < mark ? tokens[at] : kEnd;
    }
    return static_cast<engine::TokenId>('a' + tokens.size() % 26);
  }

  std::shared_ptr<TestControl> control_;
  engine::ModelInfo info_;
  std::int64_t block_tokens_ = 0;
  std::vector<engine::TokenId> cache_;
};

// The value; else the test ends with the sentence.
template <class T>
T must(Result<T> result) {
  if (!result.ok()) fmt::print(stderr, "{}\n", result.error().message);
  return std::move(result).value();
}

inline std::string test_tokenizer_json() {
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    std::string name;
    append_character(name, text::character_of(static_cast<std::uint8_t>(byte)));
    vocabulary.set(name, byte);
  }
  vocabulary.set("he", kHe);
  Json added = Json::array();
  const auto add = [&](engine::TokenId id, const char* content) {
    added.push(Json::object()
                   .set("id", id)
                   .set("content", content)
                   .set("single_word", false)
                   .set("lstrip", false)
                   .set("rstrip", false)
                   .set("normalized", false)
                   .set("special", true));
  };
  add(kEnd, "<|end|>");
  add(kUser, "<|user|>");
  add(kAssistant, "<|assistant|>");
  add(kBegin, "<bos>");
  add(kPoison, "<|poison|>");
  const Json begin = Json::parse(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [],
    "special_tokens": {"<bos>": {"id": "<bos>", "ids": [260], "tokens": ["<bos>"]}}})",
                                 "post_processor")
                         .value();
  const Json bytes =
      Json::parse(R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})",
                  "pre_tokenizer")
          .value();
  Json merges = Json::array();
  merges.push("h e");
  return Json::object()
      .set("version", "1.0")
      .set("added_tokens", std::move(added))
      .set("normalizer", nullptr)
      .set("pre_tokenizer", bytes)
      .set("post_processor", begin)
      .set("decoder", bytes)
      .set("model", Json::object()
                        .set("type", "BPE")
                        .set("vocab", std::move(vocabulary))
                        .set("merges", std::move(merges)))
      .dump(0);
}

inline text::Tokenizer test_tokenizer() {
  return must(text::parse_tokenizer(test_tokenizer_json(), "test tokenizer"));
}

}  // namespace nibble::serve
