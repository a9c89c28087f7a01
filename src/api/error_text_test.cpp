#include "api/error_text.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace nibble::api {
namespace {

TEST(ErrorText, ShapesOfServers) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"error":{"message":"The model `x` does not exist.","type":"NotFoundError","param":null,"code":404}})",
       "The model `x` does not exist."},
      {R"({"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400})",
       "too long"},
      {R"({"error":{"code":503,"message":"Loading model","type":"unavailable_error"}})",
       "Loading model"},
      {R"({"error":"model is overloaded"})", "model is overloaded"},
      {R"({"detail":"Not Found"})", "Not Found"},
      {R"({"detail":[{"type":"int_parsing","loc":["body","max_tokens"],"msg":"Input should be a valid integer","input":"x"}]})",
       "body.max_tokens: Input should be a valid integer"},
      {R"({"message":"Rate limit"})", "Rate limit"},
      {R"([{"error":{"message":"in a list"}}])", "in a list"},
      {R"({"error":{"error":{"message":"nested"}}})", "nested"},
      {R"("just a string")", "just a string"},
      {"Internal Server Error", "Internal Server Error"},
      {"  upstream\r\n\tconnect   error \n", "upstream connect error"},
      {"<html>\n<head><title>502 Bad Gateway</title></head></html>",
       "a HTML page: 502 Bad Gateway"},
      {"<!DOCTYPE html><body><H1 class=x> Not\n here </H1>", "a HTML page: Not here"},
      {"<p>nothing", "a HTML page: <p>nothing"},
      {"", "an empty body"},
      {" \n", "an empty body"},
      {R"({"status":"bad"})", R"({"status":"bad"})"},
      {R"({"error":{"mess)", R"({"error":{"mess)"},
  };
  for (const auto& [body, text] : cases) EXPECT_EQ(error_text(body), text) << body;
}

TEST(ErrorText, OnePrintableLine) {
  const std::string text = error_text(std::string(1 << 20, 'x') + "\x1b[31m");
  EXPECT_LE(display_width(text), 300u);
  EXPECT_EQ(error_text("a\x1b[31mred\x07\xff"), "a?[31mred??");
  EXPECT_EQ(error_text(R"({"error":{"message":"line\nbreak\u0000\u202e"}})"), "line break??");
}

}  // namespace
}  // namespace nibble::api
