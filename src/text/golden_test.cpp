#include "text/golden_test.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <optional>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "text/tokenizer.h"

namespace nibble::text {
namespace {

Json golden_json(std::string_view name) {
  const std::string text = read_file(golden_path(name), std::size_t{1} << 20).value();
  return Json::parse(text, name).value();
}

bool has_any(const std::string& token, const std::vector<std::string>& characters) {
  return std::any_of(characters.begin(), characters.end(), [&](const std::string& character) {
    return token.find(character) != std::string::npos;
  });
}

std::vector<std::string> characters_of(std::string_view text) {
  std::vector<std::string> characters;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    static_cast<void>(next_character(text, at));
    characters.emplace_back(text.substr(start, at - start));
  }
  return characters;
}

// The tokenizer.json of a family: its rules and the common vocabulary, as finish() of
// tools/oracle/tokenizer_families.py puts them together.
std::string compose(const Json& family, const Json& vocabulary) {
  const std::vector<std::string> without = characters_of(family.find("without")->as_string());
  Json vocab = Json::object();
  for (const auto& [token, id] : vocabulary.find("vocab")->as_object()) {
    if (!has_any(token, without)) vocab.as_object().emplace_back(token, id);
  }
  Json merges = Json::array();
  for (const Json& pair : vocabulary.find("merges")->as_array()) {
    const std::string& left = pair.as_array()[0].as_string();
    const std::string& right = pair.as_array()[1].as_string();
    if (has_any(left + right, without)) continue;
    merges.push(family.find("merges")->as_string() == "pairs" ? pair : Json(left + " " + right));
  }
  Json document = *family.find("document");
  Json& model = *document.find("model");
  const Json& unknown = *model.find("unk_token");
  for (const Json& added : document.find("added_tokens")->as_array()) {
    const bool is_unknown =
        unknown.is_string() && added.find("content")->as_string() == unknown.as_string();
    if (is_unknown) vocab.set(unknown.as_string(), *added.find("id"));
  }
  model.set("vocab", std::move(vocab));
  model.set("merges", std::move(merges));
  return document.dump(0);
}

// As summary() of tools/oracle/tokenizers_golden.py.
std::string summary(const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
  if (ids.size() <= 12) return text;
  return fmt::format("#{} {:016x}", ids.size(), fnv(text));
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Detokenizer detokenizer(tokenizer);
  std::string out;
  for (const TokenId id : ids) {
    const std::string part = detokenizer.feed(id);
    EXPECT_TRUE(is_valid_utf8(part));
    out += part;
  }
  return out + detokenizer.finish();
}

void expect_line(const Tokenizer& tokenizer, const std::string& text, const std::string& line,
                 const std::string& where) {
  std::vector<std::string> fields = split(line, '\t');
  fields.resize(4);
  const auto unquoted = [&](const std::string& field, const std::string& otherwise) {
    return field.empty() ? otherwise : Json::parse(field, where).value().as_string();
  };
  const std::vector<TokenId> ids = tokenizer.encode(text, {.add_special = false}).value();
  EXPECT_EQ(summary(ids), fields[0]) << where;
  EXPECT_EQ(summary(tokenizer.encode(text).value()), fields[1].empty() ? fields[0] : fields[1])
      << where;
  const std::string decoded = unquoted(fields[2], text);
  EXPECT_EQ(tokenizer.decode(ids), decoded) << where;
  EXPECT_EQ(streamed(tokenizer, ids), decoded) << where;
  EXPECT_EQ(tokenizer.decode(ids, {.skip_special = true}), unquoted(fields[3], decoded)) << where;
}

// Each family encodes and decodes every text as Hugging Face's tokenizers does.
TEST(Golden, EveryFamilyIsExact) {
  const Json families = golden_json("families.json");
  const Json vocabulary = golden_json("vocabulary.json");
  const Json texts = golden_json("texts.json");
  ASSERT_GT(texts.as_array().size(), 300u);
  ASSERT_EQ(families.as_object().size(), 18u);
  for (const auto& [name, family] : families.as_object()) {
    const Result<Tokenizer> tokenizer = parse_tokenizer(compose(family, vocabulary), name);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    const std::string expected = read_file(golden_path(name + ".txt"), 1 << 20).value();
    const std::vector<std::string> lines = split(expected, '\n');
    ASSERT_EQ(lines.size(), texts.as_array().size() + 1);  // the last line ends
    for (std::size_t index = 0; index < texts.as_array().size(); ++index) {
      const std::string& text = texts.as_array()[index].as_string();
      expect_line(*tokenizer, text, lines[index], fmt::format("{}, text {}", name, index));
    }
  }
}

TEST(Golden, AFileThatThePackageSavedIsRead) {
  const Result<Tokenizer> tokenizer = load_tokenizer(golden_path("complete.json"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->size(), 301u);
  EXPECT_EQ(tokenizer->token_text(0), "<|end|>");
  EXPECT_TRUE(tokenizer->is_special(0));
  EXPECT_EQ(tokenizer->token_text(300), "<tool>");
  EXPECT_FALSE(tokenizer->is_special(300));
  const std::vector<TokenId> ids = tokenizer->encode("<|end|><tool>").value();
  EXPECT_EQ(ids, (std::vector<TokenId>{0, 300}));
}

}  // namespace
}  // namespace nibble::text
