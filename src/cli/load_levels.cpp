// How much load, when, and how long: the levels of a run.
#include <cmath>
#include <limits>

#include "base/text.h"
#include "cli/load_flags.h"

namespace nibble::cli {
namespace {

constexpr std::int64_t kMostUsers = 1'000'000;
constexpr std::int64_t kMostRequests = 1'000'000'000;
constexpr std::size_t kMostLevels = 1000;
constexpr double kInfinite = std::numeric_limits<double>::infinity();
// Of an open loop that ends by time.
constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max() / 2;

using drive::LevelOptions;
using IntegerList = std::vector<std::int64_t>;

// In the order in which they were given and with repetitions: a level may be run twice.
Result<IntegerList> ordered_list(const Arguments& arguments, std::string_view option,
                                 std::int64_t most) {
  IntegerList list;
  const std::optional<std::string> text = arguments.text(option);
  if (!text) return list;
  for (const std::string& element : split(*text, ',')) {
    Arguments one;
    one.given.emplace(option, std::vector<std::string>{element});
    NIBBLE_ASSIGN_OR_RETURN(const auto given, one.integers(option, 1, most));
    const IntegerList values = given.value_or(IntegerList());
    list.insert(list.end(), values.begin(), values.end());
  }
  if (list.size() > kMostLevels) {
    return usage_error("{} lists {} levels; give at most {}", option, list.size(), kMostLevels);
  }
  return list;
}

Result<std::vector<double>> rates_from(const Arguments& arguments) {
  std::vector<double> rates;
  const std::optional<std::string> text = arguments.text("--request-rate");
  if (!text) return rates;
  for (const std::string& element : split(*text, ',')) {
    if (to_lower(element) == "inf") {
      rates.push_back(kInfinite);
      continue;
    }
    Arguments one;
    one.given["--request-rate"] = {element};
    const auto rate = one.number("--request-rate", 0, 1e9, true);
    if (!rate.ok()) {
      return usage_error(
          "--request-rate has \"{}\"; give requests a second above 0, inf, or a list as 1,2,4",
          printable(element));
    }
    rates.push_back(**rate);
  }
  if (rates.size() > kMostLevels) {
    return usage_error("--request-rate lists {} levels; give at most {}", rates.size(),
                       kMostLevels);
  }
  return rates;
}

Result<std::optional<load::RampUp>> ramp_up_from(const Arguments& arguments) {
  using Ramp = std::optional<load::RampUp>;
  NIBBLE_ASSIGN_OR_RETURN(const auto start, arguments.number("--ramp-up-start-rps", 0, 1e9, true));
  NIBBLE_ASSIGN_OR_RETURN(const auto end, arguments.number("--ramp-up-end-rps", 0, 1e9, true));
  const std::optional<std::string> strategy = arguments.text("--ramp-up-strategy");
  if (!strategy && !start && !end) return Ramp();
  if (!strategy || !start || !end) {
    return usage_error(
        "--ramp-up-strategy, --ramp-up-start-rps and --ramp-up-end-rps stand together; give all "
        "three");
  }
  return Ramp(load::RampUp{.strategy = *strategy == "linear" ? load::RampStrategy::kLinear
                                                             : load::RampStrategy::kExponential,
                           .start_rps = *start,
                           .end_rps = *end});
}

// Everything that the levels are made of.
struct LoadShape {
  IntegerList users;
  std::vector<double> rates;
  IntegerList requests;
  std::optional<load::RampUp> ramp_up;
  std::vector<Nanoseconds> trace;
  std::optional<double> burstiness;
  LevelOptions common;  // times and warm-ups

  bool open() const { return !rates.empty() || ramp_up || !trace.empty(); }
};

Result<> read_times(const Arguments& arguments, LevelOptions& level) {
  NIBBLE_ASSIGN_OR_RETURN(const auto duration, seconds_from(arguments, "--duration", true));
  NIBBLE_ASSIGN_OR_RETURN(const auto longest, seconds_from(arguments, "--longest-level", true));
  NIBBLE_ASSIGN_OR_RETURN(const auto grace, seconds_from(arguments, "--grace"));
  NIBBLE_ASSIGN_OR_RETURN(const auto ramp, seconds_from(arguments, "--ramp"));
  NIBBLE_ASSIGN_OR_RETURN(const auto warmups, arguments.integer("--num-warmups", 0, kMostRequests));
  level.duration = duration.value_or(0);
  level.longest = longest.value_or(level.longest);
  level.grace = grace.value_or(level.grace);
  level.ramp = ramp.value_or(0);
  level.warmups = warmups.value_or(level.warmups);
  return {};
}

Result<> read_trace(const Arguments& arguments, LoadShape& shape) {
  NIBBLE_ASSIGN_OR_RETURN(const auto speed, arguments.number("--trace-speed", 0, 1e6, true));
  if (const auto path = arguments.text("--trace")) {
    NIBBLE_ASSIGN_OR_RETURN(shape.trace, load::load_trace(*path, speed.value_or(1)));
  } else if (speed) {
    return usage_error("--trace-speed needs --trace, whose speed it is");
  }
  return {};
}

Result<LoadShape> read_shape(const Arguments& arguments, const LevelDefaults& defaults) {
  LoadShape shape;
  NIBBLE_ASSIGN_OR_RETURN(shape.users, ordered_list(arguments, "--max-concurrency", kMostUsers));
  NIBBLE_ASSIGN_OR_RETURN(shape.rates, rates_from(arguments));
  NIBBLE_ASSIGN_OR_RETURN(shape.requests, ordered_list(arguments, "--num-prompts", kMostRequests));
  NIBBLE_ASSIGN_OR_RETURN(shape.ramp_up, ramp_up_from(arguments));
  NIBBLE_RETURN_IF_ERROR(read_trace(arguments, shape));
  NIBBLE_RETURN_IF_ERROR(read_times(arguments, shape.common));
  NIBBLE_ASSIGN_OR_RETURN(shape.burstiness, arguments.number("--burstiness", 0, 1e9, true));
  if (arguments.has("--constant-rate")) {
    if (shape.burstiness) {
      return usage_error("--burstiness and --constant-rate exclude each other; give one");
    }
    shape.burstiness = kInfinite;
  }
  if (shape.requests.empty() && shape.common.duration == 0 && defaults.requests > 0) {
    shape.requests.push_back(defaults.requests);
  }
  return shape;
}

Result<> check_sources(const Arguments& arguments, const LoadShape& shape) {
  const int sources = !shape.rates.empty() + shape.ramp_up.has_value() + !shape.trace.empty();
  if (sources > 1) {
    return usage_error(
        "--request-rate, --ramp-up-strategy and --trace each say when requests are sent; give one");
  }
  if (shape.open() && shape.users.size() > 1) {
    return usage_error(
        "--max-concurrency is a list of {} beside {}; a sweep goes over one of them: give one "
        "limit",
        shape.users.size(),
        !shape.trace.empty() ? "--trace"
        : shape.ramp_up      ? "--ramp-up-strategy"
                             : "--request-rate");
  }
  if (shape.open() && shape.common.ramp > 0) {
    return usage_error(
        "--ramp is for the users of --max-concurrency; leave it out, or give "
        "--ramp-up-strategy for a rate");
  }
  const bool rated = shape.ramp_up || !shape.rates.empty();
  if (arguments.has("--constant-rate") && !rated) {
    return usage_error("--constant-rate needs --request-rate");
  }
  if (!shape.open() && shape.users.empty() && shape.requests.empty()) {
    return usage_error(
        "nothing says how much load to make; sweep with --max-concurrency 1,2,4,8,16, or give "
        "--request-rate or --num-prompts");
  }
  return {};
}

Result<> check_ends(const Arguments& arguments, const LoadShape& shape) {
  const bool by_rate = shape.requests.empty() && shape.common.duration == 0 && shape.trace.empty();
  if (!by_rate && arguments.has("--longest-level")) {
    return usage_error(
        "--longest-level is for levels that end by their token rate; leave it out beside "
        "--num-prompts, --duration and --trace");
  }
  if (shape.requests.empty() && shape.ramp_up) {
    return usage_error("--ramp-up-strategy needs --num-prompts: the rate changes over them");
  }
  for (const double rate : shape.rates) {
    if (std::isfinite(rate) || !shape.users.empty() || !shape.requests.empty()) continue;
    return usage_error(
        "--request-rate inf sends everything at once; give --num-prompts, or a limit by "
        "--max-concurrency");
  }
  return {};
}

Result<LevelOptions> level_of(const LoadShape& shape, std::size_t index, std::uint64_t seed) {
  LevelOptions level = shape.common;
  const std::size_t last_request = shape.requests.size() - 1;
  if (!shape.requests.empty()) level.requests = shape.requests[std::min(index, last_request)];
  if (!shape.users.empty()) level.users = shape.users[std::min(index, shape.users.size() - 1)];
  if (!shape.trace.empty()) {
    level.trace = shape.trace;
    const auto recorded = static_cast<std::int64_t>(level.trace.size());
    if (level.requests == 0 || level.requests > recorded) level.requests = recorded;
    level.trace.resize(static_cast<std::size_t>(level.requests));
    return level;
  }
  const double rate = shape.rates.empty() ? kInfinite : shape.rates[index];
  // All at once behind a limit is a closed loop.
  if (!shape.ramp_up && std::isinf(rate) && level.users) return level;
  level.arrivals = load::ScheduleOptions{.request_rate = rate,
                                         .burstiness = shape.burstiness.value_or(1),
                                         .ramp_up = shape.ramp_up,
                                         .requests = level.requests > 0 ? level.requests : kEndless,
                                         .seed = seed + index};
  const Result<load::ArrivalTimes> times = load::ArrivalTimes::make(*level.arrivals);
  if (!times.ok()) return times.error();
  return level;
}

void note_levels(const LoadShape& shape, const std::vector<LevelOptions>& levels, Notes& notes) {
  bool rated = shape.ramp_up.has_value();
  for (const double rate : shape.rates) rated = rated || std::isfinite(rate);
  if (shape.burstiness && !rated) {
    notes.push_back("--burstiness changes nothing: no rate is given");
  }
  const auto recorded = static_cast<std::int64_t>(shape.trace.size());
  if (recorded > 0 && !shape.requests.empty() && shape.requests.front() > recorded) {
    notes.push_back(
        fmt::format("the trace has {} arrivals, fewer than the {} of --num-prompts: it "
                    "is sent once",
                    recorded, shape.requests.front()));
  }
  std::vector<std::string> few;
  for (const LevelOptions& level : levels) {
    const bool closed = level.users && !level.open();
    if (!closed || level.requests == 0 || level.requests >= *level.users) continue;
    few.push_back(fmt::format("{}", *level.users));
  }
  if (few.empty()) return;
  notes.push_back(fmt::format(
      "fewer requests than --max-concurrency at {}: so many are never under way at once",
      join(few, ", ")));
}

}  // namespace

Result<std::vector<LevelOptions>> levels_from(const Arguments& arguments,
                                              const LevelDefaults& defaults, Notes& notes) {
  NIBBLE_ASSIGN_OR_RETURN(const LoadShape shape, read_shape(arguments, defaults));
  NIBBLE_RETURN_IF_ERROR(check_sources(arguments, shape));
  NIBBLE_RETURN_IF_ERROR(check_ends(arguments, shape));
  std::size_t count = 1;
  if (!shape.rates.empty()) {
    count = shape.rates.size();
  } else if (!shape.open()) {
    count = std::max<std::size_t>(1, shape.users.size());
  }
  if (shape.requests.size() > 1 && shape.requests.size() != count) {
    return usage_error("--num-prompts lists {} numbers for {} level{}; give one, or one for each",
                       shape.requests.size(), count, count == 1 ? "" : "s");
  }
  std::vector<LevelOptions> levels;
  for (std::size_t index = 0; index < count; ++index) {
    NIBBLE_ASSIGN_OR_RETURN(LevelOptions level, level_of(shape, index, defaults.seed));
    levels.push_back(std::move(level));
  }
  note_levels(shape, levels, notes);
  return levels;
}

}  // namespace nibble::cli
