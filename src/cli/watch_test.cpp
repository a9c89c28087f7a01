#include "cli/watch.h"

#include <gtest/gtest.h>

namespace nibble::cli {
namespace {

TEST(ParseListen, PortsAndAddresses) {
  EXPECT_EQ(parse_listen("9753")->host, "127.0.0.1");
  EXPECT_EQ(parse_listen("9753")->port, 9753);
  EXPECT_EQ(parse_listen("0.0.0.0:0")->host, "0.0.0.0");
  EXPECT_EQ(parse_listen("0.0.0.0:0")->port, 0);
  EXPECT_EQ(parse_listen("[::1]:80")->host, "::1");
  EXPECT_EQ(parse_listen("[::1]:80")->port, 80);
}

TEST(ParseListen, RefusesTheRest) {
  for (const char* text : {"", ":", ":80", "x", "host:", "host:x", "1.5", "-1", "65536", "80 ",
                           "99999999999999999999"}) {
    const Result<net::ServerOptions> options = parse_listen(text);
    ASSERT_FALSE(options.ok()) << text;
    EXPECT_EQ(options.error().kind, ErrorKind::kUsage);
  }
}

}  // namespace
}  // namespace nibble::cli
