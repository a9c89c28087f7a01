#include "tactics/logs/line_source.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

namespace nibble::logs {
namespace {

// Hands out `step` bytes at a time.
LineSource pieces_of(std::string text, std::size_t step) {
  return LineSource(
      [text = std::move(text), step, at = std::size_t{0}](std::span<char> buffer) mutable {
        const std::size_t count = std::min({step, buffer.size(), text.size() - at});
        std::memcpy(buffer.data(), text.data() + at, count);
        at += count;
        return count;
      });
}

std::vector<LogLine> lines_of(std::string text, std::size_t step = 1 << 20) {
  LineSource source = pieces_of(std::move(text), step);
  std::vector<LogLine> lines;
  LogLine line;
  while (source.next(line)) lines.push_back(line);
  return lines;
}

TEST(LineSource, NumbersByLineFeedsInAnyPieces) {
  for (const std::size_t step : {1, 2, 3, 100}) {
    const std::vector<LogLine> lines = lines_of("one\ntwo\n\nfour", step);
    ASSERT_EQ(lines.size(), 4u) << step;
    EXPECT_EQ(lines[0].text, "one");
    EXPECT_EQ(lines[1].text, "two");
    EXPECT_EQ(lines[2].text, "");
    EXPECT_EQ(lines[3].text, "four");
    EXPECT_EQ(lines[3].number, 4);
  }
}

TEST(LineSource, ProgressBarsOverwriteThemselves) {
  const std::vector<LogLine> lines = lines_of("bar 1\rbar 2\r\nnext\n");
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[1].text, "bar 2");
  EXPECT_EQ(lines[1].number, 1);
  EXPECT_EQ(lines[2].text, "");
  EXPECT_EQ(lines[3].text, "next");
  EXPECT_EQ(lines[3].number, 2);
}

TEST(LineSource, LongLinesAreCutAndTheNextIsWhole) {
  const std::vector<LogLine> lines =
      lines_of(std::string(3 * LineSource::kMostLine, 'x') + "\nshort\n", 1000);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].text.size(), LineSource::kMostLine);
  EXPECT_EQ(lines[1].text, "short");
  EXPECT_EQ(lines[1].number, 2);
}

TEST(LineSource, EmptyHasNoLines) {
  EXPECT_TRUE(lines_of("").empty());
}

TEST(LineSource, ColoursAndTitlesGo) {
  EXPECT_EQ(without_escapes("\x1b[1;31mred\x1b[0m end"), "red end");
  EXPECT_EQ(without_escapes("\x1b]0;title\x07text"), "text");
  EXPECT_EQ(without_escapes("open \x1b["), "open ");
  EXPECT_EQ(without_escapes("\x1b"), "");
}

TEST(LineSource, RanksAsLoggersWriteThem) {
  // vLLM, several releases (flashinfer issues 2077, 2800; vLLM documentation)
  EXPECT_EQ(rank_of("(Worker_PP0 pid=38385) 2025-11-11 06:41:27,319 - WARNING"), "PP0");
  EXPECT_EQ(rank_of("(VllmWorker TP2 pid=60498) INFO 09-09 16:23:07"), "TP2");
  EXPECT_EQ(rank_of("(VllmWorker rank=1 pid=2421044) ERROR 07-29"), "rank 1");
  EXPECT_EQ(rank_of("(Worker pid=4178717) (Worker_DP0_EP3 pid=4178717) 2026-03-13"), "DP0 EP3");
  EXPECT_EQ(rank_of("(VllmWorkerProcess pid=570) WARNING 04-12 05:35:07"), "pid 570");
  EXPECT_EQ(rank_of("(EngineCore pid=199) INFO 05-21 21:08:22 [backends.py:1128] x"), "");
  EXPECT_EQ(rank_of("Aug 19 13:18:22 sys0 vllm[76674]: (Worker_TP0 pid=76674) 2026"), "TP0");
  // SGLang (PR 5390), TensorRT-LLM
  EXPECT_EQ(rank_of("[2025-05-13 23:29:46 DP4 TP4] Using default MoE"), "DP4 TP4");
  EXPECT_EQ(rank_of("[2025-05-13 23:29:46] Using default MoE"), "");
  EXPECT_EQ(rank_of("[01/16/2026-06:20:17] [TRT-LLM] [RANK 5] [W] text"), "rank 5");
  EXPECT_EQ(rank_of("no brackets TP3"), "");
  EXPECT_EQ(rank_of("(unclosed TP3"), "");
}

}  // namespace
}  // namespace nibble::logs
