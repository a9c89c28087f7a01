#include "machine/cpu_roofs.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "base/check.h"
#include "base/huge_buffer.h"
#include "base/stats.h"
#include "base/units.h"

namespace nibble {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kReadUnitBytes = std::size_t{1} << 20;
// 12 chains at two a cycle and 3 GHz: 40 us.
constexpr std::int64_t kRoundsOfUnit = 20'000;
constexpr std::int64_t kUnitsOfThread = 64;  // 2.5 ms a pass
constexpr std::uint8_t kFill = 1;
constexpr std::string_view kTwoHalves = "two halves of ";

double timed(ThreadPool& pool, const std::function<void(int)>& work) {
  const Clock::time_point start = Clock::now();
  pool.run(work);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::size_t whole_steps(std::size_t bytes) {
  return bytes / kReadStepBytes * kReadStepBytes;
}

// MemoryParts that each thread has touched first in its own part.
Result<HugeBuffer> filled_buffer(std::size_t bytes, ThreadPool& pool) {
  NIBBLE_ASSIGN_OR_RETURN(HugeBuffer buffer, HugeBuffer::allocate(bytes));
  const auto threads = static_cast<std::size_t>(pool.threads());
  const std::size_t part = (bytes + threads - 1) / threads;
  pool.run([&](int thread) {
    const std::size_t begin = std::min(bytes, part * static_cast<std::size_t>(thread));
    std::memset(buffer.data() + begin, kFill, std::min(part, bytes - begin));
  });
  return buffer;
}

// What one probe has reached so far.
struct Contender {
  std::size_t probe = 0;
  std::vector<double> rates;
};

// The `most` contenders with the best single pass: a neighbour slows passes down, so that a fast
// probe shows in its best pass, and the final between the best is by medians.
void keep_best(std::vector<Contender>& contenders, std::size_t most) {
  const auto best = [](const Contender& contender) {
    return *std::max_element(contender.rates.begin(), contender.rates.end());
  };
  std::stable_sort(
      contenders.begin(), contenders.end(),
      [&](const Contender& left, const Contender& right) { return best(left) > best(right); });
  if (contenders.size() > most) contenders.resize(most);
}

// Two passes of each probe, then `passes` of the three best in turn; the best by median.
template <class Rate>
Contender tournament(std::size_t probes, int passes, const Rate& rate) {
  constexpr int kHeats = 2;
  constexpr std::size_t kFinalists = 3;
  std::vector<Contender> contenders;
  for (std::size_t probe = 0; probe < probes; ++probe) contenders.push_back({.probe = probe});
  const auto run = [&](int count) {
    for (int pass = 0; pass < count; ++pass) {
      for (Contender& contender : contenders) contender.rates.push_back(rate(contender.probe));
    }
  };
  run(kHeats);
  keep_best(contenders, kFinalists);
  for (Contender& contender : contenders) contender.rates.clear();
  run(passes);
  return *std::max_element(contenders.begin(), contenders.end(),
                           [](const Contender& left, const Contender& right) {
                             return median(left.rates) < median(right.rates);
                           });
}

CpuRoof roof_of(Contender&& winner, std::string path) {
  CpuRoof roof{.path = std::move(path)};
  roof.value = median(winner.rates);
  roof.passes = std::move(winner.rates);
  return roof;
}

Result<CpuRoof> measure_read(const CpuRoofRequest& request, ThreadPool& pool) {
  const auto wanted = static_cast<std::size_t>(request.buffer_bytes);
  const std::size_t bytes = std::max(kReadStepBytes, whole_steps(wanted));
  NIBBLE_ASSIGN_OR_RETURN(const HugeBuffer buffer, filled_buffer(bytes, pool));
  const std::vector<ReadProbe> probes = read_probes();
  // Every byte is 1, so the sum says whether every word was read in every pass.
  constexpr std::uint64_t kWord = 0x0101010101010101;
  const auto rate = [&](std::size_t probe) {
    std::uint64_t sum = 0;
    const double seconds = read_seconds(probes[probe], {buffer.bytes()}, pool, &sum);
    NIBBLE_CHECK(sum == kWord * (bytes / sizeof(std::uint64_t)));
    return static_cast<double>(bytes) / seconds / kGiga;
  };
  Contender winner = tournament(probes.size(), request.passes, rate);
  std::string path = to_string(probes[winner.probe]);
  return roof_of(std::move(winner), std::move(path));
}

CpuRoof measure_rate(const std::vector<MultiplyProbe>& probes, int passes, ThreadPool& pool) {
  const std::int64_t units = kUnitsOfThread * pool.threads();
  const auto rate = [&](std::size_t probe) {
    return operations_of(probes[probe], units) / multiply_seconds(probes[probe], units, pool) /
           kTera;
  };
  // The heats let the clock settle at what wide vectors allow.
  Contender winner = tournament(probes.size(), passes, rate);
  std::string path = probes[winner.probe].path;
  return roof_of(std::move(winner), std::move(path));
}

// Narrower operands may always take a wider unit, and a 16-bit activation times a 4-bit weight is
// two products of its 8-bit halves: such a detour is a roof where it is faster.
void add_detours(std::map<Precision, CpuRoof>& rates) {
  const auto scaled = [](const CpuRoof& roof, double factor, std::string_view prefix) {
    CpuRoof other{.value = roof.value * factor, .path = fmt::format("{}{}", prefix, roof.path)};
    for (const double pass : roof.passes) other.passes.push_back(pass * factor);
    return other;
  };
  CpuRoof& sixteen = rates[Precision::kBf16];
  CpuRoof& eight = rates[Precision::kInt8];
  const CpuRoof& fp32 = rates[Precision::kFp32];
  if (fp32.value > sixteen.value) sixteen = fp32;
  if (eight.value / 2 > sixteen.value) sixteen = scaled(eight, 0.5, kTwoHalves);
  if (sixteen.value > eight.value) eight = sixteen;
}

}  // namespace

double read_seconds(const ReadProbe& probe, const MemoryParts& memory, ThreadPool& pool,
                    std::uint64_t* sum) {
  std::vector<std::span<const std::byte>> units;
  for (const std::span<const std::byte> part : memory) {
    const std::size_t total = whole_steps(part.size());
    for (std::size_t at = 0; at < total; at += kReadUnitBytes) {
      units.push_back(part.subspan(at, std::min(kReadUnitBytes, total - at)));
    }
  }
  WorkQueue queue(static_cast<std::int64_t>(units.size()));
  std::atomic<std::uint64_t> all = 0;
  const double seconds = timed(pool, [&](int) {
    std::uint64_t mine = 0;
    while (const auto number = queue.next()) {
      const std::span<const std::byte> unit = units[static_cast<std::size_t>(*number)];
      mine += probe.read(reinterpret_cast<const std::uint64_t*>(unit.data()),
                         unit.size() / sizeof(std::uint64_t));
    }
    all += mine;
  });
  if (sum != nullptr) *sum = all;
  return seconds;
}

double bytes_read(const MemoryParts& memory) {
  double bytes = 0;
  for (const std::span<const std::byte> part : memory) {
    bytes += static_cast<double>(whole_steps(part.size()));
  }
  return bytes;
}

double multiply_seconds(const MultiplyProbe& probe, std::int64_t units, ThreadPool& pool) {
  WorkQueue queue(units);
  return timed(pool, [&](int) {
    while (queue.next()) probe.run(kRoundsOfUnit);
  });
}

double operations_of(const MultiplyProbe& probe, std::int64_t units) {
  return probe.operations * static_cast<double>(kRoundsOfUnit * units);
}

ReadProbe fastest_read(const std::function<MemoryParts()>& next, int passes, ThreadPool& pool) {
  const std::vector<ReadProbe> probes = read_probes();
  const auto rate = [&](std::size_t probe) {
    const MemoryParts memory = next();
    return bytes_read(memory) / read_seconds(probes[probe], memory, pool);
  };
  return probes[tournament(probes.size(), passes, rate).probe];
}

std::optional<ReadProbe> find_read_probe(std::string_view path) {
  for (const ReadProbe& probe : read_probes()) {
    if (to_string(probe) == path) return probe;
  }
  return std::nullopt;
}

std::optional<MultiplyProbe> find_multiply_probe(std::string_view path) {
  const bool halves = path.starts_with(kTwoHalves);
  if (halves) path.remove_prefix(kTwoHalves.size());
  for (MultiplyProbe probe : multiply_probes()) {
    if (path != probe.path) continue;
    if (halves) probe.operations /= 2;
    return probe;
  }
  return std::nullopt;
}

Result<CpuRoofs> measure_cpu_roofs(const CpuRoofRequest& request) {
  NIBBLE_CHECK(request.threads >= 1 && request.passes >= 1 && request.buffer_bytes > 0);
  ThreadPool pool(request.threads);
  CpuRoofs roofs{.threads = request.threads, .buffer_bytes = request.buffer_bytes};
  NIBBLE_ASSIGN_OR_RETURN(roofs.read, measure_read(request, pool));
  std::map<Precision, std::vector<MultiplyProbe>> by_precision;
  for (const MultiplyProbe& probe : multiply_probes()) {
    by_precision[probe.precision].push_back(probe);
  }
  for (const auto& [precision, probes] : by_precision) {
    roofs.rates[precision] = measure_rate(probes, request.passes, pool);
  }
  add_detours(roofs.rates);
  return roofs;
}

Result<std::vector<CpuRoofs>> measure_thread_scaling(int most, double buffer_bytes, int passes) {
  constexpr int kEach = 8;
  std::vector<CpuRoofs> all;
  for (int threads = 1; threads <= most; threads += threads < kEach ? 1 : threads) {
    NIBBLE_ASSIGN_OR_RETURN(
        CpuRoofs roofs,
        measure_cpu_roofs({.threads = threads, .buffer_bytes = buffer_bytes, .passes = passes}));
    all.push_back(std::move(roofs));
  }
  if (all.back().threads != most) {
    NIBBLE_ASSIGN_OR_RETURN(
        CpuRoofs roofs,
        measure_cpu_roofs({.threads = most, .buffer_bytes = buffer_bytes, .passes = passes}));
    all.push_back(std::move(roofs));
  }
  return all;
}

double read_buffer_bytes(double last_level_cache_bytes, double available_bytes) {
  constexpr double kLeast = 256e6;
  // 2.5 x leaves less than 40 % to whatever part the caches keep between passes.
  const double wanted = std::max(kLeast, 2.5 * last_level_cache_bytes);
  return std::min(wanted, available_bytes / 2);
}

}  // namespace nibble
