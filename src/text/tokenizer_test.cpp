#include "text/tokenizer.h"

#include <chrono>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "base/testing.h"
#include "text/golden_test.h"

namespace nibble::text {
namespace {

using Ids = std::vector<TokenId>;

// a 0, b 1, Ġ 2, ab 3, Ã 4, © 5 (the two bytes of é), then <s> 6 (special) and é 7.
constexpr std::string_view kSmall = R"({
  "version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [{"id": 6, "content": "<s>", "special": true, "normalized": false},
                   {"id": 7, "content": "né", "special": false, "normalized": false}],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "<s>", "type_id": 0}}],
    "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [6], "tokens": ["<s>"]}}},
  "decoder": {"type": "ByteLevel", "add_prefix_space": true},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ã": 4, "©": 5},
            "merges": ["a b"]}})";

Tokenizer small() {
  return parse_tokenizer(kSmall, "small").value();
}

TEST(Tokenizer, EncodesAndDecodes) {
  const Tokenizer tokenizer = small();
  EXPECT_EQ(tokenizer.size(), 8u);
  EXPECT_EQ(tokenizer.encode("ab é<s>").value(), (Ids{6, 3, 2, 4, 5, 6, 6}));
  EXPECT_EQ(tokenizer.encode("ab é<s>", {.add_special = false}).value(), (Ids{3, 2, 4, 5, 6}));
  EXPECT_EQ(tokenizer.encode("").value(), (Ids{6, 6}));
  EXPECT_EQ(tokenizer.encode("", {.add_special = false}).value(), Ids{});
  EXPECT_EQ(tokenizer.decode(Ids{3, 2, 4, 5, 6}), "ab é<s>");
  EXPECT_EQ(tokenizer.decode(Ids{3, 6, 0}, {.skip_special = true}), "aba");
  EXPECT_EQ(tokenizer.decode(Ids{4, 0, 5}), "\uFFFDa\uFFFD");
  EXPECT_EQ(tokenizer.decode(Ids{-1, 8, 2147483647, 0}), "a");  // ids of no token
  // All of an added token's characters are of the byte alphabet: they are bytes, and E9 alone is no
  // character. Hugging Face's decoder does that.
  EXPECT_EQ(tokenizer.decode(Ids{7}), "n\uFFFD");
}

TEST(Tokenizer, TellsOfItsTokens) {
  const Tokenizer tokenizer = small();
  EXPECT_EQ(tokenizer.token_text(2), "Ġ");
  EXPECT_EQ(tokenizer.token_bytes(2), " ");
  EXPECT_EQ(tokenizer.token_bytes(4), "\xC3");
  EXPECT_EQ(tokenizer.token_text(8), std::nullopt);
  EXPECT_EQ(tokenizer.token_bytes(-1), std::nullopt);
  EXPECT_TRUE(tokenizer.is_special(6));
  EXPECT_FALSE(tokenizer.is_special(7));
  EXPECT_FALSE(tokenizer.is_special(99));
}

TEST(Tokenizer, BytesThatAreNoTextCountAsReplacements) {
  const Tokenizer tokenizer = load_tokenizer(golden_path("complete.json")).value();
  const std::string broken = std::string("a\xFF\xE4\xB8") + std::string("b\0", 2);
  EXPECT_EQ(tokenizer.encode(broken).value(),
            tokenizer.encode(std::string("a\uFFFD\uFFFDb\0", 9)).value());
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(broken).value()), std::string("a\uFFFD\uFFFDb\0", 9));
}

TEST(Detokenizer, GivesWholeCharacters) {
  Detokenizer detokenizer(small(), {.skip_special = true});
  EXPECT_EQ(detokenizer.feed(4), "");
  EXPECT_EQ(detokenizer.feed(6), "");  // special: left out, and nothing comes between
  EXPECT_EQ(detokenizer.feed(5), "é");
  EXPECT_EQ(detokenizer.feed(4), "");
  EXPECT_EQ(detokenizer.feed(0), "\uFFFDa");
  EXPECT_EQ(detokenizer.feed(1000), "");
  EXPECT_EQ(detokenizer.feed(4), "");
  EXPECT_EQ(detokenizer.finish(), "\uFFFD");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Tokenizer, IsLoadedFromAFileOrAFolder) {
  const TemporaryFolder folder;
  EXPECT_FALSE(load_tokenizer(folder.path()).ok());
  ASSERT_TRUE(write_file(folder.path() / "tokenizer.json", kSmall).ok());
  EXPECT_TRUE(load_tokenizer(folder.path()).ok());
  EXPECT_TRUE(load_tokenizer(folder.path() / "tokenizer.json").ok());
  EXPECT_FALSE(load_tokenizer(folder.path() / "other.json").ok());
}

// Texts made to be slow, through patterns that look ahead and back off: each must take a time
// linear in its length. Quadratic steps over 60,000 characters would take some 10 s.
TEST(Tokenizer, HostileTextsTakeLinearTime) {
  Json families = Json::parse(read_file(golden_path("families.json"), 1 << 20).value(), "").value();
  const Json vocabulary =
      Json::parse(read_file(golden_path("vocabulary.json"), 1 << 20).value(), "").value();
  for (const char* name : {"qwen3", "glm4", "o200k", "deepseek", "gpt2"}) {
    Json document = *families.find(name)->find("document");
    document.set("added_tokens", Json::array());
    document.set("post_processor", nullptr);
    document.find("model")->set("unk_token", nullptr);
    document.find("model")->set("vocab", *vocabulary.find("vocab"));
    document.find("model")->set("merges", *vocabulary.find("merges"));
    const Tokenizer tokenizer = parse_tokenizer(document.dump(0), name).value();
    for (const char* unit :
         {"a", "A", " ", "\n", " \n", "1", "!", "'", "世", "\u0301", "aA", "\r"}) {
      std::string text;
      for (int repeat = 0; repeat < 60'000; ++repeat) text += unit;
      const auto start = std::chrono::steady_clock::now();
      const Result<Ids> ids = tokenizer.encode(text);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      ASSERT_TRUE(ids.ok()) << name << ": " << ids.error().message;
      EXPECT_EQ(tokenizer.decode(*ids), text);
      EXPECT_LT(took.count(), 2) << name << " on a run of \"" << unit << "\"";
    }
  }
}

}  // namespace
}  // namespace nibble::text
