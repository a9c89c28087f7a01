#include "telemetry/cpu_source.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/text.h"

namespace nibble::telemetry {
namespace {

namespace fs = std::filesystem;

// Files of /proc and /sys state no size, so they are read to their end.
Result<std::string> text_of(const fs::path& path) {
  errno = 0;
  std::ifstream file(path);
  if (!file) return run_error("{}: {}", path.string(), errno_text(errno));
  std::ostringstream text;
  text << file.rdbuf();
  if (text.str().empty()) return run_error("{} is empty", path.string());
  return std::move(text).str();
}

Result<double> number_of(const fs::path& path) {
  NIBBLE_ASSIGN_OR_RETURN(const std::string text, text_of(path));
  const std::string_view word = trim(text);
  double number = 0;
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || stop != word.data() + word.size()) {
    return run_error("{} holds \"{}\", not a number", path.string(), printable(word));
  }
  return number;
}

class CpuSource : public Source {
 public:
  CpuSource(fs::path root, SampleStore& store) : root_(std::move(root)), store_(store) {
    total_ = declare({.name = "cpu.utilization", .unit = "%", .low = 0, .high = 100});
    busiest_ = declare({.name = "cpu.busiest_core", .unit = "%", .low = 0, .high = 100});
    stolen_ = declare({.name = "cpu.stolen", .unit = "%", .low = 0, .high = 100});
    switches_ = declare({.name = "cpu.context_switches", .unit = "/s", .low = 0, .high = 1e9});
    own_ = declare({.name = "process.cpu", .unit = "cores", .low = 0, .high = 10000});
  }
  SourceInfo info() const override { return {"CPU", "cpu", kCpuPeriod}; }
  std::vector<SignalId> signals() const override { return signals_; }

  Result<> sample() override {
    const Nanoseconds at = monotonic_now();
    NIBBLE_ASSIGN_OR_RETURN(const std::string text, text_of(root_ / "proc/stat"));
    NIBBLE_ASSIGN_OR_RETURN(ProcStat now, parse_proc_stat(text));
    sample_own(at);
    if (before_) add(at, *before_, now);
    before_ = std::move(now);
    before_at_ = at;
    return {};
  }

 private:
  SignalId declare(Signal signal) {
    signal.source = signal.name.starts_with("process") ? "/proc/self/stat" : "/proc/stat";
    const SignalId id = store_.declare(std::move(signal));
    signals_.push_back(id);
    return id;
  }

  // iowait may go back a little, and a core that was off starts anew: such an interval says
  // nothing.
  static std::optional<double> share(std::uint64_t before, std::uint64_t now, const CoreTicks& from,
                                     const CoreTicks& to) {
    if (to.total <= from.total || now < before) return std::nullopt;
    const double total = static_cast<double>(to.total - from.total);
    return std::min(100.0, 100 * static_cast<double>(now - before) / total);
  }

  void add(Nanoseconds at, const ProcStat& from, const ProcStat& to) {
    std::optional<double> busiest;
    for (const auto& [core, ticks] : to.cores) {
      const auto earlier = from.cores.find(core);
      if (earlier == from.cores.end()) continue;
      const CoreTicks& old = earlier->second;
      const auto busy = share(old.busy, ticks.busy, old, ticks);
      if (!busy) continue;
      if (core >= 0) {
        busiest = std::max(busiest.value_or(0), *busy);
        store_.add(core_signal(core), at, *busy);
        continue;
      }
      store_.add(total_, at, *busy);
      const auto stolen = share(old.stolen, ticks.stolen, old, ticks);
      if (stolen) store_.add(stolen_, at, *stolen);
    }
    if (busiest) store_.add(busiest_, at, *busiest);
    const double span_s = seconds(at - before_at_);
    if (from.context_switches && to.context_switches && span_s > 0 &&
        *to.context_switches >= *from.context_switches) {
      const auto count = static_cast<double>(*to.context_switches - *from.context_switches);
      store_.add(switches_, at, count / span_s);
    }
  }

  SignalId core_signal(int core) {
    const auto known = cores_.find(core);
    if (known != cores_.end()) return known->second;
    const SignalId id = declare(
        {.name = fmt::format("cpu{}.utilization", core), .unit = "%", .low = 0, .high = 100});
    cores_.emplace(core, id);
    return id;
  }

  void sample_own(Nanoseconds at) {
    const Result<std::string> text = text_of(root_ / "proc/self/stat");
    const auto ticks_per_s = static_cast<double>(::sysconf(_SC_CLK_TCK));
    const Result<double> used =
        text ? parse_process_seconds(*text, ticks_per_s) : Result<double>(text.error());
    if (!used) {
      store_.set_unavailable(own_, used.error().message);
      own_before_.reset();
      return;
    }
    if (own_before_ && at > before_at_ && *used >= *own_before_) {
      store_.add(own_, at, (*used - *own_before_) / seconds(at - before_at_));
    }
    own_before_ = *used;
  }

  fs::path root_;
  SampleStore& store_;
  SignalId total_ = 0;
  SignalId busiest_ = 0;
  SignalId stolen_ = 0;
  SignalId switches_ = 0;
  SignalId own_ = 0;
  std::map<int, SignalId> cores_;
  std::vector<SignalId> signals_;
  std::optional<ProcStat> before_;
  std::optional<double> own_before_;
  Nanoseconds before_at_ = 0;
};

class FrequencySource : public Source {
 public:
  FrequencySource(fs::path root, SampleStore& store) : root_(std::move(root)), store_(store) {
    std::error_code error;
    for (int cpu = 0;; ++cpu) {
      fs::path file =
          root_ / fmt::format("sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq", cpu);
      if (!fs::exists(file, error)) break;
      files_.push_back(std::move(file));
    }
    id_ = store_.declare({.name = "cpu.frequency",
                          .unit = "MHz",
                          .source = files_.empty() ? "/proc/cpuinfo" : "cpufreq",
                          .low = 10,
                          .high = 20000});
  }
  SourceInfo info() const override { return {"CPU frequency", "cpu", kFrequencyPeriod}; }
  std::vector<SignalId> signals() const override { return {id_}; }

  Result<> sample() override {
    const Nanoseconds at = monotonic_now();
    if (files_.empty()) {
      NIBBLE_ASSIGN_OR_RETURN(const std::string text, text_of(root_ / "proc/cpuinfo"));
      const std::optional<double> mhz = mean_cpuinfo_mhz(text);
      if (!mhz) return run_error("neither cpufreq nor /proc/cpuinfo tells the clock");
      store_.add(id_, at, *mhz);
      return {};
    }
    double sum_khz = 0;
    for (const fs::path& file : files_) {
      NIBBLE_ASSIGN_OR_RETURN(const double khz, number_of(file));
      sum_khz += khz;
    }
    store_.add(id_, at, sum_khz / 1e3 / static_cast<double>(files_.size()));
    return {};
  }

 private:
  fs::path root_;
  SampleStore& store_;
  std::vector<fs::path> files_;  // one a core
  SignalId id_ = 0;
};

// One zone of RAPL: a package, or the memory of one.
struct RaplZone {
  fs::path folder;
  double range_uj = 0;
  std::optional<double> before_uj;
  double total_j = 0;  // since the first reading, without the counter's turns
  Nanoseconds before_at = 0;
  SignalId energy = 0;
  SignalId power = 0;
};

class RaplSource : public Source {
 public:
  RaplSource(const fs::path& root, SampleStore& store) : store_(store) {
    const fs::path folder = root / "sys/class/powercap";
    std::error_code error;
    std::vector<fs::path> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      // "intel-rapl:0", also on AMD; "intel-rapl:0:1" are parts of it, of which the memory counts.
      if (entry.path().filename().string().starts_with("intel-rapl:")) found.push_back(entry);
    }
    std::sort(found.begin(), found.end());
    for (const fs::path& zone : found) add_zone(zone);
    if (zones_.empty()) {
      store_.declare({.name = "cpu.power",
                      .unit = "W",
                      .source = "RAPL",
                      .available = false,
                      .reason = "this machine shows no RAPL zones in " + folder.string()});
    }
  }
  SourceInfo info() const override { return {"RAPL", "cpu", kCpuPeriod}; }
  std::vector<SignalId> signals() const override { return signals_; }
  bool empty() const { return zones_.empty(); }

  Result<> sample() override {
    std::optional<Error> fault;
    bool any = false;
    for (RaplZone& zone : zones_) {
      const Nanoseconds at = monotonic_now();
      const Result<double> now = number_of(zone.folder / "energy_uj");
      if (now) {
        any = true;
        add(zone, at, *now);
        continue;
      }
      fault = run_error("{}; RAPL is often for root alone", now.error().message);
      store_.set_unavailable(zone.energy, fault->message);
      store_.set_unavailable(zone.power, fault->message);
      zone.before_uj.reset();
    }
    if (fault && !any) return *fault;
    return {};
  }

 private:
  void add_zone(const fs::path& folder) {
    const Result<std::string> name = text_of(folder / "name");
    if (!name) return;
    const std::string what(trim(*name));
    if (!what.starts_with("package") && what != "dram") return;
    RaplZone zone{.folder = folder};
    const Result<double> range = number_of(folder / "max_energy_range_uj");
    if (range) zone.range_uj = *range;
    const std::string id = folder.filename().string().substr(std::strlen("intel-rapl:"));
    const std::string owner = (what == "dram" ? "dram" : "package") + id.substr(0, id.find(':'));
    zone.energy = declare(owner, "energy", "J", SignalKind::kCounter, 1e12);
    zone.power = declare(owner, "power", "W", SignalKind::kGauge, 5000);
    zones_.push_back(std::move(zone));
  }

  SignalId declare(const std::string& owner, const char* what, const char* unit, SignalKind kind,
                   double high) {
    const SignalId id = store_.declare({.name = fmt::format("{}.{}", owner, what),
                                        .unit = unit,
                                        .source = "RAPL",
                                        .kind = kind,
                                        .low = 0,
                                        .high = high});
    signals_.push_back(id);
    return id;
  }

  void add(RaplZone& zone, Nanoseconds at, double now_uj) {
    if (zone.before_uj) {
      const double grown_j = wrapped_difference(*zone.before_uj, now_uj, zone.range_uj) * 1e-6;
      zone.total_j += grown_j;
      if (at > zone.before_at) store_.add(zone.power, at, grown_j / seconds(at - zone.before_at));
    }
    store_.add(zone.energy, at, zone.total_j);
    zone.before_uj = now_uj;
    zone.before_at = at;
  }

  SampleStore& store_;
  std::vector<RaplZone> zones_;
  std::vector<SignalId> signals_;
};

}  // namespace

std::vector<std::unique_ptr<Source>> cpu_sources(const CpuOptions& options, SampleStore& store) {
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(std::make_unique<CpuSource>(options.root, store));
  sources.push_back(std::make_unique<FrequencySource>(options.root, store));
  auto rapl = std::make_unique<RaplSource>(options.root, store);
  if (!rapl->empty()) sources.push_back(std::move(rapl));
  return sources;
}

}  // namespace nibble::telemetry
