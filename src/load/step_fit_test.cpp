#include "load/step_fit.h"

#include <cmath>
#include <gtest/gtest.h>

#include "ledger/test_deployments.h"

namespace nibble::load {
namespace {

// 256 experts, 8 a token, uniform: E[D(B)] / E = 1 - (1 - 8/256)^B.
double share(double batch) {
  return 1 - std::pow(1 - 8.0 / 256, batch);
}

StepPoint point(double batch, double context, double noise = 0) {
  const double tpot = 4 + 12 * share(batch) + 2e-6 * batch * context + 0.01 * batch;
  return {batch, tpot * (1 + noise), context, share(batch)};
}

TEST(StepFit, FindsTheCoefficientsBack) {
  std::vector<StepPoint> points;
  for (const double context : {1000.0, 8000.0}) {
    for (const double batch : {1.0, 4.0, 16.0, 64.0, 256.0})
      points.push_back(point(batch, context));
  }
  const StepFit fit = fit_step(points, {3.0, 6.0, 2e-6, std::nullopt});
  ASSERT_TRUE(fit.valid());
  EXPECT_NEAR(*fit.terms[0].value, 4, 1e-6);
  EXPECT_NEAR(*fit.terms[1].value, 12, 1e-6);
  EXPECT_NEAR(*fit.terms[2].value, 2e-6, 1e-11);
  EXPECT_NEAR(*fit.terms[3].value, 0.01, 1e-8);
  EXPECT_NEAR(*fit.terms[1].over_roof, 2, 1e-6);  // the experts run at half of their roof
  EXPECT_FALSE(fit.terms[3].over_roof);
  EXPECT_NEAR(fit.residual, 0, 1e-8);
  EXPECT_NEAR(fit.predict(point(32, 2000)), point(32, 2000).tpot_ms, 1e-6);
}

TEST(StepFit, OneContextCannotTellCacheFromSequences) {
  std::vector<StepPoint> points;
  for (const double batch : {1.0, 4.0, 16.0, 64.0, 256.0}) points.push_back(point(batch, 5000));
  const StepFit fit = fit_step(points, {});
  ASSERT_TRUE(fit.valid());
  EXPECT_NEAR(*fit.terms[0].value, 4, 1e-6);
  EXPECT_NEAR(*fit.terms[1].value, 12, 1e-6);
  EXPECT_NEAR(*fit.terms[2].value, 2e-6 + 0.01 / 5000, 1e-10);  // b + c / S
  EXPECT_FALSE(fit.terms[3].value);
  EXPECT_NE(fit.terms[3].reason.find("context"), std::string::npos);
}

TEST(StepFit, LargeBatchesCannotTellExpertsFromTheBase) {
  std::vector<StepPoint> points;
  for (const double batch : {256.0, 384.0, 512.0, 768.0}) points.push_back(point(batch, 5000));
  const StepFit fit = fit_step(points, {});
  ASSERT_TRUE(fit.valid());
  EXPECT_FALSE(fit.terms[1].value);
  EXPECT_NE(fit.terms[1].reason.find("smaller levels"), std::string::npos);
  EXPECT_NEAR(*fit.terms[0].value, 16, 0.1);
}

TEST(StepFit, DenseModels) {
  std::vector<StepPoint> points;
  for (const double batch : {1.0, 8.0, 64.0}) points.push_back({batch, 5 + 0.02 * batch, 1000, {}});
  const StepFit fit = fit_step(points, {});
  ASSERT_TRUE(fit.valid());
  EXPECT_NEAR(*fit.terms[0].value, 5, 1e-9);
  EXPECT_FALSE(fit.terms[1].value);
  EXPECT_NE(fit.terms[1].reason.find("not known"), std::string::npos);
  EXPECT_NEAR(*fit.terms[2].value, 0.02 / 1000, 1e-12);
}

TEST(StepFit, IntervalsHoldTheTruth) {
  Random random(6);
  int held = 0;
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<StepPoint> points;
    for (const double batch : {1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0}) {
      const double normal = normal_quantile(random.uniform() * 0.999 + 0.0005);
      points.push_back(point(batch, 5000, 0.02 * normal));
    }
    const StepFit fit = fit_step(points, {});
    ASSERT_TRUE(fit.valid() && fit.terms[1].interval);
    held += fit.terms[1].interval->low <= 12 && 12 <= fit.terms[1].interval->high ? 1 : 0;
  }
  EXPECT_GE(held, 177);  // 190 expected, deviation 3.1, four of them below
  EXPECT_LT(held, kRounds);
}

TEST(StepFit, NothingIsNegative) {
  // TPOT that falls with the batch: no coefficient can say that.
  const StepFit fit = fit_step({{1, 10, 100, {}}, {10, 9, 100, {}}, {100, 8, 100, {}}}, {});
  ASSERT_TRUE(fit.valid());
  EXPECT_GT(*fit.terms[0].value, 8);
  EXPECT_EQ(*fit.terms[2].value, 0);
  EXPECT_NE(fit.terms[2].reason.find("held at zero"), std::string::npos);
}

TEST(StepFit, RefusesTooFewLevels) {
  EXPECT_FALSE(fit_step({}, {}).valid());
  EXPECT_FALSE(fit_step({point(1, 10), point(2, 10)}, {}).valid());
  EXPECT_FALSE(fit_step({point(1, 10), {0, 5, 10, {}}, {4, std::nan(""), 10, {}}}, {}).valid());
  EXPECT_FALSE(to_json(fit_step({}, {})).find("reason")->is_null());
}

TEST(StepModel, RoofsOfTheLedger) {
  const Deployment deployment = deployment_of("glm-5-nvfp4", "rtx-pro-6000-server", {.tp = 8});
  const Result<Ledger> ledger = Ledger::make(deployment);
  ASSERT_TRUE(ledger.ok());
  const auto model = step_model(*ledger, {1, 64, 4096});
  ASSERT_TRUE(model.ok()) << model.error().message;
  // 256 experts, 8 a token (facts of the case).
  EXPECT_NEAR(*model->distinct_shares[0], share(1), 1e-9);
  EXPECT_NEAR(*model->distinct_shares[1], share(64), 1e-9);
  EXPECT_NEAR(*model->distinct_shares[2], 1, 1e-9);
  // Experts of 75 layers on one of eight GPUs: 75 x 256 x 3 x 6144 x 2048 / 8 weights of 4.5 bits.
  const double expert_bytes = 75.0 * 256 * 3 * 6144 * 2048 / 8 * 4.5 / 8;
  const double bandwidth = deployment.machine.bandwidth_gb_s.value * 1e9;
  EXPECT_NEAR(*model->roofs[1] / (expert_bytes / bandwidth * 1e3), 1, 0.01);
  ASSERT_TRUE(model->roofs[0] && model->roofs[2]);
  EXPECT_GT(*model->roofs[0], 0);
  EXPECT_GT(*model->roofs[2], 0);
  EXPECT_FALSE(model->roofs[3]);
  // The terms add up to what the ledger says a step takes for weights and cache.
  const Result<Step> step = ledger->decode(64);
  const double ours =
      *model->roofs[1] * *model->distinct_shares[1] + *model->roofs[2] * 64 * deployment.context;
  EXPECT_LT(ours, step->weights_and_kv_us * 1e-3 * 1.001);
}

TEST(StepModel, PipelinesHaveNoRoofs) {
  const Result<Ledger> ledger =
      Ledger::make(deployment_of("glm-5-nvfp4", "rtx-pro-6000-server", {.tp = 4, .pp = 2}));
  ASSERT_TRUE(ledger.ok());
  const auto model = step_model(*ledger, {8});
  ASSERT_TRUE(model.ok());
  EXPECT_FALSE(model->roofs[1]);
  EXPECT_NE(model->note.find("pipeline"), std::string::npos);
  EXPECT_TRUE(model->distinct_shares[0]);
}

}  // namespace
}  // namespace nibble::load
