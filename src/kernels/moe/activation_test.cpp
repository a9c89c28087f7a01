#include "kernels/moe/activation.h"

#include <bit>
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

#include "kernels/moe/test_inputs.h"

namespace nibble {
namespace {

constexpr ActivationKind kKinds[] = {ActivationKind::kSwiGlu, ActivationKind::kClampedSwiGlu};

struct Rows {
  std::vector<float> gate_up;
  std::vector<float> bias = {};
  std::vector<std::int32_t> expert_of = {};
  std::int64_t intermediate = 0;
};

std::vector<float> run(const Rows& rows, ActivationKind kind, Isa isa = best_isa(),
                       int threads = 1) {
  std::vector<float> output(rows.gate_up.size() / 2, -1e30F);
  ThreadPool pool(threads);
  activate({.gate_up = rows.gate_up,
            .expert_of = rows.expert_of,
            .bias = rows.bias,
            .intermediate = rows.intermediate,
            .activation = {.kind = kind},
            .output = output},
           isa, pool);
  return output;
}

struct Golden {
  Rows rows;
  std::vector<double> results;
};

// tests/golden/moe/activation.txt, as one row.
Golden golden(ActivationKind kind) {
  std::ifstream file(NIBBLE_SOURCE_DIR "/tests/golden/moe/activation.txt");
  EXPECT_TRUE(file.good());
  Golden golden;
  std::vector<float> ups;
  std::string name;
  std::uint32_t gate = 0;
  std::uint32_t up = 0;
  std::string result;
  while (file >> name >> std::hex >> gate >> up >> result) {
    if (name != to_string(kind)) continue;
    golden.rows.gate_up.push_back(std::bit_cast<float>(gate));
    ups.push_back(std::bit_cast<float>(up));
    golden.results.push_back(std::stod(result));
  }
  golden.rows.intermediate = static_cast<std::int64_t>(ups.size());
  golden.rows.gate_up.insert(golden.rows.gate_up.end(), ups.begin(), ups.end());
  return golden;
}

TEST(Activation, IsThatOfPublishedCode) {
  for (const ActivationKind kind : kKinds) {
    const Golden expected = golden(kind);
    ASSERT_EQ(expected.results.size(), 724U);
    for (const Isa isa : usable_isas()) {
      const std::vector<float> y = run(expected.rows, kind, isa);
      for (std::size_t at = 0; at < y.size(); ++at) {
        // exp errs by 1.5 units, and by its argument's rounding: alpha * gate, up to 2^7, by 2^-18
        // (plain SwiGLU has no such product). Below fp32's normal range one of 2^-149 is lost.
        const double relative = kind == ActivationKind::kSwiGlu ? 0x1p-20 : 0x1p-17;
        const double scale = std::abs(expected.results[at]);
        EXPECT_NEAR(static_cast<double>(y[at]), expected.results[at], relative * scale + 0x1p-126)
            << to_string(kind) << " " << to_string(isa) << " gate " << expected.rows.gate_up[at]
            << " up " << expected.rows.gate_up[y.size() + at];
      }
    }
  }
}

TEST(Activation, ClampsTheGateAboveOnlyAndUpOnBothSides) {
  const auto one = [](float gate, float up) {
    return run({.gate_up = {gate, up}, .intermediate = 1}, ActivationKind::kClampedSwiGlu)[0];
  };
  EXPECT_EQ(one(7, 3), one(100, 3));
  EXPECT_NE(one(-7, 3), one(-8, 3));
  EXPECT_EQ(one(2, 7), one(2, 50));
  EXPECT_EQ(one(2, -7), one(2, -50));
  EXPECT_EQ(one(3, -1), 0);
}

Rows random_rows(std::int64_t slots, std::int64_t intermediate, bool biased) {
  Random random(8);
  Rows rows{.gate_up = gaussian(random, slots * 2 * intermediate, 5), .intermediate = intermediate};
  if (biased) {
    rows.bias = gaussian(random, 3 * 2 * intermediate);
    for (std::int64_t slot = 0; slot < slots; ++slot) {
      rows.expert_of.push_back(static_cast<std::int32_t>(slot % 3));
    }
  }
  return rows;
}

TEST(Activation, HasTheSameBitsOnEveryInstructionSetAndAnyNumberOfThreads) {
  for (const ActivationKind kind : kKinds) {
    for (const bool biased : {false, true}) {
      for (const std::int64_t intermediate : {1, 15, 16, 17, 96, 1024, 1025, 2880}) {
        const Rows rows = random_rows(5, intermediate, biased);
        const std::vector<float> expected = run(rows, kind, Isa::kPortable);
        for (const Isa isa : usable_isas()) {
          for (const int threads : {1, 3}) {
            EXPECT_TRUE(same_bits(run(rows, kind, isa, threads), expected))
                << to_string(kind) << " " << intermediate << " " << to_string(isa);
          }
        }
      }
    }
  }
}

TEST(Activation, ARowDoesNotDependOnItsBatch) {
  constexpr std::int64_t kIntermediate = 37;
  const Rows rows = random_rows(9, kIntermediate, false);
  const std::vector<float> all = run(rows, ActivationKind::kSwiGlu);
  for (std::size_t slot = 0; slot < 9; ++slot) {
    const auto begin = rows.gate_up.begin() + static_cast<std::ptrdiff_t>(slot * 74);
    const Rows alone{.gate_up = {begin, begin + 74}, .intermediate = kIntermediate};
    EXPECT_TRUE(
        same_bits(run(alone, ActivationKind::kSwiGlu), std::span(all).subspan(slot * 37, 37)))
        << slot;
  }
}

TEST(Activation, TheBiasIsTheExpertsOwn) {
  Rows rows = random_rows(4, 20, true);
  const std::vector<float> with_bias = run(rows, ActivationKind::kClampedSwiGlu);
  for (std::size_t slot = 0; slot < 4; ++slot) {
    for (std::size_t column = 0; column < 40; ++column) {
      rows.gate_up[slot * 40 + column] += rows.bias[slot % 3 * 40 + column];
    }
  }
  rows.bias.clear();
  EXPECT_TRUE(same_bits(run(rows, ActivationKind::kClampedSwiGlu), with_bias));
}

TEST(Activation, WhatIsNotANumberStaysInItsPlace) {
  for (const ActivationKind kind : kKinds) {
    for (const Isa isa : usable_isas()) {
      Rows rows = random_rows(2, 20, false);
      rows.gate_up[3] = std::nanf("");
      rows.gate_up[20 + 17] = std::nanf("");
      const std::vector<float> y = run(rows, kind, isa);
      for (std::size_t at = 0; at < y.size(); ++at) {
        EXPECT_EQ(std::isnan(y[at]), at == 3 || at == 17) << to_string(isa) << " " << at;
      }
    }
  }
}

TEST(Activation, NoRows) {
  EXPECT_TRUE(run({.gate_up = {}, .intermediate = 64}, ActivationKind::kSwiGlu).empty());
}

}  // namespace
}  // namespace nibble
