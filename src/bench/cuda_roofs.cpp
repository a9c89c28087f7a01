#include "bench/cuda_roofs.h"

#include <algorithm>
#include <cmath>

#include "base/stats.h"
#include "base/units.h"
#include "bench/cublaslt.h"
#include "bench/cuda_timer.h"
#include "bench/gpu_watch.h"
#include "machine/nvml.h"
#include "machine/roof_cache.h"
#include "measure/sampler.h"

namespace nibble {
namespace {

constexpr int kTrialPasses = 3;           // of each way to read, to choose the best
constexpr int kChainNodes = 65;           // of the graph that the gap between nodes comes from
constexpr double kStartBytes = 32 << 20;  // of the cold reads that tell what a start costs
constexpr std::int64_t kMatrixSide = 8192;

// Ways to read with bulk copies; those that need more shared memory than the GPU has are left out.
struct BulkWay {
  int stages;
  int stage_bytes;
  unsigned blocks_of_sm;
};
constexpr BulkWay kBulkWays[] = {
    {12, 16 << 10, 1}, {6, 32 << 10, 1}, {6, 16 << 10, 2}, {3, 16 << 10, 4}, {12, 4 << 10, 4}};
constexpr unsigned kPlainBlocks[] = {2, 4, 8};  // of an SM

// One way to do a thing: what it is called, and how to enqueue it for a part of the memory.
struct Way {
  std::string path;
  std::function<Result<>(cuda::DevicePointer data, std::int64_t bytes)> enqueue;
};

class GpuRoofMeter {
 public:
  GpuRoofMeter(const cuda::Device& gpu, const CudaProbes& probes, const GpuRoofRequest& request,
               CudaTimer timer, cuda::DeviceBuffer memory)
      : gpu_(gpu),
        probes_(probes),
        request_(request),
        timer_(std::move(timer)),
        memory_(std::move(memory)),
        watch_(gpu.info().pci) {}

  GpuRoofs measure(const std::function<void(std::string_view)>& progress) {
    GpuRoofs found = describe_gpu(gpu_.info());
    const auto add = [&](const char* key, Result<GpuRoof> roof) {
      found.roofs[key] = roof.ok() ? *roof : GpuRoof{.reason = roof.error().message};
    };
    progress("memory, read");
    add("read_gb_s", read());
    add("read_start_us", read_start());
    progress("memory, copy");
    add("copy_gb_s", copy());
    progress("L2 cache");
    add("l2_gb_s", l2());
    progress("launches");
    add("launch_us", launch());
    add("graph_launch_us", graph_launch());
    add("graph_gap_us", graph_gap(false));
    add("graph_gap_programmatic_us", graph_gap(true));
    progress("matrix, mma.sync");
    add("mma_bf16_tflops", mma());
    progress("matrix, bf16");
    add("bf16_tflops", matrix(LtFormat::kBf16));
    progress("matrix, fp8");
    add("fp8_tflops", matrix(LtFormat::kFp8));
    return found;
  }

 private:
  unsigned sms() const { return static_cast<unsigned>(gpu_.info().sms); }
  std::int64_t memory_bytes() const { return static_cast<std::int64_t>(memory_.size()); }
  cuda::DevicePointer sink() const { return memory_.address(); }

  // Runs `once`, which gives a number, until the time is spent, while the board is watched.
  Result<GpuRoof> watched(std::string path, const std::function<Result<double>()>& once) {
    constexpr std::size_t kLeast = 5;
    constexpr std::size_t kMost = 20000;
    if (const Result<double> warm = once(); !warm.ok()) return warm.error();
    GpuRoof roof{.path = std::move(path)};
    watch_.start();
    const double end = steady_now() + request_.seconds;
    Result<> failed;
    while (roof.passes.size() < kMost && (roof.passes.size() < kLeast || steady_now() < end)) {
      const Result<double> pass = once();
      if (!pass.ok()) {
        failed = pass.error();
        break;
      }
      roof.passes.push_back(*pass);
    }
    roof.conditions = watch_.stop();
    NIBBLE_RETURN_IF_ERROR(failed);
    roof.value = median(roof.passes);
    keep_few(roof.passes);
    return roof;
  }

  // A document does not need thousands of passes: evenly spaced ones of the sorted list.
  static void keep_few(std::vector<double>& passes) {
    constexpr std::size_t kKept = 25;
    if (passes.size() <= kKept) return;
    std::sort(passes.begin(), passes.end());
    std::vector<double> kept;
    for (std::size_t at = 0; at < kKept; ++at) {
      kept.push_back(passes[at * (passes.size() - 1) / (kKept - 1)]);
    }
    passes = std::move(kept);
  }

  Result<double> rate_of(const Way& way, double bytes_moved) {
    NIBBLE_ASSIGN_OR_RETURN(const double us, timer_.time_us_of([&] {
      return way.enqueue(memory_.address(), memory_bytes());
    }));
    return bytes_moved / us * 1e-3;
  }

  Result<> enqueue_bulk(const BulkWay& way, cuda::DevicePointer data, std::int64_t bytes) {
    const BulkParams params{.data = data,
                            .sink = sink(),
                            .tiles = bytes / way.stage_bytes,
                            .stages = way.stages,
                            .stage_bytes = way.stage_bytes};
    return cuda::launch(probes_.kernel("read_bulk"),
                        {.grid = {sms() * way.blocks_of_sm},
                         .block = {static_cast<unsigned>(kBulkThreads)},
                         .dynamic_shared = static_cast<std::size_t>(way.stages) *
                                           static_cast<std::size_t>(way.stage_bytes)},
                        timer_.stream(), params);
  }

  std::vector<Way> read_ways() {
    std::vector<Way> ways;
    for (const unsigned blocks : kPlainBlocks) {
      ways.push_back({fmt::format("16-byte loads, {} in flight, {} blocks of {} threads an SM",
                                  kReadsInFlight, blocks, kReadThreads),
                      [this, blocks](cuda::DevicePointer data, std::int64_t bytes) {
                        return cuda::launch(
                            probes_.kernel("read_plain"),
                            {.grid = {sms() * blocks}, .block = {unsigned{kReadThreads}}},
                            timer_.stream(),
                            ReadParams{.data = data, .sink = sink(), .units = bytes / 16});
                      }});
    }
    if (!probes_.has("read_bulk")) return ways;
    for (const BulkWay& way : kBulkWays) {
      const auto bytes = static_cast<std::size_t>(way.stages * way.stage_bytes);
      if (bytes > probes_.kernel("read_bulk").max_dynamic_shared()) continue;
      ways.push_back(
          {fmt::format("bulk copies, {} stages of {} KB, {} block{} an SM", way.stages,
                       way.stage_bytes / 1024, way.blocks_of_sm, way.blocks_of_sm == 1 ? "" : "s"),
           [this, way](cuda::DevicePointer data, std::int64_t size) {
             return enqueue_bulk(way, data, size);
           }});
    }
    return ways;
  }

  Result<GpuRoof> read() {
    const double bytes = static_cast<double>(memory_bytes());
    double best = 0;
    Result<> failed;
    for (Way& way : read_ways()) {
      std::vector<double> passes;
      for (int pass = 0; pass <= kTrialPasses; ++pass) {
        const Result<double> rate = rate_of(way, bytes);
        if (!rate.ok()) {
          failed = rate.error();
          break;
        }
        if (pass > 0) passes.push_back(*rate);
      }
      if (passes.empty() || median(passes) <= best) continue;
      best = median(passes);
      best_read_ = std::move(way);
    }
    if (!best_read_) return failed.ok() ? run_error("no way to read ran") : failed.error();
    NIBBLE_ASSIGN_OR_RETURN(GpuRoof roof,
                            watched(best_read_->path, [&] { return rate_of(*best_read_, bytes); }));
    read_gb_s_ = roof.value;
    return roof;
  }

  // What a read takes beyond its bytes at the roof: the launch, and the way from the first request
  // to full speed. Parts of the memory in turn, so that each was long not met.
  Result<GpuRoof> read_start() {
    if (!best_read_) return run_error("memory could not be read");
    const auto part =
        std::min<std::int64_t>(static_cast<std::int64_t>(kStartBytes), memory_bytes() / 2);
    const std::int64_t parts = memory_bytes() / part;
    std::int64_t next = 0;
    const double rest_us = static_cast<double>(part) / read_gb_s_ * 1e-3;
    return watched(fmt::format("cold reads of {}, less their time at the roof",
                               format_bytes(static_cast<double>(part))),
                   [&, part]() -> Result<double> {
                     const std::int64_t at = next++ % parts * part;
                     NIBBLE_ASSIGN_OR_RETURN(const double us, timer_.time_us_of([&] {
                       return best_read_->enqueue(
                           memory_.address() + static_cast<std::uint64_t>(at), part);
                     }));
                     return std::max(0.0, us - rest_us);
                   });
  }

  Result<GpuRoof> copy() {
    constexpr unsigned kBlocksOfSm = 8;
    const std::int64_t half = memory_bytes() / 2 / 16 * 16;
    const Way way{
        fmt::format("16-byte loads and stores, {} blocks of {} threads an SM", kBlocksOfSm,
                    kReadThreads),
        [this, half](cuda::DevicePointer data, std::int64_t) {
          return cuda::launch(
              probes_.kernel("copy_plain"),
              {.grid = {sms() * kBlocksOfSm}, .block = {unsigned{kReadThreads}}}, timer_.stream(),
              CopyParams{
                  .from = data, .to = data + static_cast<std::uint64_t>(half), .units = half / 16});
        }};
    return watched(way.path, [&] { return rate_of(way, 2.0 * static_cast<double>(half)); });
  }

  // Of a third of the cache, so that all of it stays there.
  Result<GpuRoof> l2() {
    constexpr unsigned kBlocksOfSm = 2;
    constexpr int kPasses = 200;
    const std::int64_t sweep =
        std::int64_t{sms() * kBlocksOfSm} * kReadThreads * kReadsInFlight * 16;
    const auto room = static_cast<std::int64_t>(gpu_.info().l2_bytes / 3);
    const std::int64_t bytes = std::max<std::int64_t>(1, room / sweep) * sweep;
    if (bytes > memory_bytes()) return run_error("too little memory is free");
    return watched(
        fmt::format("16-byte loads of {} over and over", format_bytes(static_cast<double>(bytes))),
        [&]() -> Result<double> {
          NIBBLE_ASSIGN_OR_RETURN(const double us, timer_.time_us_of([&] {
            return cuda::launch(probes_.kernel("read_l2"),
                                {.grid = {sms() * kBlocksOfSm}, .block = {unsigned{kReadThreads}}},
                                timer_.stream(),
                                ReadParams{.data = memory_.address(),
                                           .sink = sink(),
                                           .units = bytes / 16,
                                           .passes = kPasses});
          }));
          return static_cast<double>(bytes) * kPasses / us * 1e-3;
        });
  }

  Result<GpuRoof> launch() {
    return watched("from the call to the end of a wait for it, on the host",
                   [&]() -> Result<double> {
                     const double start = steady_now();
                     NIBBLE_RETURN_IF_ERROR(probes_.empty(timer_.stream()));
                     NIBBLE_RETURN_IF_ERROR(timer_.stream().synchronize());
                     return (steady_now() - start) * 1e6;
                   });
  }

  Result<cuda::Graph> chain(int nodes, bool programmatic) {
    return timer_.stream().capture([&]() -> Result<> {
      for (int node = 0; node < nodes; ++node) {
        NIBBLE_RETURN_IF_ERROR(programmatic ? probes_.empty_programmatic(timer_.stream())
                                            : probes_.empty(timer_.stream()));
      }
      return {};
    });
  }

  Result<GpuRoof> graph_launch() {
    NIBBLE_ASSIGN_OR_RETURN(cuda::Graph graph, chain(1, false));
    return watched("between two events around it", [&] { return timer_.time_us(graph); });
  }

  Result<GpuRoof> graph_gap(bool programmatic) {
    NIBBLE_ASSIGN_OR_RETURN(cuda::Graph one, chain(1, programmatic));
    NIBBLE_ASSIGN_OR_RETURN(cuda::Graph many, chain(kChainNodes, programmatic));
    return watched(fmt::format("graphs of {} and 1 empty kernels{}", kChainNodes,
                               programmatic ? ", programmatic dependent launch" : ""),
                   [&]() -> Result<double> {
                     NIBBLE_ASSIGN_OR_RETURN(const double short_us, timer_.time_us(one));
                     NIBBLE_ASSIGN_OR_RETURN(const double long_us, timer_.time_us(many));
                     return std::max(0.0, long_us - short_us) / (kChainNodes - 1);
                   });
  }

  Result<GpuRoof> mma() {
    constexpr int kRounds = 20000;
    constexpr double kFlopOfProduct = 2.0 * 16 * 8 * 16;
    const double flop =
        kFlopOfProduct * kMmaTiles * (kMmaThreads / 32) * kRounds * static_cast<double>(sms());
    return watched(fmt::format("m16n8k16, {} warps an SM, operands in registers", kMmaThreads / 32),
                   [&]() -> Result<double> {
                     NIBBLE_ASSIGN_OR_RETURN(const double us, timer_.time_us_of([&] {
                       return cuda::launch(probes_.kernel("mma_rate"),
                                           {.grid = {sms()}, .block = {unsigned{kMmaThreads}}},
                                           timer_.stream(),
                                           MmaParams{.sink = sink(), .rounds = kRounds});
                     }));
                     return flop / us * 1e-6;
                   });
  }

  Result<GpuRoof> matrix(LtFormat format) {
    NIBBLE_ASSIGN_OR_RETURN(const Cublaslt* lt, Cublaslt::get());
    const LtShape shape{.format = format, .m = kMatrixSide, .n = kMatrixSide, .k = kMatrixSide};
    const std::int64_t values = kMatrixSide * kMatrixSide;
    const auto operand =
        static_cast<std::uint64_t>(static_cast<double>(values) * bytes_per_value(format));
    if (memory_.size() < 2 * operand + static_cast<std::uint64_t>(values) * 2) {
      return run_error("too little memory is free for {} x {} matrices", kMatrixSide, kMatrixSide);
    }
    NIBBLE_ASSIGN_OR_RETURN(LtProduct product, LtProduct::make(*lt, shape));
    NIBBLE_RETURN_IF_ERROR(probes_.fill(
        memory_, {.seed = 7, .filling = format == LtFormat::kFp8 ? Filling::kFp8 : Filling::kBf16},
        timer_.stream()));
    const LtArguments arguments{.weights = memory_.address(),
                                .activations = memory_.address() + operand,
                                .output = memory_.address() + 2 * operand};
    const double flop = 2 * std::pow(static_cast<double>(kMatrixSide), 3);
    return watched(fmt::format("cuBLASLt {}, {} x {} x {}", lt->version(), kMatrixSide, kMatrixSide,
                               kMatrixSide),
                   [&]() -> Result<double> {
                     NIBBLE_ASSIGN_OR_RETURN(const double us, timer_.time_us_of([&] {
                       return product.enqueue(arguments, timer_.stream());
                     }));
                     return flop / us * 1e-6;
                   });
  }

  const cuda::Device& gpu_;
  const CudaProbes& probes_;
  const GpuRoofRequest& request_;
  CudaTimer timer_;
  cuda::DeviceBuffer memory_;
  GpuWatch watch_;
  std::optional<Way> best_read_;
  double read_gb_s_ = 0;
};

}  // namespace

GpuRoofs describe_gpu(const cuda::DeviceInfo& info) {
  return {.title = info.name,
          .arch = info.arch(),
          .uuid = info.uuid,
          .driver = Nvml::open().driver_version(),
          .sms = info.sms,
          .memory_bytes = info.memory_bytes,
          .l2_bytes = info.l2_bytes,
          .taken_unix_s = unix_now()};
}

Result<GpuRoofs> measure_gpu_roofs(const cuda::Device& gpu, const CudaProbes& probes,
                                   const GpuRoofRequest& request,
                                   const std::function<void(std::string_view)>& progress) {
  NIBBLE_ASSIGN_OR_RETURN(const double free_bytes, gpu.free_memory_bytes());
  const double wanted = std::min(request.most_bytes, free_bytes / 2);
  constexpr std::size_t kUnit = std::size_t{1} << 20;
  const std::size_t bytes = static_cast<std::size_t>(wanted) / kUnit * kUnit;
  if (bytes < 64 * kUnit) {
    return run_error("{} has {} of memory free; its roofs need 128 MB: end what else runs on it",
                     gpu.info().name, format_bytes(free_bytes));
  }
  NIBBLE_ASSIGN_OR_RETURN(CudaTimer timer, CudaTimer::make(probes));
  NIBBLE_ASSIGN_OR_RETURN(cuda::DeviceBuffer memory, cuda::DeviceBuffer::make(bytes));
  NIBBLE_RETURN_IF_ERROR(probes.fill(memory, {.seed = 1}, timer.stream()));
  NIBBLE_RETURN_IF_ERROR(timer.stream().synchronize());
  return GpuRoofMeter(gpu, probes, request, std::move(timer), std::move(memory)).measure(progress);
}

}  // namespace nibble
