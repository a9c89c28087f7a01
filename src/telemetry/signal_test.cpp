#include "telemetry/signal.h"

#include <gtest/gtest.h>

namespace nibble::telemetry {
namespace {

TEST(Signal, NameHasAnOwnerAndAQuantity) {
  EXPECT_EQ(owner_of("gpu0.power"), "gpu0");
  EXPECT_EQ(quantity_of("gpu0.power"), "power");
  EXPECT_EQ(owner_of("10.0.0.7:9753/gpu0.power"), "10.0.0.7:9753/gpu0");
  EXPECT_EQ(owner_of("power"), "");
  EXPECT_EQ(quantity_of("power"), "power");
}

TEST(Signal, GoesThroughJsonUnchanged) {
  const Signal signal{.name = "gpu0.energy",
                      .unit = "J",
                      .source = "NVML",
                      .kind = SignalKind::kCounter,
                      .low = 0,
                      .available = false,
                      .reason = "Not Supported"};
  const Result<Signal> back = parse_signal(signal_json(signal), "test");
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->name, signal.name);
  EXPECT_EQ(back->unit, signal.unit);
  EXPECT_EQ(back->source, signal.source);
  EXPECT_EQ(back->kind, SignalKind::kCounter);
  EXPECT_EQ(back->low, 0);
  EXPECT_EQ(back->high, signal.high);  // infinite
  EXPECT_FALSE(back->available);
  EXPECT_EQ(back->reason, "Not Supported");
}

TEST(Signal, RefusesWhatAnotherHostMayNotSend) {
  EXPECT_FALSE(parse_signal(Json(3), "test").ok());
  EXPECT_FALSE(parse_signal(Json::object(), "test").ok());
  EXPECT_FALSE(parse_signal(Json::object().set("name", ""), "test").ok());
  EXPECT_FALSE(parse_signal(Json::object().set("name", "a\x1b[2J"), "test").ok());
  EXPECT_FALSE(parse_signal(Json::object().set("name", std::string(401, 'a')), "test").ok());
  EXPECT_FALSE(parse_signal(Json::object().set("name", "a").set("low", "x"), "test").ok());
  EXPECT_FALSE(parse_signal(Json::object().set("name", "a").set("kind", "histogram"), "test").ok());
  EXPECT_TRUE(parse_signal(Json::object().set("name", "a").set("kind", "gauge"), "test").ok());
  EXPECT_TRUE(parse_signal(Json::object().set("name", "a").set("new_field", 1), "test").ok());
}

}  // namespace
}  // namespace nibble::telemetry
