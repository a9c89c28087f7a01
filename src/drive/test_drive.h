// What the tests of this room share: a mock, a driver on it, the rows that came.
//
//   TestDrive drive(script, {.users = 4, .requests = 12});
//   EXPECT_EQ(drive.ok(), 12);
#pragma once

#include <atomic>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <memory>
#include <vector>

#include "base/testing.h"
#include "drive/driver.h"
#include "load/row_file.h"
#include "mock/mock.h"

namespace nibble::drive {

inline mock::MockScript quick_script(double ttft_ms = 10, double itl_ms = 2) {
  mock::MockScript script;
  script.ttft_ms = mock::Distribution::constant(ttft_ms);
  script.itl_ms = mock::Distribution::constant(itl_ms);
  return script;
}

inline mock::RunningMock start(mock::MockScript script) {
  auto mock = mock::start_mock(std::move(script), {.keep_truths = true});
  EXPECT_TRUE(mock.ok()) << (mock.ok() ? "" : mock.error().message);
  return std::move(*mock);
}

inline Target target_of(const std::string& url, std::string_view backend = "openai") {
  Target target;
  target.url = *net::parse_url(url);
  target.backend = *api::find_backend(backend);
  target.model = "nibble-mock";
  return target;
}

inline std::shared_ptr<const load::Dataset> words(std::int64_t input, std::int64_t output,
                                                  bool ids = true) {
  auto made = load::make_random({.input_len = input, .output_len = output}, {.send_ids = ids});
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  return std::move(*made);
}

inline std::vector<load::RequestRecord> rows_of(const std::filesystem::path& path) {
  std::vector<load::RequestRecord> rows;
  const auto read = load::for_each_row(path, [&](const load::RequestRecord& row) -> Result<> {
    rows.push_back(row);
    return {};
  });
  EXPECT_TRUE(read.ok()) << (read.ok() ? "" : read.error().message);
  return rows;
}

// One level against a mock of its own.
struct TestDrive {
  TestDrive(const mock::MockScript& script, const LevelOptions& options, std::size_t loops = 1,
            std::int64_t output = 5, std::string_view backend = "openai") {
    mock::RunningMock mock = start(script);
    auto writer = load::RowWriter::create(folder.path() / "rows.jsonl");
    EXPECT_TRUE(writer.ok());
    auto driver = Driver::make({.target = target_of(mock.url(), backend),
                                .dataset = words(20, output),
                                .nonce = 7,
                                .loops = loops},
                               *writer);
    EXPECT_TRUE(driver.ok());
    const std::atomic<bool> never = false;
    run = driver->run_level(0, options, never, {});
    EXPECT_TRUE(writer->finish().ok());
    rows = rows_of(folder.path() / "rows.jsonl");
    stats = mock.stats();
    truths = mock.take_truths();
  }
  std::int64_t with(load::Outcome outcome) const {
    return std::count_if(rows.begin(), rows.end(),
                         [&](const load::RequestRecord& row) { return row.outcome == outcome; });
  }
  std::int64_t ok() const { return with(load::Outcome::kOk); }

  TemporaryFolder folder;
  LevelRun run;
  std::vector<load::RequestRecord> rows;
  mock::MockStats stats;
  std::vector<mock::RequestTruth> truths;
};

}  // namespace nibble::drive
