// Runs a fuzz target briefly without libFuzzer: its corpus as it is, then seeded mutations of it.
// This is what the test suite runs, on the objects it has anyway; `make fuzz` compiles the same
// targets with clang, coverage guidance and sanitizers.
//
//   json_fuzz 3 fuzz/corpus/json
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <unistd.h>
#include <vector>

#include "base/file.h"
#include "base/stats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace nibble {
namespace {

constexpr unsigned kSecondsPerInput = 10;  // one that takes longer hangs: SIGALRM ends the run
constexpr std::size_t kMaxInput = 65536;
constexpr std::size_t kLeastInputs = 50;  // fewer prove nothing

// What JSON readers trip over.
constexpr const char* kTokens[] = {"null",
                                   "true",
                                   "[]",
                                   "{}",
                                   "\"\"",
                                   "0",
                                   "-1",
                                   "-0.0",
                                   "1e308",
                                   "1e-308",
                                   "1e400",
                                   "9007199254740993",
                                   "18446744073709551616",
                                   "[",
                                   "]",
                                   "{",
                                   "}",
                                   ":",
                                   ",",
                                   "\"",
                                   "\\u0000",
                                   "\xff",
                                   "0.5"};

void run(const std::string& input) {
  alarm(kSecondsPerInput);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

std::size_t place(Random& random, const std::string& text) {
  return static_cast<std::size_t>(random.below(text.size() + 1));
}

void mutate(std::string& text, const std::vector<std::string>& corpus, Random& random) {
  const std::size_t at = place(random, text);
  const std::size_t length = std::min<std::size_t>(random.below(32) + 1, text.size() - at);
  switch (random.below(6)) {
    case 0:
      text.erase(at, length);
      break;
    case 1:
      text.insert(at, text.substr(place(random, text), length));
      break;
    case 2:
      if (at < text.size()) text[at] = static_cast<char>(random.below(256));
      break;
    case 3:
      text.insert(at, kTokens[random.below(std::size(kTokens))]);
      break;
    case 4:
      text.replace(at, length, kTokens[random.below(std::size(kTokens))]);
      break;
    default: {
      const std::string& other = corpus[random.below(corpus.size())];
      text = text.substr(0, at) + other.substr(place(random, other));
    }
  }
  if (text.size() > kMaxInput) text.resize(kMaxInput);
}

int main_of_run(double seconds, const char* folder) {
  std::vector<std::string> corpus;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const std::filesystem::path& path : paths) {
    const Result<std::string> text = read_file(path, kMaxInput);
    if (!text) {
      std::fprintf(stderr, "%s\n", text.error().message.c_str());
      return 1;
    }
    corpus.push_back(*text);
    run(*text);
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "%s holds no seeds\n", folder);
    return 1;
  }
  Random random(1);
  std::size_t inputs = corpus.size();
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (; std::chrono::steady_clock::now() < end || inputs < kLeastInputs; ++inputs) {
    std::string text = corpus[random.below(corpus.size())];
    for (std::uint64_t left = random.below(6) + 1; left > 0; --left) mutate(text, corpus, random);
    run(text);
  }
  std::printf("%zu inputs\n", inputs);
  return 0;
}

}  // namespace
}  // namespace nibble

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s SECONDS CORPUS\n", argv[0]);
    return 2;
  }
  return nibble::main_of_run(std::atof(argv[1]), argv[2]);
}
