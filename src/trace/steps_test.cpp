// Steps, rows and times of whole traces, with values worked out by hand.
#include "trace/steps.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "trace/trace_testing.h"

namespace nibble::trace {
namespace {

constexpr const char* kArgMax =
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
    "at::native::ArgMaxOps<float>>>";

// The kernels of one step that begins at `at` on the GPU; `base` numbers its launches. The GPU is
// busy in [0, 50) and [60, 65).
void add_kernels(std::vector<std::string>& events, double at, int base) {
  events.push_back(kernel("nvjet_a", at, 10, base));
  events.push_back(kernel("fused_moe_kernel", at + 10, 20, base));
  events.push_back(kernel("fused_moe_kernel", at + 30, 10, base));
  events.push_back(kernel("mystery", at + 35, 15, base, 8));
  events.push_back(kernel(kArgMax, at + 60, 5, base + 1));
}

// Annotated by the host at `at`, on the GPU 50 us later; the sampler is launched behind it.
void add_step(std::vector<std::string>& events, std::string_view name, double at, int base) {
  events.push_back(annotation(name, at, 10));
  events.push_back(launch(base, at + 5));
  events.push_back(launch(base + 1, at + 20));
  add_kernels(events, at + 50, base);
}

std::vector<std::string> three_decode_steps() {
  std::vector<std::string> events;
  for (int step = 0; step < 3; ++step)
    add_step(events, "execute_context_0(0)_generation_4(4)", 100 * step, 10 * step + 1);
  return events;
}

void expect_the_step(const TraceSummary& summary) {
  EXPECT_DOUBLE_EQ(summary.step_ms, 0.1);
  EXPECT_DOUBLE_EQ(summary.busy_ms, 0.055);
  EXPECT_DOUBLE_EQ(row_of(summary, "gemm").ms, 0.010);
  EXPECT_DOUBLE_EQ(row_of(summary, "moe.gate_up").ms, 0.020);
  EXPECT_DOUBLE_EQ(row_of(summary, "moe.down").ms, 0.010);
  EXPECT_DOUBLE_EQ(row_of(summary, "unmapped").ms, 0.015);
  EXPECT_DOUBLE_EQ(row_of(summary, "sampling").ms, 0.005);
  EXPECT_EQ(summary.ops.size(), 5U);
  EXPECT_EQ(summary.ops.front().op, "moe.gate_up");
}

TEST(Steps, OfAnnotationsBeginWithTheFirstKernelThatTheyLaunched) {
  const Result<TraceSummary> summary = load_text(chrome_trace(three_decode_steps()));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->steps, 3);
  EXPECT_EQ(summary->steps_by, "annotations execute_context");
  EXPECT_EQ(summary->engine, "vllm");
  EXPECT_EQ(summary->device, "NVIDIA H200");
  EXPECT_EQ(summary->source, "rank0.trace.json");
  EXPECT_EQ(summary->kind, "chrome");
  expect_the_step(*summary);
  const OpTime gate_up = row_of(*summary, "moe.gate_up");
  EXPECT_DOUBLE_EQ(gate_up.count, 1);
  ASSERT_EQ(gate_up.kernels.size(), 1U);
  EXPECT_EQ(gate_up.kernels[0].name, "fused_moe_kernel");
  EXPECT_TRUE(summary->notes.empty()) << summary->notes.front();
}

TEST(Steps, ThatHoldPromptsAreLeftOut) {
  std::vector<std::string> events = three_decode_steps();
  add_step(events, "execute_context_1(512)_generation_4(4)", 300, 41);
  events.push_back(kernel("nvjet_prefill", 420, 500, 41));
  add_step(events, "execute_context_0(0)_generation_5(5)", 900, 51);
  const Result<TraceSummary> summary = load_text(chrome_trace(events));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->steps, 4);
  expect_the_step(*summary);
  EXPECT_TRUE(notes_hold(*summary, "left out: 1 steps that hold prompts"));
}

TEST(Steps, RefusesATraceOfPromptsAlone) {
  std::vector<std::string> events;
  add_step(events, "step[EXTEND bs=8 toks=4096]", 0, 1);
  const Result<TraceSummary> summary = load_text(chrome_trace(events));
  ASSERT_FALSE(summary.ok());
  EXPECT_NE(summary.error().message.find("all hold prompts"), std::string::npos);
}

TEST(Steps, LeavesPausesOfTheServerOutOfTheStepsTime) {
  std::vector<std::string> events;
  for (const int at : {0, 100, 200, 300, 5300, 5400})
    add_step(events, "step[DECODE bs=4]", at, at + 1);
  const Result<TraceSummary> summary = load_text(chrome_trace(events));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->steps, 6);
  EXPECT_EQ(summary->engine, "sglang");
  expect_the_step(*summary);
  EXPECT_TRUE(notes_hold(*summary, "more than 5 times the median): 1 steps"));
}

TEST(Steps, UsesTheGpusRangesWhereNoLaunchIsKnown) {
  std::vector<std::string> events;
  for (int step = 0; step < 3; ++step) {
    add_kernels(events, 100 * step, 0);
    // The ranges of one step on two streams have one number; that of the second reaches into the
    // next step.
    events.push_back(gpu_annotation("step[DECODE bs=4]", 100 * step, 60, step));
    events.push_back(gpu_annotation("step[DECODE bs=4]", 100 * step + 35, 90, step));
  }
  const Result<TraceSummary> summary = load_text(chrome_trace(events));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->steps, 3);
  expect_the_step(*summary);
}

TEST(Steps, UsesTheHostsTimesWhereNothingElseTells) {
  std::vector<std::string> events;
  for (int step = 0; step < 3; ++step) {
    events.push_back(annotation("execute_model", 100 * step - 5, 50));
    add_kernels(events, 100 * step, 0);
  }
  const Result<TraceSummary> summary = load_text(chrome_trace(events));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->steps, 3);
  expect_the_step(*summary);
  EXPECT_TRUE(notes_hold(*summary, "does not tie kernels"));
  EXPECT_TRUE(notes_hold(*summary, "do not tell decode steps"));
}

TEST(Steps, LeavesOverlappingAnnotationsOut) {
  std::vector<std::string> events = three_decode_steps();
  events.push_back(annotation("execute_context_0(0)_generation_4(4)", 104, 10));
  const Result<TraceSummary> summary = load_text(chrome_trace(events));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->steps, 3);
  expect_the_step(*summary);
  EXPECT_TRUE(notes_hold(*summary, "ended: 1 annotated steps"));
}

TEST(Steps, AreCountedByTheKernelThatRunsOnceAStep) {
  std::vector<std::string> events;
  for (int step = 0; step < 5; ++step) add_kernels(events, 100 * step, 0);
  const Result<TraceSummary> summary = load_text(chrome_trace(events));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->steps, 4);  // from one argmax to the next
  EXPECT_EQ(summary->steps_by.find("kernel void at::native"), 0U);
  expect_the_step(*summary);
  EXPECT_TRUE(notes_hold(*summary, "no annotations"));
}

TEST(Steps, AreCountedByTheCountsOfKernels) {
  std::vector<std::string> events;
  for (int step = 0; step < 5; ++step) {
    events.push_back(kernel("last_of_step", 100 * step + 50, 10, 0));
    for (int layer = 0; layer < 4; ++layer)
      events.push_back(kernel("layer", 100 * step + 10 * layer, 5, 0));
  }
  const Result<TraceSummary> summary = load_text(chrome_trace(events));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->steps, 4);
  EXPECT_DOUBLE_EQ(summary->step_ms, 0.1);
  EXPECT_DOUBLE_EQ(summary->busy_ms, 0.03);
  EXPECT_DOUBLE_EQ(row_of(*summary, "unmapped").count, 5);
}

TEST(Steps, AreTheWholeTraceWhereNothingRepeats) {
  // All names have one count: it might be that of the layers.
  std::vector<std::string> events;
  for (int layer = 0; layer < 5; ++layer) {
    events.push_back(kernel("first", 20 * layer, 5, 0));
    events.push_back(kernel("second", 20 * layer + 5, 5, 0));
  }
  const Result<TraceSummary> summary = load_text(chrome_trace(events));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->steps, 1);
  EXPECT_EQ(summary->steps_by, "the whole trace");
  EXPECT_DOUBLE_EQ(summary->step_ms, 0.09);
  EXPECT_DOUBLE_EQ(summary->busy_ms, 0.05);
}

TEST(Steps, ProductsOfExpertsThatCannotBeToldApartAreOneRow) {
  const auto row_with = [](int third_stream, bool third) {
    std::vector<std::string> events = {kernel("fused_moe_kernel", 0, 20, 0),
                                       kernel("fused_moe_kernel", 20, 10, 0, third_stream)};
    if (third) events.push_back(kernel("fused_moe_kernel", 30, 10, 0));
    const Result<TraceSummary> summary = load_text(chrome_trace(events));
    NIBBLE_CHECK(summary.ok());
    return std::pair(row_of(*summary, "experts"),
                     notes_hold(*summary, "products of the experts could not"));
  };
  EXPECT_DOUBLE_EQ(row_with(7, true).first.ms, 0.04);
  EXPECT_TRUE(row_with(7, true).second);
  EXPECT_DOUBLE_EQ(row_with(8, false).first.ms, 0.03);
  EXPECT_EQ(row_with(8, false).first.covers, (std::vector<std::string>{"moe.gate_up", "moe.down"}));
  EXPECT_EQ(row_with(7, false).first.ms, 0);
}

TEST(Steps, TakesTheDeviceWithMostKernels) {
  std::vector<std::string> events = three_decode_steps();
  events.push_back(kernel("elsewhere", 0, 900, 0, 7, 3));
  const Result<TraceSummary> summary = load_text(chrome_trace(events));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  expect_the_step(*summary);
  EXPECT_TRUE(notes_hold(*summary, "that the trace holds: 1"));
}

TEST(Steps, TheOrderOfEventsInTheFileDoesNotMatter) {
  std::vector<std::string> events = three_decode_steps();
  std::reverse(events.begin(), events.end());
  const Result<TraceSummary> summary = load_text(chrome_trace(events));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  expect_the_step(*summary);
}

TEST(Steps, CopiesKeepTheGpuBusyAndAreARow) {
  const Result<TraceSummary> summary = load_text(chrome_trace(
      {kernel("nvjet_a", 0, 10, 0), event_text("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 5,
                                               10, R"("device": 0, "stream": 9)")}));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_DOUBLE_EQ(row_of(*summary, "copy").ms, 0.01);
  EXPECT_DOUBLE_EQ(summary->busy_ms, 0.015);
}

}  // namespace
}  // namespace nibble::trace
