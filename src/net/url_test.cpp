#include "net/url.h"

#include <gtest/gtest.h>

#include "net/headers.h"

namespace nibble::net {
namespace {

TEST(Url, Parts) {
  struct UrlCase {
    const char* text;
    bool tls;
    const char* host;
    int port;
    const char* path;
    const char* authority;
  };
  const UrlCase cases[] = {
      {"http://host", false, "host", 80, "", "host"},
      {"HTTP://host/", false, "host", 80, "", "host"},
      {"https://host", true, "host", 443, "", "host"},
      {"http://host:443", false, "host", 443, "", "host:443"},
      {"https://a-b.example.com:8443/api/v1//", true, "a-b.example.com", 8443, "/api/v1",
       "a-b.example.com:8443"},
      {"http://127.0.0.1:8000/x", false, "127.0.0.1", 8000, "/x", "127.0.0.1:8000"},
      {"http://[::1]", false, "::1", 80, "", "[::1]"},
      {"http://[fe80::1]:1/a", false, "fe80::1", 1, "/a", "[fe80::1]:1"},
      {"http://my_host:65535", false, "my_host", 65535, "", "my_host:65535"},
  };
  for (const UrlCase& test : cases) {
    const Result<Url> url = parse_url(test.text);
    ASSERT_TRUE(url.ok()) << test.text << ": " << url.error().message;
    EXPECT_EQ(url->tls, test.tls) << test.text;
    EXPECT_EQ(url->host, test.host) << test.text;
    EXPECT_EQ(url->port, test.port) << test.text;
    EXPECT_EQ(url->path, test.path) << test.text;
    EXPECT_EQ(url->authority(), test.authority) << test.text;
    EXPECT_EQ(parse_url(url->text())->text(), url->text()) << test.text;
  }
  EXPECT_EQ(parse_url("http://h/a/")->target("/v1/models"), "/a/v1/models");
  EXPECT_EQ(parse_url("http://h")->target("/v1/models"), "/v1/models");
}

TEST(Url, Refused) {
  const std::string wrong[] = {"",
                               "host",
                               "host:80",
                               "ftp://host",
                               "http:/host",
                               "http://",
                               "http:///x",
                               "http://:80",
                               "http://host:",
                               "http://host:0",
                               "http://host:65536",
                               "http://host:99999999999",
                               "http://host:8a",
                               "http://host:-1",
                               "http://user@host",
                               "http://user:pw@host/",
                               "http://host/#a",
                               "http://host/?a=b",
                               "http://ho st",
                               "http://host/a b",
                               "http://host\n",
                               "http://[::1",
                               "http://[]",
                               "http://[1.2.3.4]",
                               "http://[::1]x",
                               "http://::1",
                               "http://h\xc3\xb6st",
                               "http://a/" + std::string(5000, 'x'),
                               "http://" + std::string(300, 'x'),
                               std::string("http://a\0b", 10)};
  for (const std::string& text : wrong) {
    const Result<Url> url = parse_url(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_EQ(url.error().kind, ErrorKind::kInput) << text;
    EXPECT_NE(url.error().message, "") << text;
  }
}

// A key in the address is not repeated where logs would keep it, whatever else is wrong.
TEST(Url, SecretsAreNotRepeated) {
  for (const char* text :
       {"http://secret@host", "http://user:secret@host/#a", "http://user:secret@ho st",
        "ftp://secret@host", "secret@host", "http://host?key=secret", "http://host:x/?key=secret",
        "host/#secret", "http://sec@ret:secret@host:0"}) {
    const Result<Url> url = parse_url(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_EQ(url.error().message.find("secret"), std::string::npos) << url.error().message;
  }
}

TEST(Headers, FindAndValidate) {
  const Headers headers = {{"Content-Type", "a"}, {"content-type", "b"}};
  EXPECT_EQ(find_header(headers, "CONTENT-TYPE"), "a");
  EXPECT_EQ(find_header(headers, "Content"), std::nullopt);
  EXPECT_TRUE(valid_header("X-A_b.c", "any text, \t with \xc3\xa9"));
  for (const char* name : {"", "a b", "a:", "a\n", "\xc3\xa9"})
    EXPECT_FALSE(valid_header(name, "v"));
  for (const char* value : {"a\nb", "a\r", "\x7f", "\x01"}) EXPECT_FALSE(valid_header("n", value));
}

}  // namespace
}  // namespace nibble::net
