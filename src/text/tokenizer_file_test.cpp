#include "text/tokenizer_file.h"

#include <gtest/gtest.h>

#include "text/tokenizer.h"

namespace nibble::text {
namespace {

// A small file that is read, with the field at `path` set to `value` (empty: left as it is).
std::string file_with(std::string_view path, std::string_view value) {
  Json document = Json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "post_processor": null, "decoder": {"type": "ByteLevel", "add_prefix_space": false},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})",
                              "test")
                      .value();
  const std::size_t dot = path.find('.');
  Json& target = dot == std::string_view::npos ? document : *document.find(path.substr(0, dot));
  const std::string_view field = dot == std::string_view::npos ? path : path.substr(dot + 1);
  if (!value.empty()) target.set(field, Json::parse(value, "value").value());
  return document.dump(0);
}

struct Case {
  const char* field;
  const char* value;
  const char* says;  // what the sentence must hold
};

TEST(TokenizerFile, WhatIsNotSupportedIsRefusedByName) {
  const Case cases[] = {
      {"version", R"("2.0")", "\"version\" is not \"1.0\""},
      {"surprise", "1", "surprise"},
      {"truncation", R"({"max_length": 5})", "\"truncation\" is set"},
      {"padding", R"({"strategy": {"Fixed": 8}})", "padding"},
      {"padding", "true", "padding"},
      {"normalizer", R"({"type": "NFKC"})", "normalizer is \"NFKC\""},
      {"normalizer", R"({"type": "Sequence", "normalizers": [{"type": "Lowercase"}]})",
       "normalizer.normalizers[0] is \"Lowercase\""},
      {"normalizer", "7", "normalizer is a number"},
      {"pre_tokenizer", "null", "\"pre_tokenizer\" is missing"},
      {"pre_tokenizer", R"({"type": "Metaspace"})", "pre_tokenizer is \"Metaspace\""},
      {"pre_tokenizer", R"({"type": "ByteLevel"})", "\"add_prefix_space\" is missing"},
      {"pre_tokenizer", R"({"type": "Digits", "individual_digits": true})", "no ByteLevel"},
      {"pre_tokenizer",
       R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel", "add_prefix_space": true},
          {"type": "Digits"}]})",
       "pretokenizers[1] comes behind ByteLevel"},
      {"pre_tokenizer", R"({"type": "Split", "pattern": {"Regex": "^a"}, "behavior": "Isolated"})",
       "an anchor"},
      {"pre_tokenizer", R"({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Mangled"})",
       "Mangled"},
      {"pre_tokenizer", R"({"type": "Split", "pattern": {"String": ""}, "behavior": "Removed"})",
       "pattern"},
      {"pre_tokenizer", R"({"type": "Split", "pattern": "a", "behavior": "Removed"})", "pattern"},
      {"post_processor", R"({"type": "BertProcessing"})", "post_processor is \"BertProcessing\""},
      {"post_processor",
       R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}],
          "special_tokens": {}})",
       "names \"x\""},
      {"post_processor", R"({"type": "TemplateProcessing", "single": [], "special_tokens": {}})",
       "the sequence A once"},
      {"post_processor",
       R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}},
          {"Sequence": {"id": "A"}}], "special_tokens": {"x": {"id": "x", "ids": [9]}}})",
       "id 9"},
      {"post_processor",
       R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}},
          {"Sequence": {"id": "A"}}], "special_tokens": {"x": {"id": "x", "ids": [0, 1.5]}}})",
       "holds 1.5"},
      {"decoder", "null", "decoder is missing"},
      {"decoder", R"({"type": "WordPiece"})", "decoder is \"WordPiece\""},
      {"model", "null", "\"model\" is missing"},
      {"model.type", R"("Unigram")", "model.type is \"Unigram\""},
      {"model.dropout", "0.1", "\"dropout\""},
      {"model.continuing_subword_prefix", R"("##")", "\"continuing_subword_prefix\""},
      {"model.end_of_word_suffix", R"("</w>")", "\"end_of_word_suffix\""},
      {"model.byte_fallback", "true", "byte_fallback"},
      {"model.unk_token", R"("zz")", "unk_token"},
      {"model.vocab", R"({"a": -1})", "token \"a\" has id -1"},
      {"model.vocab", R"({"a": 5000000})", "token \"a\" has id 5000000"},
      {"model.vocab", R"({"a": 1.5})", "token \"a\" has a number"},
      {"model.vocab", R"({"a": 0, "b": 0})", "token \"b\" has id 0, which another token has"},
      {"model.vocab", "[]", "\"vocab\""},
      {"model.merges", R"(["a c"])", "merges[0]"},
      {"model.merges", R"(["a b", ["a", "b"]])", "merges[1]"},
      {"model.merges", R"([["a", "b"], "a b"])", "merges[1]"},
      {"model.merges", R"(["a  b"])", "merges[0]"},
      {"model.merges", R"(["ab"])", "merges[0]"},
      {"model.merges", R"([["a", "b", "c"]])", "merges[0]"},
      {"model.surprise", "1", "surprise"},
      {"added_tokens", R"([{"id": 9, "content": "<x>"}])", "gives it 3"},
      {"added_tokens", R"([{"id": 3, "content": ""}])", "0 bytes"},
      {"added_tokens", R"([{"id": 3, "content": "x"}, {"id": 3, "content": "x"}])", "added twice"},
      {"added_tokens", R"([{"id": -1, "content": "x"}])", "\"id\""},
      {"added_tokens", R"([{"id": 3}])", "\"content\""},
      {"added_tokens", R"([{"id": 3, "content": "x", "colour": 1}])", "colour"},
      {"added_tokens", R"(["x"])", "added_tokens[0]"},
  };
  for (const Case& wrong : cases) {
    const Result<Tokenizer> tokenizer = parse_tokenizer(file_with(wrong.field, wrong.value), "t");
    ASSERT_FALSE(tokenizer.ok()) << wrong.field << " = " << wrong.value;
    EXPECT_EQ(tokenizer.error().kind, ErrorKind::kInput);
    EXPECT_NE(tokenizer.error().message.find(wrong.says), std::string::npos)
        << tokenizer.error().message << "\ndoes not say " << wrong.says;
    EXPECT_EQ(tokenizer.error().message.substr(0, 2), "t:") << tokenizer.error().message;
  }
}

TEST(TokenizerFile, WhatChangesNothingIsTaken) {
  const Case cases[] = {
      {"version", "", ""},
      {"padding", R"({"strategy": "BatchLongest", "pad_to_multiple_of": null, "pad_id": 0})", ""},
      {"normalizer", R"({"type": "Sequence", "normalizers": []})", ""},
      {"model.dropout", "0.0", ""},
      {"model.continuing_subword_prefix", R"("")", ""},
      {"model.merges", R"(["#version: 0.2", "a b"])", ""},
      {"model.merges", R"([["a", "b"]])", ""},
      {"model.merges", "[]", ""},
      {"model.vocab", R"({"a": 0, "b": 7, "ab": 1000000})", ""},
      {"added_tokens", "null", ""},
      {"added_tokens", R"([{"id": 2, "content": "ab"}, {"id": 3, "content": "c"}])", ""},
  };
  for (const Case& right : cases) {
    const Result<Tokenizer> tokenizer = parse_tokenizer(file_with(right.field, right.value), "t");
    EXPECT_TRUE(tokenizer.ok()) << right.field << ": " << tokenizer.error().message;
  }
}

TEST(TokenizerFile, WhatIsNoFileIsRefused) {
  for (const char* text : {"", "{}", "[]", "null", "{\"model\": {}}", "{"}) {
    EXPECT_FALSE(parse_tokenizer(text, "t").ok()) << text;
  }
}

}  // namespace
}  // namespace nibble::text
