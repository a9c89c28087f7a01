#include "drive/calibrate.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "api/backend.h"
#include "base/stats.h"
#include "base/units.h"
#include "drive/driver.h"
#include "load/dataset.h"
#include "load/row_file.h"
#include "machine/roof_cache.h"
#include "mock/mock.h"
#include "net/loop.h"

namespace nibble::drive {
namespace {

constexpr double kLeastItl_ms = 1;
constexpr double kMostItl_ms = 100;
constexpr double kStepsOfOctave = 4;
constexpr double kRun_ms = 2500;
// So many events in that time, at least: a p99 of them rests on the largest ten and more.
constexpr double kEventsWanted = 1500;
// Of one request without its TTFT: few users make short ones, so that there are many TTFTs.
constexpr double kShortRequest_ms = 100;
constexpr double kLongRequest_ms = 400;
constexpr std::int64_t kFewUsers = 32;
constexpr std::int64_t kLeastGaps = 4;
constexpr std::size_t kLeastEvents = 100;
constexpr std::int64_t kPromptTokens = 32;
constexpr std::size_t kBesideConnections = 64;
constexpr Nanoseconds kGrace = 500'000'000;
// The mock's threads must not be the bottleneck before the client's are.
constexpr std::size_t kMostMockThreads = 4;

// A folder in /tmp or $TMPDIR that goes away with all that it holds.
class ScratchFolder {
 public:
  static Result<ScratchFolder> make() {
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
    if (error) return run_error("there is no temporary folder: {}", error.message());
    std::string name = (folder / "nibble-calibration-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      return run_error("cannot make a folder in {}: {}", folder.string(),
                       std::generic_category().message(errno));
    }
    return ScratchFolder(std::move(name));
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit ScratchFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

load::ErrorSpread spread_of(const std::vector<double>& errors_ms) {
  return {.p50 = quantile(errors_ms, 0.5),
          .p99 = quantile(errors_ms, 0.99),
          .max = *std::max_element(errors_ms.begin(), errors_ms.end())};
}

Result<mock::RunningMock> start_mock(const CalibrationPlan& plan) {
  mock::MockScript script;
  script.ttft_ms = mock::Distribution::constant(plan.ttft_ms);
  script.itl_ms = mock::Distribution::constant(plan.itl_ms);
  const std::size_t loops = net::loops_for(static_cast<std::size_t>(plan.users));
  return mock::start_mock(std::move(script), {.threads = std::min(loops, kMostMockThreads)});
}

Result<DriverParts> driver_parts(const CalibrationPlan& plan, const std::string& url,
                                 std::size_t loops) {
  DriverParts parts;
  NIBBLE_ASSIGN_OR_RETURN(parts.target.url, net::parse_url(url));
  NIBBLE_ASSIGN_OR_RETURN(parts.target.backend, api::find_backend("openai"));
  parts.target.model = mock::MockScript{}.model;
  parts.target.token_ids = false;
  NIBBLE_ASSIGN_OR_RETURN(
      std::unique_ptr<load::Dataset> words,
      load::make_random({.input_len = kPromptTokens, .output_len = plan.output_tokens}, {}));
  parts.dataset = std::move(words);
  parts.loops = std::max<std::size_t>(1, loops);
  return parts;
}

double cpu_us_per_event(const LevelRun& level) {
  Nanoseconds cpu = 0;
  for (const net::LoopAudit& loop : level.loops) cpu += loop.cpu;
  return static_cast<double>(cpu) * 1e-3 / static_cast<double>(level.events);
}

}  // namespace

CalibrationPlan plan_calibration(const CalibrationAsk& ask) {
  CalibrationPlan plan;
  plan.users = std::max<std::int64_t>(1, ask.concurrency);
  const auto users = static_cast<double>(plan.users);
  const double slowest = std::clamp(users * kRun_ms / kEventsWanted, kLeastItl_ms, kMostItl_ms);
  // A NaN becomes the least.
  const double wanted = ask.itl_ms > kLeastItl_ms ? std::min(ask.itl_ms, slowest) : kLeastItl_ms;
  // 1e-9: what is a step already stays one.
  const double step = std::floor(std::log2(wanted) * kStepsOfOctave + 1e-9) / kStepsOfOctave;
  plan.itl_ms = std::exp2(step);
  const double length = plan.users < kFewUsers ? kShortRequest_ms : kLongRequest_ms;
  const std::int64_t gaps = std::max<std::int64_t>(kLeastGaps, std::llround(length / plan.itl_ms));
  plan.output_tokens = gaps + 1;
  plan.ramp = from_milliseconds(plan.ttft_ms + static_cast<double>(gaps) * plan.itl_ms);
  plan.duration = plan.ramp + from_milliseconds(kRun_ms);
  return plan;
}

void CalibrationTally::add(const load::RequestRecord& record) {
  const bool cancelled = record.outcome == load::Outcome::kCancelled;
  if (record.warmup || cancelled || record.sent < counts_from_) return;
  ++requests_;
  if (record.outcome != load::Outcome::kOk) {
    ++failed_;
    return;
  }
  for (std::size_t at = 0; at < record.events.size(); ++at) {
    const Nanoseconds time = record.events[at].at;
    if (at == 0) {
      ttft_errors_ms_.push_back(milliseconds(time - record.sent) - plan_.ttft_ms);
    } else {
      const double gap_ms = milliseconds(time - record.events[at - 1].at);
      gap_errors_ms_.push_back(std::abs(gap_ms - plan_.itl_ms));
    }
  }
}

Result<load::Calibration> CalibrationTally::finish() const {
  const std::size_t events = ttft_errors_ms_.size() + gap_errors_ms_.size();
  if (ttft_errors_ms_.empty() || gap_errors_ms_.empty() || events < kLeastEvents) {
    return run_error("{} events came of the built-in mock at concurrency {}, too few to judge by",
                     events, plan_.users);
  }
  return load::Calibration{.concurrency = static_cast<double>(plan_.users),
                           .itl_ms = plan_.itl_ms,
                           .ttft_ms = plan_.ttft_ms,
                           .requests = requests_,
                           .events = static_cast<std::int64_t>(events),
                           .failed = failed_,
                           .ttft_error_ms = spread_of(ttft_errors_ms_),
                           .itl_error_ms = spread_of(gap_errors_ms_)};
}

Result<load::Calibration> calibrate(const CalibrationAsk& ask,
                                    const std::atomic<bool>& interrupted) {
  const CalibrationPlan plan = plan_calibration(ask);
  // Both ends of every connection are of this process.
  NIBBLE_RETURN_IF_ERROR(
      net::allow_descriptors(2 * static_cast<std::size_t>(plan.users) + kBesideConnections));
  NIBBLE_ASSIGN_OR_RETURN(const ScratchFolder folder, ScratchFolder::make());
  NIBBLE_ASSIGN_OR_RETURN(mock::RunningMock mock, start_mock(plan));
  NIBBLE_ASSIGN_OR_RETURN(DriverParts parts, driver_parts(plan, mock.url(), ask.loops));
  NIBBLE_ASSIGN_OR_RETURN(load::RowWriter writer,
                          load::RowWriter::create(folder.path() / "rows.jsonl"));
  LevelRun level;
  {
    NIBBLE_ASSIGN_OR_RETURN(Driver driver, Driver::make(std::move(parts), writer));
    LevelOptions options{.users = plan.users, .duration = plan.duration, .ramp = plan.ramp};
    options.grace = kGrace;
    options.warmups = std::min<std::int64_t>(plan.users, 4);
    driver.warm_up(0, options, interrupted);
    mock.reset_error();
    level = driver.run_level(0, options, interrupted, {});
  }
  if (interrupted) return run_error("interrupted during the self-audit");
  if (level.fault) return level.fault->within("self-audit");
  NIBBLE_RETURN_IF_ERROR(writer.finish());
  CalibrationTally tally(plan, level.begin + plan.ramp);
  const auto add = [&](const load::RequestRecord& record) -> Result<> {
    tally.add(record);
    return {};
  };
  NIBBLE_ASSIGN_OR_RETURN(const load::RowsRead read, load::for_each_row(writer.path(), add));
  static_cast<void>(read);
  NIBBLE_ASSIGN_OR_RETURN(load::Calibration found, tally.finish());
  found.mock_error_p99_ms = milliseconds(mock.stats().error.p99);
  found.client_cpu_us_per_event = level.events > 0 ? cpu_us_per_event(level) : 0;
  found.taken_unix_s = unix_now();
  return found;
}

}  // namespace nibble::drive
