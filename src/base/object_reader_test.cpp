#include <gtest/gtest.h>

#include "base/json.h"
#include "base/test_json.h"

namespace nibble {
namespace {

// The fault that reading the field "v" of `text` leaves, or "".
template <class Read>
std::string fault_after(std::string_view text, Read read) {
  const Json json = parsed(text);
  ObjectReader reader(json, "x.json: kernels[1]");
  read(reader);
  const Result<> result = reader.finish();
  return result.ok() ? "" : result.error().message;
}

TEST(ObjectReader, ReadsEveryKind) {
  const Json json = parsed(
      R"({"f":2.5,"i":8,"whole":8.0,"b":true,"s":"x","n":[1,2.5],"one":3,"l":[{}],"o":{},"z":null})");
  ObjectReader reader(json, "x.json");
  EXPECT_EQ(reader.where(), "x.json");
  EXPECT_EQ(reader.number("f"), 2.5);
  EXPECT_EQ(reader.number("i"), 8);
  EXPECT_EQ(reader.integer("i"), 8);
  EXPECT_EQ(reader.integer("whole"), 8);
  EXPECT_EQ(reader.boolean("b"), true);
  EXPECT_EQ(reader.string("s"), "x");
  EXPECT_EQ(reader.numbers("n"), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(reader.numbers("one"), std::vector<double>{3});
  ASSERT_NE(reader.array("l"), nullptr);
  EXPECT_EQ(reader.array("l")->as_array().size(), 1U);
  EXPECT_NE(reader.object("o"), nullptr);
  EXPECT_EQ(reader.any("o"), reader.object("o"));
  EXPECT_EQ(reader.require_number("f"), 2.5);
  EXPECT_EQ(reader.require_integer("i"), 8);
  EXPECT_EQ(reader.require_string("s"), "x");
  EXPECT_TRUE(reader.has("f"));
  EXPECT_FALSE(reader.has("z"));  // null counts as absent
  EXPECT_FALSE(reader.number("z"));
  EXPECT_TRUE(reader.finish().ok());
}

TEST(ObjectReader, AbsentFieldsAreNoFault) {
  const Json json = parsed("{}");
  ObjectReader reader(json, "x.json");
  EXPECT_FALSE(reader.number("a"));
  EXPECT_FALSE(reader.integer("a"));
  EXPECT_FALSE(reader.boolean("a"));
  EXPECT_FALSE(reader.string("a"));
  EXPECT_FALSE(reader.numbers("a"));
  EXPECT_EQ(reader.array("a"), nullptr);
  EXPECT_EQ(reader.object("a"), nullptr);
  EXPECT_EQ(reader.any("a"), nullptr);
  EXPECT_TRUE(reader.finish().ok());
}

TEST(ObjectReader, TheWrongKindNamesFieldPlaceAndKind) {
  EXPECT_EQ(fault_after(R"({"v":"8"})", [](ObjectReader& r) { r.number("v"); }),
            "x.json: kernels[1]: \"v\" must be a number, found a string");
  EXPECT_EQ(fault_after(R"({"v":true})", [](ObjectReader& r) { r.integer("v"); }),
            "x.json: kernels[1]: \"v\" must be a number, found a boolean");
  EXPECT_EQ(fault_after(R"({"v":1})", [](ObjectReader& r) { r.boolean("v"); }),
            "x.json: kernels[1]: \"v\" must be true or false, found a number");
  EXPECT_EQ(fault_after(R"({"v":[]})", [](ObjectReader& r) { r.string("v"); }),
            "x.json: kernels[1]: \"v\" must be a string, found an array");
  EXPECT_EQ(fault_after(R"({"v":{}})", [](ObjectReader& r) { r.array("v"); }),
            "x.json: kernels[1]: \"v\" must be a list, found an object");
  EXPECT_EQ(fault_after(R"({"v":[]})", [](ObjectReader& r) { r.object("v"); }),
            "x.json: kernels[1]: \"v\" must be an object, found an array");
  EXPECT_EQ(fault_after(R"({"v":"1"})", [](ObjectReader& r) { r.numbers("v"); }),
            "x.json: kernels[1]: \"v\" must be a number or a list of numbers, found a string");
  EXPECT_EQ(fault_after(R"({"v":[1,null]})", [](ObjectReader& r) { r.numbers("v"); }),
            "x.json: kernels[1]: \"v\" must hold numbers only, found null");
}

TEST(ObjectReader, RangesIncludeTheirEnds) {
  const auto number = [](NumberRange range) {
    return [range](ObjectReader& reader) { reader.number("v", range); };
  };
  EXPECT_EQ(fault_after(R"({"v":1})", number({.min = 1, .max = 1})), "");
  EXPECT_EQ(fault_after(R"({"v":0.5})", number({.min = 1})),
            "x.json: kernels[1]: \"v\" is 0.5; it must be at least 1");
  EXPECT_EQ(fault_after(R"({"v":1.5})", number({.max = 1})),
            "x.json: kernels[1]: \"v\" is 1.5; it must be at most 1");
  EXPECT_EQ(fault_after(R"({"v":0})", number({.above = 0.0})),
            "x.json: kernels[1]: \"v\" is 0; it must be greater than 0");
  EXPECT_EQ(fault_after(R"({"v":[1,2,-1]})",
                        [](ObjectReader& reader) { reader.numbers("v", {.min = 0}); }),
            "x.json: kernels[1]: \"v\" is -1; it must be at least 0");
  EXPECT_EQ(fault_after(R"({"v":-1})",
                        [](ObjectReader& reader) { reader.require_integer("v", {.min = 0}); }),
            "x.json: kernels[1]: \"v\" is -1; it must be at least 0");
}

TEST(ObjectReader, IntegersMustBeWholeAndExact) {
  const auto integer = [](ObjectReader& reader) { reader.integer("v"); };
  EXPECT_EQ(fault_after(R"({"v":8.5})", integer),
            "x.json: kernels[1]: \"v\" is 8.5; it must be a whole number");
  EXPECT_NE(fault_after(R"({"v":1e30})", integer).find("too large for a whole number"),
            std::string::npos);
  EXPECT_NE(fault_after(R"({"v":18446744073709551615})", integer).find("too large"),
            std::string::npos);
  const Json json = parsed(R"({"v":9007199254740993})");  // 2^53 + 1, which no double holds
  ObjectReader reader(json, "x.json");
  EXPECT_EQ(reader.integer("v"), 9007199254740993);
}

TEST(ObjectReader, MissingFieldsThatAreRequired) {
  for (const char* text : {"{}", R"({"v":null})"}) {
    EXPECT_EQ(fault_after(text, [](ObjectReader& r) { EXPECT_EQ(r.require_number("v"), 0); }),
              "x.json: kernels[1]: \"v\" is missing");
    EXPECT_EQ(fault_after(text, [](ObjectReader& r) { EXPECT_EQ(r.require_integer("v"), 0); }),
              "x.json: kernels[1]: \"v\" is missing");
    EXPECT_EQ(fault_after(text, [](ObjectReader& r) { EXPECT_EQ(r.require_string("v"), ""); }),
              "x.json: kernels[1]: \"v\" is missing");
  }
  EXPECT_NE(fault_after(R"({"v":"8"})", [](ObjectReader& r) { r.require_number("v"); })
                .find("must be a number"),
            std::string::npos);
}

TEST(ObjectReader, UnknownFieldsOfferTheNearestName) {
  const auto read = [](ObjectReader& reader) {
    reader.number("power_w");
    reader.accept("notes");
  };
  EXPECT_EQ(fault_after(R"({"notes":[],"pwer_w":1})", read),
            "x.json: kernels[1]: unknown field \"pwer_w\"; did you mean power_w?");
  EXPECT_EQ(fault_after(R"({"PowerW":1})", read),
            "x.json: kernels[1]: unknown field \"PowerW\"; did you mean power_w?");
  EXPECT_EQ(fault_after(R"({"colour":null})", read),
            "x.json: kernels[1]: unknown field \"colour\"");
  EXPECT_EQ(fault_after("{\"\\u001b[31m\":1}", read),
            "x.json: kernels[1]: unknown field \"?[31m\"");
}

TEST(ObjectReader, LenientFilesMayHoldMore) {
  const Json json = parsed(R"({"hidden_size":"x","more":1})");
  ObjectReader reader(json, "config.json");
  EXPECT_TRUE(reader.finish_lenient().ok());
  reader.number("hidden_size");
  EXPECT_EQ(reader.finish_lenient().error().message,
            "config.json: \"hidden_size\" must be a number, found a string");
}

TEST(ObjectReader, KeepsTheFirstFault) {
  const auto read = [](ObjectReader& reader) {
    reader.number("a");
    reader.fault_at("b", "is odd");
    reader.fault(run_error("last"));
  };
  EXPECT_EQ(fault_after(R"({"a":"x","unknown":1})", read),
            "x.json: kernels[1]: \"a\" must be a number, found a string");
  EXPECT_EQ(fault_after(R"({"a":1,"unknown":1})", read), "x.json: kernels[1]: \"b\" is odd");
}

TEST(ObjectReader, WhatIsNoObjectIsAFault) {
  for (const char* text : {"[]", "1", "null", "\"x\"", "true"}) {
    const Json json = parsed(text);
    ObjectReader reader(json, "x.json");
    EXPECT_FALSE(reader.number("a"));
    EXPECT_EQ(reader.require_string("b"), "");
    const Result<> result = reader.finish();
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().message,
              "x.json: expected an object, found " + std::string(json.kind_name()));
    EXPECT_EQ(result.error().kind, ErrorKind::kInput);
  }
}

TEST(ObjectReader, ARefusedNumberIsNotHandedOut) {
  const Json json = *Json::parse(R"({"one": -1, "whole": -1, "list": [2, -1], "high": 11})", "t");
  ObjectReader reader(json, "t");
  EXPECT_EQ(reader.number("one", {.min = 0}), std::nullopt);
  EXPECT_EQ(reader.integer("whole", {.min = 0}), std::nullopt);
  EXPECT_EQ(reader.numbers("list", {.min = 0}), std::nullopt);
  EXPECT_EQ(reader.number("high", {.max = 10}), std::nullopt);
  EXPECT_EQ(reader.number("high", {.above = 11}), std::nullopt);
  EXPECT_FALSE(reader.finish().ok());
}

}  // namespace
}  // namespace nibble
