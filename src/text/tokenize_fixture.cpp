// Encodes texts by a tokenizer.json, for comparisons with other tokenizers of full size
// (tools/oracle/tokenizers_full.py).
//
//   nibble_tokenize_fixture tokenizer.json < texts.json     a JSON list of strings
//
// Prints a line of ids a text, without special tokens around it, then what they decode to as JSON;
// on standard error what loading and encoding took.
#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>

#include "base/json.h"
#include "text/tokenizer.h"

namespace nibble::text {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Result<> run(const char* path, const std::string& input) {
  const auto start = std::chrono::steady_clock::now();
  NIBBLE_ASSIGN_OR_RETURN(const Tokenizer tokenizer, load_tokenizer(path));
  const double load_s = seconds_since(start);
  NIBBLE_ASSIGN_OR_RETURN(const Json texts, Json::parse(input, "standard input"));
  double encode_s = 0;
  std::size_t bytes = 0;
  for (const Json& text : texts.as_array()) {
    const auto before = std::chrono::steady_clock::now();
    NIBBLE_ASSIGN_OR_RETURN(const std::vector<TokenId> ids,
                            tokenizer.encode(text.as_string(), {.add_special = false}));
    encode_s += seconds_since(before);
    bytes += text.as_string().size();
    for (const TokenId id : ids) fmt::print("{} ", id);
    fmt::print("\n{}\n", Json(tokenizer.decode(ids)).dump(0));
  }
  fmt::print(stderr, "load {:.3f} s, encode {} bytes in {:.3f} s\n", load_s, bytes, encode_s);
  return {};
}

}  // namespace
}  // namespace nibble::text

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string input{std::istreambuf_iterator<char>(std::cin), {}};
  const nibble::Result<> result = nibble::text::run(argv[1], input);
  if (!result.ok()) std::fprintf(stderr, "%s\n", result.error().message.c_str());
  return result.ok() ? 0 : 1;
}
