// What the parts of `nibble analyze` cost: reading a model, laying out its weights, pricing one
// step, and explaining a whole case.
#include <benchmark/benchmark.h>

#include "diagnose/case.h"
#include "diagnose/explain.h"
#include "ledger/step.h"
#include "machine/spec.h"
#include "model/config.h"

namespace nibble {
namespace {

constexpr const char* kModel = "glm-5-nvfp4";
constexpr const char* kMachine = "rtx-pro-6000-server";
constexpr const char* kCase = "glm5_rtxpro6000";

Result<Deployment> deployment() {
  NIBBLE_ASSIGN_OR_RETURN(ModelSpec model, load_model(kModel));
  NIBBLE_ASSIGN_OR_RETURN(MachineSpec machine, load_machine(kMachine));
  Deployment made;
  made.model = std::move(model);
  made.machine = std::move(machine);
  made.layout.tp = 8;
  return made;
}

// Ends the benchmark with the error's sentence when there is one.
template <class T>
bool usable(benchmark::State& state, const Result<T>& result) {
  if (!result.ok()) state.SkipWithError(result.error().message.c_str());
  return result.ok();
}

void load_model_by_name(benchmark::State& state) {
  for (auto _ : state) {
    const Result<ModelSpec> model = load_model(kModel);
    if (!usable(state, model)) return;
    benchmark::DoNotOptimize(model->hidden);
  }
}
BENCHMARK(load_model_by_name);

void list_machines(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(machine_catalog());
}
BENCHMARK(list_machines);

void lay_out_weights(benchmark::State& state) {
  const Result<Deployment> made = deployment();
  if (!usable(state, made)) return;
  for (auto _ : state) {
    const Result<Ledger> ledger = Ledger::make(*made);
    if (!usable(state, ledger)) return;
  }
}
BENCHMARK(lay_out_weights);

void price_one_step(benchmark::State& state) {
  const Result<Deployment> made = deployment();
  if (!usable(state, made)) return;
  const Result<Ledger> ledger = Ledger::make(*made);
  if (!usable(state, ledger)) return;
  for (auto _ : state) {
    const Result<Step> step = ledger->decode(static_cast<double>(state.range(0)));
    if (!usable(state, step)) return;
    benchmark::DoNotOptimize(step->step_us);
  }
}
BENCHMARK(price_one_step)->Arg(1)->Arg(1024);

void explain_one_case(benchmark::State& state) {
  const Result<Case> found = load_case(kCase);
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
