#include "bench/kernel_rates.h"

#include <cmath>
#include <gtest/gtest.h>

namespace nibble {
namespace {

TEST(HotCurve, IsLinearBetweenItsPointsAndStartsOverBeyond) {
  const HotCurve curve{.points = {{1, 10}, {4, 40}, {64, 100}}};
  EXPECT_EQ(curve.cost(0), 0);
  EXPECT_EQ(curve.cost(1), 10);
  EXPECT_EQ(curve.cost(2), 20);
  EXPECT_EQ(curve.cost(4), 40);
  EXPECT_EQ(curve.cost(34), 70);  // half way from 4 to 64
  EXPECT_EQ(curve.cost(64), 100);
  EXPECT_EQ(curve.cost(65), 110);  // 64 and 1
  EXPECT_EQ(curve.cost(3 * 64), 300);
}

// The rates are this machine's; what the prediction makes of them is not.
TEST(KernelRates, PredictFromBytesAndRates) {
  ThreadPool pool(1);
  KernelRates rates(pool, best_isa(), 0.005);
  ASSERT_TRUE(rates.measure(Format::kNvfp4, Format::kInt8, multiply_probes().back(), 1, 4).ok());
  const auto predict = [&](const Work& work, double bandwidth_gb_s) {
    return rates.predict_s(work, Format::kNvfp4, Format::kInt8, {bandwidth_gb_s, 1});
  };
  const Work nothing{.sections = 0};
  EXPECT_EQ(predict(nothing, 10), 0);
  Work work{.products = {{1, 1e6, 562'500, 1e3}}, .sections = 0};
  // At 1 MB/s nothing but the bytes counts: 0.5625 s.
  EXPECT_NEAR(predict(work, 1e-3), 0.5625, 1e-6);
  // From the cache the kernel itself: some time, and twice as much for two products.
  const double once = predict(work, 1e9);
  EXPECT_GT(once, 0);
  // Bytes that take as long as the arithmetic: sqrt(2) times one of them.
  EXPECT_NEAR(predict(work, 562'500 / once / 1e9), std::sqrt(2.0) * once, 1e-9 * once);
  // A roof that is half as high is a processor that is half as fast.
  EXPECT_NEAR(rates.predict_s(work, Format::kNvfp4, Format::kInt8, {1e9, 0.5}), 2 * once,
              1e-9 * once);
  work.products.push_back(work.products.front());
  EXPECT_DOUBLE_EQ(predict(work, 1e9), 2 * once);
  ASSERT_FALSE(rates.to_json().as_array().empty());
  EXPECT_GT(rates.to_json().as_array().front().find("section_us")->as_number(), 0);
}

}  // namespace
}  // namespace nibble
