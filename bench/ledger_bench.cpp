// What `nibble analyze` costs without its start: for every catalog model the load of the
// configuration, one step, and a sweep of 64 concurrencies. Bounds: 50 ms a run, 0.5 s a sweep.
//
//   make bench
#include <benchmark/benchmark.h>
#include <string>

#include "base/stats.h"
#include "ledger/step.h"
#include "model/config.h"

namespace nibble {
namespace {

constexpr const char* kMachine = "rtx-pro-6000-server";

Deployment deployment_of(const std::string& model, std::int64_t tp, Routing routing) {
  return {.model = load_model(model).value(),
          .machine = load_machine(kMachine).value(),
          .layout = {.tp = tp},
          .routing = std::move(routing)};
}

void run_once(benchmark::State& state, const std::string& model) {
  for (auto _ : state) {
    const Ledger ledger = Ledger::make(deployment_of(model, 8, Routing::uniform())).value();
    benchmark::DoNotOptimize(to_json(ledger.decode(1024).value()).dump());
  }
}

void sweep(benchmark::State& state, const std::string& model, const Routing& routing) {
  for (auto _ : state) {
    const Ledger ledger = Ledger::make(deployment_of(model, 8, routing)).value();
    for (int level = 1; level <= 64; ++level) {
      benchmark::DoNotOptimize(ledger.decode(64.0 * level).value());
    }
  }
}

}  // namespace
}  // namespace nibble

int main(int argc, char** argv) {
  using namespace nibble;
  for (const CatalogModel& model : model_catalog()) {
    // A model whose sizes eight GPUs do not divide has no such step; none is left out silently.
    const Result<Ledger> ledger = Ledger::make(deployment_of(model.name, 8, Routing::uniform()));
    if (!ledger.ok()) {
      fmt::print("{}: not under TP8: {}\n", model.name, ledger.error().message);
      continue;
    }
    const std::string name = model.name;
    benchmark::RegisterBenchmark(("analyze/" + name).c_str(), [name](benchmark::State& state) {
      run_once(state, name);
    })->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("sweep64/uniform/" + name).c_str(), [name](
                                                                          benchmark::State& state) {
      sweep(state, name, Routing::uniform());
    })->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("sweep64/zipf/" + name).c_str(), [name](benchmark::State& state) {
      sweep(state, name, Routing::zipf(1));
    })->Unit(benchmark::kMillisecond);
  }
  // Recorded counts of every layer are the most expensive routing: 75 lists of 256 experts.
  Routing recorded{.kind = Routing::Kind::kRecorded, .source = "recorded"};
  Random random(7);
  for (int layer = 0; layer < 75; ++layer) {
    std::vector<double> counts(256);
    for (double& count : counts) count = 100 + static_cast<double>(random.below(400));
    recorded.counts.push_back(std::move(counts));
  }
  benchmark::RegisterBenchmark("sweep64/recorded/glm-5-nvfp4", [recorded](benchmark::State& state) {
    sweep(state, "glm-5-nvfp4", recorded);
  })->Unit(benchmark::kMillisecond);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
