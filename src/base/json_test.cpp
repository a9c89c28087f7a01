#include "base/json.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <gtest/gtest.h>

#include "base/stats.h"
#include "base/test_json.h"

namespace nibble {
namespace {

std::string fault_of(std::string_view text) {
  const Result<Json> parsed = Json::parse(text, "x.json");
  if (parsed.ok()) return "";
  EXPECT_EQ(parsed.error().kind, ErrorKind::kInput);
  return parsed.error().message;
}

TEST(JsonParse, EveryKindOfValue) {
  const Json json =
      parsed(R"( {"a": [1, -2.5, true, false, null, "x\u00e9\n"], "b": {}, "": []} )");
  ASSERT_TRUE(json.is_object());
  const Json::Array& items = json.find("a")->as_array();
  ASSERT_EQ(items.size(), 6U);
  EXPECT_EQ(items[0].as_integer(), 1);
  EXPECT_EQ(items[1].as_number(), -2.5);
  EXPECT_TRUE(items[2].as_bool());
  EXPECT_FALSE(items[3].as_bool());
  EXPECT_TRUE(items[4].is_null());
  EXPECT_EQ(items[5].as_string(), "x\xC3\xA9\n");
  EXPECT_TRUE(json.find("b")->is_object());
  EXPECT_TRUE(json.find("")->is_array());
  EXPECT_EQ(json.find("c"), nullptr);
}

TEST(JsonParse, KeepsTheOrderOfMembers) {
  EXPECT_EQ(parsed(R"({"z":1,"a":2,"m":3})").dump(0), R"({"z":1,"a":2,"m":3})");
}

TEST(JsonParse, RefusesDuplicateKeysWhereTheyStand) {
  EXPECT_EQ(fault_of("{\"a\": 1,\n \"b\": 2,\n \"a\": 3}"),
            "x.json: line 3, column 4: not valid JSON: field \"a\" appears twice");
  EXPECT_EQ(fault_of(R"({"a":{"a":1},"b":[{"a":1},{"a":1}]})"), "");  // other objects may have it
}

std::string object_with(int members, const std::string& last) {
  std::string text = "{";
  for (int index = 0; index < members; ++index) text += "\"k" + std::to_string(index) + "\":0,";
  return text + "\"" + last + "\":0}";
}

TEST(JsonParse, RefusesDuplicateKeysInLargeObjects) {
  for (const int members : {14, 15, 16, 17, 18, 40}) {
    EXPECT_EQ(fault_of(object_with(members, "other")), "") << members;
    for (const int repeated : {0, members / 2, members - 1}) {
      EXPECT_NE(
          fault_of(object_with(members, "k" + std::to_string(repeated))).find("appears twice"),
          std::string::npos)
          << members << " " << repeated;
    }
  }
}

TEST(JsonParse, LargeObjectsDoNotTakeQuadraticTime) {
  // Four times the members take about four times as long (with the logarithm of a set 4.5); a
  // search of all members for each key would take 16 times as long. The best of three leaves out
  // noise.
  const auto best_of_three = [](int members) {
    const std::string text = object_with(members, "last");
    auto best = std::chrono::steady_clock::duration::max();
    for (int trial = 0; trial < 3; ++trial) {
      const auto start = std::chrono::steady_clock::now();
      EXPECT_EQ(fault_of(text), "");
      best = std::min(best, std::chrono::steady_clock::now() - start);
    }
    return best;
  };
  EXPECT_LT(best_of_three(40000), 10 * best_of_three(10000));
}

TEST(JsonParse, LimitsDepth) {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') +
           std::string(static_cast<std::size_t>(depth), ']');
  };
  EXPECT_EQ(fault_of(nested(100)), "");
  EXPECT_EQ(fault_of(nested(101)),
            "x.json: line 1, column 101: not valid JSON: nesting deeper than 100");
  EXPECT_NE(fault_of(std::string(1000000, '[')).find("nesting deeper"), std::string::npos);
  std::string objects;
  for (int depth = 0; depth < 101; ++depth) objects += "{\"a\":";
  EXPECT_NE(fault_of(objects).find("nesting deeper"), std::string::npos);
}

TEST(JsonParse, Numbers) {
  EXPECT_EQ(parsed("9223372036854775807").as_integer(), INT64_MAX);
  EXPECT_EQ(parsed("-9223372036854775808").as_integer(), INT64_MIN);
  EXPECT_FALSE(parsed("9223372036854775808").is_integer());
  EXPECT_EQ(parsed("9223372036854775808").as_number(), 9223372036854775808.0);
  EXPECT_EQ(parsed("-9223372036854775809").as_number(), -9223372036854775808.0);
  EXPECT_EQ(parsed("123456789012345678901234567890").as_number(), 123456789012345678901234567890.0);
  EXPECT_TRUE(parsed("8.0").is_number());
  EXPECT_EQ(parsed("1e2").as_number(), 100);
  EXPECT_EQ(parsed("1e-400").as_number(), 0);  // the nearest double
  EXPECT_TRUE(std::signbit(parsed("-0.0").as_number()));
}

TEST(JsonParse, RefusesNumbersThatNoDoubleHolds) {
  // A number ends where the next character stands.
  EXPECT_EQ(fault_of("[1e400]"),
            "x.json: line 1, column 7: not valid JSON: number 1e400 is out of range");
  EXPECT_NE(fault_of("-1e400").find("number -1e400 is out of range"), std::string::npos);
}

TEST(JsonParse, RefusesWhatIsNotJson) {
  for (const char* text :
       {"",          " ",          "NaN",         "Infinity",      "-Infinity", "nul",
        "[1,]",      "{\"a\":1,}", "{a:1}",       "{'a':1}",       "01",        "+1",
        ".5",        "1.",         "0x10",        "1 2",           "{} x",      "[1] // note",
        "/* x */ 1", "\"\\x\"",    "\"\\ud800\"", "\"tab\there\"", "{\"a\"}",   "{1:2}",
        "]",         "[}"}) {
    EXPECT_NE(fault_of(text).find("x.json: line 1, column "), std::string::npos) << text;
  }
}

TEST(JsonParse, RefusesInvalidUtf8AndNulBytes) {
  EXPECT_NE(fault_of("\"\xFF\""), "");
  EXPECT_NE(fault_of("\"\xC3\""), "");
  EXPECT_NE(fault_of("\"\xC0\xAF\""), "");      // overlong
  EXPECT_NE(fault_of("\"\xED\xA0\x80\""), "");  // a surrogate
  EXPECT_EQ(fault_of(std::string_view("1\0", 2)),
            "x.json: line 1, column 2: not valid JSON: a NUL byte");
  EXPECT_NE(fault_of(std::string_view("{}\0 and more", 12)), "");
  EXPECT_NE(fault_of(std::string_view("\"a\0b\"", 5)), "");
}

TEST(JsonParse, MessagesShowPlaceAndTextSafely) {
  EXPECT_EQ(fault_of("{\n  \"a\": tru\n}"),
            "x.json: line 2, column 11: not valid JSON: invalid literal");
  EXPECT_EQ(fault_of("[1, 2"),  // the last character that was read
            "x.json: line 1, column 5: not valid JSON: unexpected end of input; expected ']'");
  EXPECT_EQ(fault_of("{\"\\u001b[2J\":1,\"\\u001b[2J\":2}").find('\x1b'), std::string::npos);
  // A message stays one readable line even when the text does not.
  EXPECT_LT(fault_of("\"" + std::string(100000, 'x')).size(), 300U);
  EXPECT_LT(fault_of("{\"" + std::string(100000, 'x') + "\":1,\"" + std::string(100000, 'x') + "\"")
                .size(),
            300U);
}

TEST(JsonParse, EveryPrefixOfADocumentIsAnError) {
  const std::string document =
      R"({"name":"GLM-5 \u00e9","levels":[1,-2.5e3,{"deep":[[],{}]}],"on":true,"off":null} )";
  for (std::size_t length = 0; length + 1 < document.size(); ++length) {
    EXPECT_NE(fault_of(document.substr(0, length)), "") << length;
  }
  EXPECT_EQ(fault_of(document), "");
}

TEST(JsonParse, EveryByteReplacedNeverCrashes) {
  const std::string document = R"({"a":[1,2.5,"x\n",{"b":null}],"c":true})";
  const std::string_view structural = "[]{}:,\"\\ \n09-+.eEtnxu/";
  for (std::size_t index = 0; index < document.size(); ++index) {
    std::string broken = document;
    for (const char byte : structural) {
      broken[index] = byte;
      const Result<Json> result = Json::parse(broken, "x");
      EXPECT_TRUE(result.ok() || !result.error().message.empty());
    }
    for (const char byte : {'\0', '\x01', '\x80', '\xFF'}) {  // never right, in a string or outside
      broken[index] = byte;
      EXPECT_FALSE(Json::parse(broken, "x").ok()) << index;
    }
  }
}

TEST(JsonDump, DoublesReadBackToTheSameBits) {
  Random random(5);
  for (int trial = 0; trial < 20000; ++trial) {
    const double value = std::bit_cast<double>(random.next());
    if (!std::isfinite(value)) continue;
    const double back = parsed(Json(value).dump(0)).as_number();
    ASSERT_EQ(std::bit_cast<std::uint64_t>(back), std::bit_cast<std::uint64_t>(value)) << value;
  }
  for (const double value : {0.0, -0.0, 0.1, 1.0 / 3, 8.0, 1e15, 1e16, 1e22, 9007199254740994.0,
                             5e-324, 1.7976931348623157e308, 9223372036854775808.0}) {
    const double back = parsed(Json(value).dump(0)).as_number();
    EXPECT_EQ(std::bit_cast<std::uint64_t>(back), std::bit_cast<std::uint64_t>(value)) << value;
  }
}

TEST(JsonDump, WhatJsonLacksBecomesNull) {
  EXPECT_EQ(Json(std::nan("")).dump(), "null");
  EXPECT_EQ(Json(HUGE_VAL).dump(), "null");
  EXPECT_EQ(Json(std::optional<double>()).dump(), "null");
}

TEST(JsonDump, Strings) {
  EXPECT_EQ(Json("a\"\\\n\t\x01\xC3\xA9").dump(), "\"a\\\"\\\\\\n\\t\\u0001\xC3\xA9\"");
  EXPECT_EQ(Json("\xFFx").dump(), "\"\xEF\xBF\xBDx\"");  // U+FFFD in place of an exception
}

TEST(JsonDump, Layout) {
  Json json = Json::object();
  json.set("numbers", Json::array({1, 2.5, "x"})).set("empty", Json::array());
  json.set("nested", Json::array({Json::object(), Json::object({{"k", nullptr}})}));
  EXPECT_EQ(json.dump(0), R"({"numbers":[1,2.5,"x"],"empty":[],"nested":[{},{"k":null}]})");
  EXPECT_EQ(json.dump(2),
            "{\n"
            "  \"numbers\": [1, 2.5, \"x\"],\n"
            "  \"empty\": [],\n"
            "  \"nested\": [\n"
            "    {},\n"
            "    {\n"
            "      \"k\": null\n"
            "    }\n"
            "  ]\n"
            "}");
}

TEST(Json, SetReplacesAndPushAppends) {
  Json json;
  json.set("a", 1).set("b", 2).set("a", "x");
  EXPECT_EQ(json.dump(0), R"({"a":"x","b":2})");
  Json list;
  list.push(1).push(Json());
  EXPECT_EQ(list.dump(0), "[1,null]");
  EXPECT_EQ(Json(1).find("a"), nullptr);
}

TEST(Json, NumbersAreEqualWhenTheirValuesAre) {
  EXPECT_EQ(Json(8), Json(8.0));
  EXPECT_NE(Json(8), Json(8.5));
  EXPECT_NE(Json(8), Json("8"));
  EXPECT_NE(Json(0), Json(false));
  EXPECT_NE(Json(0), Json());
  EXPECT_EQ(parsed("[1, {\"a\": 2.0}]"), parsed("[1.0, {\"a\": 2}]"));
  // 2^53 + 1 is no double; its nearest one is another number.
  EXPECT_NE(Json(std::int64_t{9007199254740993}), Json(9007199254740992.0));
  EXPECT_NE(Json(INT64_MAX), Json(9223372036854775808.0));
  EXPECT_NE(Json(1), Json(std::nan("")));
  EXPECT_NE(parsed(R"({"a":1,"b":2})"), parsed(R"({"b":2,"a":1})"));
}

TEST(Json, UnsignedBeyondSignedIsADouble) {
  EXPECT_EQ(Json(std::uint64_t{5}).as_integer(), 5);
  EXPECT_EQ(Json(std::uint64_t{1} << 63).as_number(), 9223372036854775808.0);
}

TEST(JsonDeathTest, TheWrongKindIsOurMistake) {
  EXPECT_DEATH(static_cast<void>(Json(1).as_string()), "internal error");
  EXPECT_DEATH(Json(1).push(2), "internal error");
}

}  // namespace
}  // namespace nibble
