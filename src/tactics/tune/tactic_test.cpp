// Tactics as text and JSON, and digests.
#include "tactics/tune/tactic.h"

#include <gtest/gtest.h>
#include <set>

#include "kernels/gemm/device/w4a16.h"
#include "kernels/gemm/device/w4a4.h"
#include "tactics/tune/gate.h"

namespace nibble::tune {
namespace {

std::vector<AnyTactic> many_tactics() {
  std::vector<AnyTactic> all = {CpuTactic{Isa::kPortable, 1}, CpuTactic{Isa::kAvx512, 8}};
  const W4A16Problem problem{.experts = 256, .n = 4096, .k = 6144, .mode = W4A16Mode::kSwiGlu};
  for (const W4A16Tactic& one : w4a16_tactics(problem, BlockLimits{})) all.push_back(one);
  for (const W4A4Tactic& one : w4a4_candidates()) all.push_back(one);
  return all;
}

TEST(Tactic, EveryOneReadsBackAndHasItsOwnLine) {
  std::set<std::string> lines;
  const std::vector<AnyTactic> all = many_tactics();
  ASSERT_GT(all.size(), 20U);
  for (const AnyTactic& tactic : all) {
    const Result<AnyTactic> read = parse_tactic(to_json(tactic, "moe.down"), "moe.down", "t");
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(*read, tactic) << to_string(tactic);
    EXPECT_TRUE(lines.insert(to_string(tactic)).second) << to_string(tactic);
  }
}

std::string refused(Json json) {
  const Result<AnyTactic> read = parse_tactic(json, "gemm", "t.json");
  return read.ok() ? "" : read.error().message;
}

TEST(Tactic, FieldsAreChecked) {
  const Json right = to_json(CpuTactic{Isa::kAvx2, 2}, "gemm");
  EXPECT_EQ(refused(right), "");
  EXPECT_NE(refused(Json(right).set("threads", 0)), "");
  EXPECT_NE(refused(Json(right).set("threads", 1.5)), "");
  EXPECT_NE(refused(Json(right).set("isa", "avx10")), "");
  EXPECT_NE(refused(Json(right).set("family", "w8a8")), "");
  EXPECT_NE(refused(Json(right).set("rows", 64)), "");
  EXPECT_NE(refused(to_json(W4A16Tactic{}, "gemm").set("unit", "tcgen05")), "");
  EXPECT_NE(refused(to_json(W4A16Tactic{}, "gemm").set("split", Json())), "");
}

// FNV-1a's own first step, and what must change a digest: any bit, the length, the order.
TEST(Gate, ADigestSeesEveryBit) {
  const std::vector<std::uint8_t> bytes(100, 7);
  std::set<std::uint64_t> digests = {digest_of(bytes.data(), bytes.size()),
                                     digest_of(bytes.data(), 99)};
  for (std::size_t bit = 0; bit < 800; ++bit) {
    std::vector<std::uint8_t> changed = bytes;
    changed[bit / 8] = static_cast<std::uint8_t>(changed[bit / 8] ^ (1U << bit % 8));
    digests.insert(digest_of(changed.data(), changed.size()));
  }
  EXPECT_EQ(digests.size(), 802U);
  EXPECT_EQ(digest_of(bytes.data(), 0), 0xcbf29ce484222325U);  // FNV's offset basis
}

}  // namespace
}  // namespace nibble::tune
