#include "text/bpe.h"

#include <chrono>
#include <gtest/gtest.h>

namespace nibble::text {
namespace {

using Ids = std::vector<TokenId>;

Ids encode(const BpeModel& model, std::string_view piece) {
  BpeModel::Workspace workspace;
  Ids ids;
  model.encode(piece, workspace, ids);
  return ids;
}

// a 0, b 1, c 2, ab 3, bc 4, abc 5, aa 6
BpeDescription letters() {
  BpeDescription description;
  description.vocabulary = {{"a", 0},  {"b", 1},   {"c", 2}, {"ab", 3},
                            {"bc", 4}, {"abc", 5}, {"aa", 6}};
  return description;
}

TEST(Bpe, TheBestRankMergesFirstThenTheLeftmost) {
  BpeDescription description = letters();
  description.merges = {{"b", "c"}, {"a", "b"}, {"a", "a"}};
  const BpeModel model = BpeModel::make(description, "test").value();
  EXPECT_EQ(encode(model, "abc"), (Ids{0, 4}));  // b c is better than a b
  EXPECT_EQ(encode(model, "abab"), (Ids{3, 3}));
  EXPECT_EQ(encode(model, "aaaaa"), (Ids{6, 6, 0}));  // from the left
  EXPECT_EQ(encode(model, "aab"), (Ids{0, 3}));
  EXPECT_EQ(encode(model, ""), Ids{});
}

TEST(Bpe, ATokenThatNoMergeMakesIsNotFoundUnlessMergesAreIgnored) {
  BpeDescription description = letters();
  description.merges = {{"b", "c"}, {"a", "b"}};
  EXPECT_EQ(encode(BpeModel::make(description, "test").value(), "abc"), (Ids{0, 4}));
  description.ignore_merges = true;
  EXPECT_EQ(encode(BpeModel::make(description, "test").value(), "abc"), (Ids{5}));
  EXPECT_EQ(encode(BpeModel::make(description, "test").value(), "abcb"), (Ids{0, 4, 1}));
}

// As Hugging Face's tokenizers 0.23: of bytes without a token.
TEST(Bpe, UnknownBytes) {
  BpeDescription description = letters();
  description.merges = {{"a", "b"}};
  EXPECT_EQ(encode(BpeModel::make(description, "test").value(), "axb"), (Ids{3}));
  description.unknown_token = "c";
  EXPECT_EQ(encode(BpeModel::make(description, "test").value(), "axxb"), (Ids{0, 2, 2, 1}));
  description.fuse_unknown = true;
  EXPECT_EQ(encode(BpeModel::make(description, "test").value(), "axxbx"), (Ids{0, 2, 1, 2}));
  description.unknown_token = "nowhere";
  EXPECT_FALSE(BpeModel::make(description, "test").ok());
}

TEST(Bpe, WhatIsNotInTheVocabularyIsRefused) {
  BpeDescription description = letters();
  description.merges = {{"a", "c"}};
  const Result<BpeModel> model = BpeModel::make(description, "here");
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().message,
            "here: model.merges[0] makes \"ac\" of \"a\" and \"c\", which are not all in the "
            "vocabulary");
  description.merges.clear();
  description.byte_fallback = true;
  EXPECT_FALSE(BpeModel::make(description, "here").ok());
}

// Doubling merges over a million bytes: quadratic merging would take 10^12 steps.
TEST(Bpe, ALongPieceTakesNLogNSteps) {
  BpeDescription description;
  std::string token = "a";
  for (TokenId id = 0; id < 12; ++id) {
    description.vocabulary.emplace_back(token, id);
    if (id > 0)
      description.merges.emplace_back(token.substr(token.size() / 2),
                                      token.substr(token.size() / 2));
    token += token;
  }
  const BpeModel model = BpeModel::make(description, "test").value();
  const auto start = std::chrono::steady_clock::now();
  const Ids ids = encode(model, std::string(1 << 20, 'a'));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(ids, Ids(1 << 9, 11));  // tokens of 2^11 bytes
  EXPECT_LT(took.count(), 5);
}

}  // namespace
}  // namespace nibble::text
