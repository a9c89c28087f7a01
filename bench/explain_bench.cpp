// What a user of `nibble analyze` waits for beside the ledger: reading a model, the list of
// machines, and explaining a whole case.
#include <benchmark/benchmark.h>

#include "explain/case.h"
#include "explain/explain.h"
#include "machine/spec.h"
#include "model/config.h"

namespace nibble {
namespace {

// Ends the benchmark with the error's sentence when there is one.
template <class T>
bool usable(benchmark::State& state, const Result<T>& result) {
  if (!result.ok()) state.SkipWithError(result.error().message.c_str());
  return result.ok();
}

void load_model_by_name(benchmark::State& state) {
  for (auto _ : state) {
    const Result<ModelSpec> model = load_model("glm-5-nvfp4");
    if (!usable(state, model)) return;
    benchmark::DoNotOptimize(model->hidden);
  }
}
BENCHMARK(load_model_by_name);

void list_machines(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(machine_catalog());
}
BENCHMARK(list_machines);

void explain_one_case(benchmark::State& state) {
  const Result<Case> found = load_case("glm5_rtxpro6000");
  if (!usable(state, found)) return;
  for (auto _ : state) {
    const Result<CaseAnalysis> analysis = explain_case(*found, {});
    if (!usable(state, analysis)) return;
    benchmark::DoNotOptimize(analysis->findings.size());
  }
}
BENCHMARK(explain_one_case);

}  // namespace
}  // namespace nibble

BENCHMARK_MAIN();
