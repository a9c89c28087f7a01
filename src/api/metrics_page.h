// A page of metrics as a server writes it, in Prometheus' text format.
//
//   SecondsHistogram ttft(kTtftBounds);
//   ttft.add(60'000'000);
//   MetricsPage page(R"(model_name="m")");
//   page.line("gauge", "vllm:num_requests_running", 2);
//   page.histogram("vllm:time_to_first_token_seconds", ttft);   // page.take() is the whole
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"

namespace nibble::api {

// The buckets of vLLM's histograms of the same names (vllm/v1/metrics/loggers.py).
inline constexpr std::array kTtftBounds = {0.001, 0.005, 0.01, 0.02,  0.04,  0.06,  0.08, 0.1,
                                           0.25,  0.5,   0.75, 1.0,   2.5,   5.0,   7.5,  10.0,
                                           20.0,  40.0,  80.0, 160.0, 640.0, 2560.0};
inline constexpr std::array kItlBounds = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                          0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
inline constexpr std::array kRequestBounds = {0.3,  0.5,   0.8,   1.0,   1.5,   2.0,    2.5,
                                              5.0,  10.0,  15.0,  20.0,  30.0,  40.0,   50.0,
                                              60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};

// Divided, so that 60 ms are 0.06 as written and fall into the bucket that ends there.
constexpr double exact_seconds(Nanoseconds span) {
  return static_cast<double>(span) / 1e9;
}

// A Prometheus histogram of seconds. Its buckets are fixed, and any thread may add.
class SecondsHistogram {
 public:
  // Upper bounds, ascending, at most kMostBounds of them; +Inf is added. They must outlive it.
  explicit SecondsHistogram(std::span<const double> bounds);
  void add(Nanoseconds span, std::uint64_t times = 1);
  // The lines of the text format; `labels` stands in the braces before "le".
  void append(std::string& page, std::string_view name, std::string_view labels) const;

 private:
  static constexpr std::size_t kMostBounds = 31;

  std::span<const double> bounds_;
  std::array<std::atomic<std::uint64_t>, kMostBounds + 1> buckets_ = {};
  std::atomic<Nanoseconds> sum_ = 0;
};

class MetricsPage {
 public:
  // `labels` are of every line: R"(engine="0",model_name="m")", or none.
  explicit MetricsPage(std::string labels) : labels_(std::move(labels)) {}

  // Lines of one name stand together: its TYPE line is written before the first.
  void line(std::string_view type, std::string_view name, double value,
            std::string_view more_labels = "");
  void histogram(std::string_view name, const SecondsHistogram& histogram);
  std::string take() { return std::move(page_); }

 private:
  std::string labels_;
  std::string page_;
  std::string typed_;  // the name whose TYPE line was written last
};

}  // namespace nibble::api
