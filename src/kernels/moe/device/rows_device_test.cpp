// The kernels that move rows, gather and combine, run on the host (test_simt.h).
#include "kernels/device/test_simt.h"
// Keep this line: device code comes after its stand-ins.
#include <vector>

#include "kernels/moe/device/combine.cuh"
#include "kernels/moe/device/gather.cuh"
#include "kernels/moe/device/test_routing.h"

namespace nibble {
namespace {

std::uint16_t two_bytes(const std::vector<std::uint8_t>& bytes, std::size_t at) {
  return static_cast<std::uint16_t>(bytes[at] | bytes[at + 1] << 8);
}

template <int kHidden>
void check_gather(int tokens) {
  constexpr MoeShape kShape{.experts = 9, .top_k = 3, .hidden = kHidden};
  constexpr std::int64_t kChunks = (kHidden + 63) / 64;
  TestChoices choices = test_choices(TestPattern::kWithFaults, tokens, 3, 9);
  const ExpectedTables tables = expected_tables(choices);
  std::vector<std::uint16_t> x(static_cast<std::size_t>(tokens) * kHidden);
  for (std::size_t at = 0; at < x.size(); ++at) x[at] = static_cast<std::uint16_t>(at * 7 + 1);
  std::vector<std::uint8_t> slots(tables.slot_token.size() / 8 * kChunks * 1024, 0xee);
  const GatherRows params{.x = x.data(),
                          .choice_slot = tables.choice_slot.data(),
                          .slots = slots.data(),
                          .tokens = tokens};
  const std::int64_t threads = tokens * 8 * kChunks;
  simt::launch(static_cast<unsigned>(ceil_div(threads, kRowThreads)), kRowThreads,
               [&] { gather<kShape>(params); });
  for (std::size_t slot = 0; slot < tables.slot_token.size(); ++slot) {
    const int token = tables.slot_token[slot];
    for (std::int64_t k = 0; k < 64 * kChunks; ++k) {
      const std::size_t at = place_in_slots(static_cast<std::int64_t>(slot), k, kChunks);
      std::uint16_t expected = 0;
      if (k < kHidden) expected = static_cast<std::uint16_t>((token * kHidden + k) * 7 + 1);
      if (token < 0) expected = 0xeeee;  // padding is left alone
      ASSERT_EQ(two_bytes(slots, at), expected) << slot << " " << k;
      ASSERT_EQ(static_cast<std::int64_t>(at),
                slot_byte(static_cast<std::int64_t>(slot), k, kChunks));
    }
  }
}

TEST(DeviceGather, EveryElementIsWhereTheLayoutSays) {
  check_gather<64>(5);
  check_gather<192>(70);
  check_gather<90>(11);
  check_gather<2>(4);
}

template <Element kElement, int kHidden, int kTopK>
void check_combine(int tokens, bool with_shared) {
  constexpr MoeShape kShape{.experts = 16, .top_k = kTopK, .hidden = kHidden, .output = kElement};
  using One = Number<kElement>;
  TestChoices choices = test_choices(TestPattern::kWithFaults, tokens, kTopK, 16);
  const ExpectedTables tables = expected_tables(choices);
  Random random(8);
  std::vector<typename One::Bits> rows;
  for (const float value :
       gaussian(random, static_cast<std::int64_t>(tables.slot_token.size()) * kHidden)) {
    rows.push_back(One::narrow(value));
  }
  std::vector<typename One::Bits> shared;
  for (const float value : gaussian(random, std::int64_t{tokens} * kHidden)) {
    shared.push_back(One::narrow(value));
  }
  // A padding row does not count.
  for (std::size_t slot = 0; slot < tables.slot_token.size(); ++slot) {
    if (tables.slot_token[slot] >= 0) continue;
    for (std::size_t at = 0; at < kHidden; ++at) {
      rows[slot * kHidden + at] = One::narrow(std::nanf(""));
    }
  }
  std::vector<typename One::Bits> y(shared.size());
  const CombineRows params{.rows = rows.data(),
                           .choice_slot = tables.choice_slot.data(),
                           .shared = with_shared ? shared.data() : nullptr,
                           .y = y.data(),
                           .tokens = tokens};
  const std::int64_t threads = tokens * kHidden / combine_columns(kHidden, kElement);
  simt::launch(static_cast<unsigned>(ceil_div(threads, kRowThreads)), kRowThreads,
               [&] { combine<kShape>(params); });
  for (std::size_t at = 0; at < y.size(); ++at) {
    const std::size_t token = at / kHidden;
    float sum = 0;
    for (std::size_t choice = 0; choice < kTopK; ++choice) {
      const int slot = tables.choice_slot[token * kTopK + choice];
      if (slot < 0) continue;
      sum += One::widen(rows[static_cast<std::size_t>(slot) * kHidden + at % kHidden]);
    }
    if (with_shared) sum += One::widen(shared[at]);
    ASSERT_EQ(One::widen(y[at]), One::widen(One::narrow(sum))) << at;
  }
}

TEST(DeviceCombine, AddsTheChoicesInTheirOrder) {
  check_combine<Element::kBf16, 256, 8>(9, false);
  check_combine<Element::kBf16, 72, 11>(5, true);
  check_combine<Element::kFp16, 90, 3>(5, true);
  check_combine<Element::kFp32, 36, 1>(30, true);
  check_combine<Element::kFp32, 34, 2>(5, false);
}

TEST(DeviceCombine, ColumnsOfAThread) {
  EXPECT_EQ(combine_columns(6144, Element::kBf16), 8);
  EXPECT_EQ(combine_columns(6144, Element::kFp32), 4);
  EXPECT_EQ(combine_columns(2884, Element::kFp16), 4);
  EXPECT_EQ(combine_columns(90, Element::kFp16), 2);
  EXPECT_EQ(combine_columns(91, Element::kFp32), 1);
}

}  // namespace
}  // namespace nibble
