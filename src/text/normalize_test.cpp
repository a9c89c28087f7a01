#include "text/normalize.h"

#include <chrono>
#include <fmt/core.h>
#include <fstream>
#include <gtest/gtest.h>

#include "base/utf8.h"
#include "text/golden_test.h"

namespace nibble::text {
namespace {

// Unicode 15, section 3.11 and UAX #15, figures 3 to 6.
TEST(Nfc, ComposesAndOrders) {
  EXPECT_EQ(nfc(""), "");
  EXPECT_EQ(nfc("plain"), "plain");
  EXPECT_EQ(nfc("e\u0301a"), "\u00e9a");
  EXPECT_EQ(nfc("\u212b"), "\u00c5");
  EXPECT_EQ(nfc("\ufb01"), "\ufb01");  // a compatibility form, which NFC leaves
  EXPECT_EQ(nfc("q\u0307\u0323"), "q\u0323\u0307");
  EXPECT_EQ(nfc("d\u0307\u0323"), "\u1e0d\u0307");
  EXPECT_EQ(nfc("\u1100\u1161\u11a8"), "\uac01");
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093c");  // excluded from composition
  EXPECT_EQ(nfc("\u0301x"), "\u0301x");
  EXPECT_EQ(nfc("a\u0301\u0301"), "\u00e1\u0301");
}

TEST(Nfc, EveryCharacterIsNormalizedAsByTheOracle) {
  std::ifstream golden(golden_path("nfc.txt"));
  std::size_t blocks = 0;
  unsigned block = 0;
  std::string hash;
  while (golden >> std::hex >> block >> hash) {
    std::string text;
    for (char32_t code = std::max<char32_t>(block, 0x300); code < block + 0x1000; ++code) {
      if (code >= 0xD800 && code <= 0xDFFF) continue;
      std::string c;
      append_character(c, code);
      for (const std::string& context : {c + "\u0345", "\u0345" + c, c + "\u0334", "\u0301" + c,
                                         "e\u0323" + c + "\u0301", "q" + c + "\u0323"}) {
        text += nfc(context) + "\n";
      }
    }
    EXPECT_EQ(fmt::format("{:016x}", fnv(text)), hash) << "block " << std::hex << block;
    ++blocks;
  }
  EXPECT_EQ(blocks, 32u);
}

// A megabyte of marks in falling order: a sort by insertion would take some 10^11 steps.
TEST(Nfc, ALongRunOfMarksTakesNoLonger) {
  std::string marks;
  for (int repeat = 0; repeat < 250'000; ++repeat) marks += "\u0301\u0327";
  const auto start = std::chrono::steady_clock::now();
  const std::string ordered = nfc("x" + marks);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(ordered.substr(0, 5), "x\u0327\u0327");
  EXPECT_TRUE(ordered.ends_with("\u0301\u0301"));
  EXPECT_EQ(ordered.size(), 1 + marks.size());
  EXPECT_LT(took.count(), 5);
}

}  // namespace
}  // namespace nibble::text
