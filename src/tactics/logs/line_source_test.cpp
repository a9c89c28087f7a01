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

TEST(LineSource, BytesOfNoCharacterAreOneMark) {
  // The Unicode Standard, table 3-7: a lone lead, a surrogate, overlong forms, beyond U+10FFFF, and
  // a character that ends early.
  EXPECT_EQ(whole_characters("a\xFF\xFE\xC3+b"), "a???+b");
  EXPECT_EQ(whole_characters("\xED\xA0\x80|\xED\x9F\xBF"), "???|\xED\x9F\xBF");
  EXPECT_EQ(whole_characters("\xC0\x80|\xE0\x80\x80|\xF0\x80\x80\x80"), "??|???|????");
  EXPECT_EQ(whole_characters("\xF4\x90\x80\x80|\xF4\x8F\xBF\xBF"), "????|\xF4\x8F\xBF\xBF");
  EXPECT_EQ(whole_characters("\xE2\x82"), "??");
  const std::string good = "\xC3\xA9 \xE2\x82\xAC \xF0\x9D\x84\x9E \xEF\xBF\xBD";
  EXPECT_EQ(whole_characters(good), good);
  std::string_view rest = "Mo\xED\xA0\x80Runner\n";
  LineSource lines([&](std::span<char> buffer) {
    const std::size_t count = rest.copy(buffer.data(), buffer.size());
    rest.remove_prefix(count);
    return count;
  });
  LogLine line;
  ASSERT_TRUE(lines.next(line));
  EXPECT_EQ(line.text, "Mo???Runner");
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

TEST(LineSource, LinesThatStartAMessage) {
  for (const char* line :
       {"(Worker_TP0 pid=38385) INFO 11-11 06:41:29 [x.py:3] feature is not supported, timed out",
        "(Worker pid=1) (Worker_DP0_EP3 pid=1) ERROR CUDA out of memory",
        "ERROR 09-07 00:59:17 [core.py:712] x", "INFO:     127.0.0.1:5 - \"GET /health\" 200",
        " 2026-07-26 05:16:02,307 - DEBUG - autotuner.py:1913 - x",
        "[11/11/2025-06:41:28] [TRT-LLM] [RANK 0] [E] RuntimeError: x",
        "[TRT-LLM] [RANK 0] [I] Overlap scheduler is not supported with this config, disabled",
        "[RANK 0] [I] x", "[TensorRT-LLM][WARNING] x", "[2025-05-13 23:29:46 DP4 TP4] x",
        "[rank0]:[W1101 06:41:27.123 ProcessGroupNCCL.cpp:1] x", "E1101 06:41:27.123 9 x.cc:1] x",
        "vllm-1  | (Worker_TP0 pid=7) INFO 11-11 06:41:29 x",
        "Aug 19 13:18:22 sys0 vllm[7]: (Worker_TP0 pid=7) 2026-01-01 00:00:00,000 - x",
        "host:12:34 [0] NCCL INFO x", "2025-11-11T06:41:27.123Z anything"}) {
    EXPECT_TRUE(begins_message(line)) << line;
  }
  for (const char* line :
       {"(Worker_PP0 pid=38385) 1       0x7c6dd0a58b16 tensorrt_llm::common::x() + 97",
        "(Worker_TP1 pid=2) Unsupported tile (64, 64, 64) and cluster (1, 2, 1)",
        "(Worker_TP1 pid=2) \t tile shape ID: 64x64x128", "\t tile shape ID: 64x64x128",
        "Error: Failed to initialize the TMA descriptor 715", "RuntimeError: Error Internal",
        "[FP4 gemm Runner] Failed to initialize cutlass FP4 gemm", "[1, 2, 3]", "INFORMATION", "",
        "(unclosed", "(a, b)", "vllm-1  | (Worker_TP0 pid=7) \t tile shape ID: 64x64x128"}) {
    EXPECT_FALSE(begins_message(line)) << line;
  }
}

TEST(LineSource, ATimeBeforeEveryLineIsNotTheMessages) {
  constexpr std::string_view kStack = "2025-11-11T06:41:27.123456789Z 1  0x7c f::g() + 9";
  EXPECT_TRUE(has_carried_time(kStack));
  EXPECT_FALSE(has_carried_time("2025-11-11 06:41:27,319 - WARNING"));
  EXPECT_FALSE(begins_message(kStack, true));
  EXPECT_TRUE(begins_message("2025-11-11T06:41:27.1Z INFO 11-11 06:41:29 x", true));
}

}  // namespace
}  // namespace nibble::logs
