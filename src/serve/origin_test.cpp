#include "serve/origin.h"

#include <gtest/gtest.h>

namespace nibble::serve {
namespace {

bool is_taken(const char* origin, const char* host, const char* listens_on = "127.0.0.1",
              const char* allow = "") {
  ServeOptions options;
  options.host = listens_on;
  options.allow_origin = allow;
  const auto refusal = refuse_origin(options, {{"Host", host}, {"Origin", origin}});
  EXPECT_EQ(refusal ? refusal->status : 403, 403);
  return !refusal.has_value();
}

TEST(Origin, NoPageOrItsOwnPage) {
  EXPECT_FALSE(refuse_origin({}, {{"Host", "evil.example"}}).has_value());
  EXPECT_TRUE(is_taken("http://127.0.0.1:8000", "127.0.0.1:8000"));
  EXPECT_TRUE(is_taken("http://[::1]:8000", "[::1]:8000", "::1"));
  EXPECT_TRUE(is_taken("http://LocalHost:8000", "localhost:8000"));
  EXPECT_TRUE(is_taken("https://chat.example", "chat.example"));  // a proxy that speaks TLS
  EXPECT_TRUE(is_taken("http://box:8000", "box:8000", "0.0.0.0"));
}

TEST(Origin, OtherPages) {
  EXPECT_FALSE(is_taken("http://evil.example", "127.0.0.1:8000"));
  EXPECT_FALSE(is_taken("http://127.0.0.1:8001", "127.0.0.1:8000"));
  EXPECT_FALSE(is_taken("http://127.0.0.1:8000.evil.example", "127.0.0.1:8000"));
  EXPECT_FALSE(is_taken("http://localhost:8000", "127.0.0.1:8000"));
  EXPECT_FALSE(is_taken("null", "127.0.0.1:8000"));
  EXPECT_FALSE(is_taken("", "127.0.0.1:8000"));
  EXPECT_FALSE(is_taken("http://", ""));
  EXPECT_FALSE(is_taken("ftp://127.0.0.1", "127.0.0.1"));
  ServeOptions options;
  EXPECT_TRUE(refuse_origin(options, {{"Origin", "http://127.0.0.1"}}).has_value());
}

// A name of somebody else's that leads to 127.0.0.1: the page is of the server's own origin.
TEST(Origin, NamesThatLeadHere) {
  EXPECT_FALSE(is_taken("http://evil.example:8000", "evil.example:8000"));
  EXPECT_FALSE(is_taken("http://evil.example:8000", "evil.example:8000", "localhost"));
  EXPECT_FALSE(is_taken("http://127.0.0.1.evil.example", "127.0.0.1.evil.example"));
}

TEST(Origin, AllowedPages) {
  EXPECT_TRUE(is_taken("http://a.example", "127.0.0.1", "127.0.0.1", "http://a.example"));
  EXPECT_FALSE(is_taken("http://b.example", "127.0.0.1", "127.0.0.1", "http://a.example"));
  EXPECT_TRUE(is_taken("null", "127.0.0.1", "127.0.0.1", "*"));
  EXPECT_TRUE(is_taken("http://127.0.0.1", "127.0.0.1", "127.0.0.1", "http://a.example"));
}

}  // namespace
}  // namespace nibble::serve
