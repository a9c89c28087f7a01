#include "api/json_scan.h"

#include <gtest/gtest.h>

#include "api/json_write.h"
#include "base/json.h"

namespace nibble::api {
namespace {

using Kind = JsonScanner::Kind;

// The tree of a text, built from the scanner alone.
Json tree(JsonScanner& scan) {
  std::string text;
  switch (scan.peek()) {
    case Kind::kObject: {
      Json object = Json::object();
      for (scan.open_object(); scan.next_member();) {
        const std::string key(scan.key());
        object.set(key, tree(scan));
      }
      return object;
    }
    case Kind::kArray: {
      Json array = Json::array();
      for (scan.open_array(); scan.next_item();) array.push(tree(scan));
      return array;
    }
    case Kind::kString:
      scan.read_string(text);
      return text;
    case Kind::kNumber: {
      const std::string raw(scan.read_raw());
      JsonScanner number(raw);
      if (raw.find_first_of(".eE") == std::string::npos) {
        if (const auto integer = number.read_integer()) return *integer;
        number = JsonScanner(raw);
      }
      return number.read_number();
    }
    case Kind::kBoolean:
      return scan.read_boolean().value_or(false);
    case Kind::kNull:
    case Kind::kNone:
      scan.skip();
  }
  return nullptr;
}

bool accepts(std::string_view text) {
  JsonScanner scan(text);
  scan.skip();
  return scan.finish();
}

constexpr const char* kValid[] = {
    "null",
    " true ",
    "false",
    "0",
    "-0",
    "7",
    "-12.5e-3",
    "1E+2",
    "\"\"",
    "\"a\\n\\u00e9\\ud83d\\ude00\"",
    "[]",
    "{}",
    "[1,[2,[]],{}]",
    "{\"a\":{\"b\":[null]},\"c\":\"d\"}",
    "\t[\n1 , 2\r]",
    "{\"\":1,\"\\u0061b\":2}",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "1e308",
    "[\"\xF0\x9F\x98\x80\",\"0123456789abcdef\xC3\xA9xyz\"]",
};
constexpr const char* kInvalid[] = {
    "",
    " ",
    "nul",
    "tru",
    "True",
    "01",
    "-",
    "1.",
    ".5",
    "1e",
    "1e+",
    "+1",
    "NaN",
    "Infinity",
    "\"",
    "\"\\",
    "\"\\x\"",
    "\"\\u12g4\"",
    "\"\\u123\"",
    "\"a\nb\"",
    "[",
    "]",
    "[1",
    "[1,",
    "[1,]",
    "[,1]",
    "[1 2]",
    "{",
    "{\"a\"",
    "{\"a\":",
    "{\"a\":1",
    "{\"a\":1,",
    "{\"a\":1,}",
    "{a:1}",
    "{\"a\" 1}",
    "{\"a\":1 \"b\":2}",
    "{1:2}",
    "[}",
    "{]",
    "1 2",
    "[] []",
    "{} x",
    "'a'",
    "[1}",
    "{\"a\":[}]",
    "\x01",
    "[1]\x01",
    "nullx",
    "\"\\u+123\"",
    "\"\\u 123\"",
    "--1",
    "0x10",
};

TEST(JsonScanner, TakesWhatTheTreeParserTakesAndSaysTheSame) {
  for (const char* text : kValid) {
    const Result<Json> expected = Json::parse(text, "test");
    ASSERT_TRUE(expected.ok()) << text << expected.error().message;
    JsonScanner scan(text);
    const Json seen = tree(scan);
    EXPECT_TRUE(scan.finish()) << text << scan.fault();
    EXPECT_EQ(seen, *expected) << text << " " << seen.dump();
    EXPECT_TRUE(accepts(text)) << text;
    EXPECT_FALSE(scan.repaired());
  }
}

TEST(JsonScanner, RefusesWhatIsNoJson) {
  for (const char* text : kInvalid) {
    ASSERT_FALSE(Json::parse(text, "test").ok()) << text;
    EXPECT_FALSE(accepts(text)) << text;
    JsonScanner scan(text);
    tree(scan);
    EXPECT_FALSE(scan.finish()) << text;
    EXPECT_FALSE(scan.fault().empty());
  }
  EXPECT_FALSE(accepts(std::string_view("1\0", 2)));
  EXPECT_FALSE(accepts(std::string_view("\"a\0b\"", 5)));
}

TEST(JsonScanner, RepairsBrokenText) {
  const std::pair<const char*, const char*> cases[] = {
      {"\"a\xFFz\"", "a\xEF\xBF\xBDz"},
      {"\"\xC3\"", "\xEF\xBF\xBD"},
      {"\"\xC0\xAF\"", "\xEF\xBF\xBD\xEF\xBF\xBD"},                  // overlong
      {"\"\xED\xA0\x80\"", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},  // a surrogate
      {"\"\\ud83d\"", "\xEF\xBF\xBD"},
      {"\"\\ude00x\"", "\xEF\xBF\xBDx"},
      {"\"\\ud83d\\ud83d\\ude00\"", "\xEF\xBF\xBD\xF0\x9F\x98\x80"},
      {"\"\\ud83d\\n\"", "\xEF\xBF\xBD\n"},
  };
  for (const auto& [text, expected] : cases) {
    JsonScanner scan(text);
    std::string read;
    EXPECT_TRUE(scan.read_string(read));
    EXPECT_TRUE(scan.finish());
    EXPECT_EQ(read, expected);
    EXPECT_TRUE(scan.repaired());
  }
}

TEST(JsonScanner, Utf8ByTheStandardsTable) {
  EXPECT_EQ(utf8_length(""), 0u);
  EXPECT_EQ(utf8_length("a"), 1u);
  EXPECT_EQ(utf8_length("\xC2\x80"), 2u);
  EXPECT_EQ(utf8_length("\xC1\xBF"), 0u);
  EXPECT_EQ(utf8_length("\xE0\xA0\x80"), 3u);
  EXPECT_EQ(utf8_length("\xE0\x9F\xBF"), 0u);
  EXPECT_EQ(utf8_length("\xED\x9F\xBF"), 3u);
  EXPECT_EQ(utf8_length("\xED\xA0\x80"), 0u);
  EXPECT_EQ(utf8_length("\xF0\x90\x80\x80"), 4u);
  EXPECT_EQ(utf8_length("\xF0\x8F\xBF\xBF"), 0u);
  EXPECT_EQ(utf8_length("\xF4\x8F\xBF\xBF"), 4u);
  EXPECT_EQ(utf8_length("\xF4\x90\x80\x80"), 0u);
  EXPECT_EQ(utf8_length("\x80"), 0u);
  EXPECT_EQ(utf8_length("\xE2\x82"), 0u);
}

TEST(JsonScanner, IntegersAndNumbers) {
  const auto integer = [](std::string_view text) {
    JsonScanner scan(text);
    const auto value = scan.read_integer();
    EXPECT_TRUE(scan.finish()) << text;
    return value;
  };
  EXPECT_EQ(integer("8"), 8);
  EXPECT_EQ(integer("8.0"), 8);
  EXPECT_EQ(integer("8e2"), 800);
  EXPECT_EQ(integer("-3"), -3);
  for (const char* text :
       {"8.5", "1e300", "1e999", "9223372036854775808", "\"8\"", "null", "[1,2]"}) {
    EXPECT_EQ(integer(text), std::nullopt) << text;
  }
  JsonScanner huge("1e999");
  EXPECT_EQ(huge.read_number(), std::nullopt);
  EXPECT_TRUE(huge.finish());
}

TEST(JsonScanner, AWrongKindIsSkipped) {
  JsonScanner scan(R"({"a":{"deep":[1]},"b":"text"})");
  std::string text = "kept";
  ASSERT_TRUE(scan.open_object());
  ASSERT_TRUE(scan.next_member());
  EXPECT_FALSE(scan.read_string(text));
  EXPECT_EQ(text, "kept");
  ASSERT_TRUE(scan.next_member());
  EXPECT_EQ(scan.key(), "b");
  EXPECT_EQ(scan.read_integer(), std::nullopt);
  EXPECT_FALSE(scan.next_member());
  EXPECT_TRUE(scan.finish());
  JsonScanner array("[1]");
  EXPECT_FALSE(array.open_object());
  EXPECT_TRUE(array.failed());
  EXPECT_EQ(array.fault(), "byte 1: no object begins here");
}

TEST(JsonScanner, DepthIsBounded) {
  EXPECT_TRUE(accepts(std::string(100, '[') + std::string(100, ']')));
  EXPECT_FALSE(accepts(std::string(101, '[') + std::string(101, ']')));
  EXPECT_FALSE(accepts(std::string(1 << 20, '[')));
}

TEST(JsonScanner, RawText) {
  JsonScanner scan(R"( {"a": [1, {"b":2}] , "c":3})");
  ASSERT_TRUE(scan.open_object() && scan.next_member());
  EXPECT_EQ(scan.read_raw(), R"([1, {"b":2}])");
  ASSERT_TRUE(scan.next_member());
  EXPECT_EQ(scan.read_raw(), "3");
}

// Specials at every place of the eight bytes that are looked at together.
TEST(JsonScanner, SpecialBytesAtEveryPlace) {
  for (const std::string_view special : {"\\\"", "\\\\", "\\n", "\xC3\xA9", "\\u0041"}) {
    for (std::size_t place = 0; place < 20; ++place) {
      std::string text(20, 'p');
      text.insert(place, special);
      const std::string quoted = "\"" + text + "\"";
      JsonScanner scan(quoted);
      std::string read;
      EXPECT_TRUE(scan.read_string(read) && scan.finish());
      EXPECT_EQ(read, Json::parse(quoted, "test")->as_string());
    }
  }
}

TEST(JsonWrite, EveryByteReadsBack) {
  std::string all;
  for (int byte = 0; byte < 128; ++byte) all += static_cast<char>(byte);
  all += "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80";
  std::string out;
  append_json_string(out, all);
  // NUL is refused by the tree parser as a raw byte only; escaped it is text like any other.
  EXPECT_EQ(Json::parse(out, "test")->as_string(), all);
  std::string broken;
  append_json_string(broken, "a\xFF\xC3");
  EXPECT_EQ(broken, "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"");
  std::string integers;
  append_json_integers(integers, std::vector<std::int32_t>{1, -2, 2147483647});
  EXPECT_EQ(integers, "[1,-2,2147483647]");
}

}  // namespace
}  // namespace nibble::api
