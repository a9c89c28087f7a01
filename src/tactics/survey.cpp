#include "tactics/survey.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "base/thread_pool.h"
#include "cuda/compile.h"

namespace nibble {
namespace {

struct SurveyTask {
  const TacticProduct* product = nullptr;
  Feasibility* found = nullptr;
};

Result<cuda::Cubin> compile_candidate(const TacticProduct& product,
                                      const TacticCandidate& candidate, const std::string& arch) {
  if (const auto* native = std::get_if<W4A4Tactic>(&candidate.tactic)) {
    return compile_w4a4(product.w4a4(), *native, arch);
  }
  return compile_w4a16(product.w4a16(), std::get<W4A16Tactic>(candidate.tactic), arch);
}

// What does not compile although there is a compiler is the tactic's fault.
void judge_task(const SurveyTask& task, const Chip& chip, const SurveyCompiler& compiler) {
  const Result<cuda::Cubin> compiled =
      compiler.compile(*task.product, task.found->candidate, chip.arch.name());
  judge_compiled(*task.found, compiled, chip);
  if (compiled.ok() || !compiler.name.ok()) return;
  task.found->limit = TacticLimit::kCompiler;
  task.found->reason = task.found->registers_reason;
}

void compile_tasks(const SurveyRequest& request, const std::vector<SurveyTask>& tasks,
                   const SurveyCompiler& compiler, const SurveyProgress& progress) {
  WorkQueue queue(static_cast<std::int64_t>(tasks.size()));
  std::mutex mutex;
  int done = 0;
  const auto all = static_cast<int>(tasks.size());
  const auto work = [&] {
    while (const auto unit = queue.next()) {
      const SurveyTask& task = tasks[static_cast<std::size_t>(*unit)];
      {
        const std::lock_guard lock(mutex);
        progress(task.found->name, done, all);
      }
      judge_task(task, request.chip, compiler);
      const std::lock_guard lock(mutex);
      progress("", ++done, all);
    }
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < std::min(request.threads, all); ++thread) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
}

}  // namespace

Survey survey_tactics(const SurveyRequest& request, const SurveyProgress& progress) {
  return survey_with(request, {cuda::compiler(), compile_candidate}, progress);
}

Survey survey_with(const SurveyRequest& request, const SurveyCompiler& compiler,
                   const SurveyProgress& progress) {
  Survey survey;
  std::vector<const TacticProduct*> products;
  for (const TacticProduct& product : request.products) {
    for (const TacticFamily family : request.families) {
      for (const TacticCandidate& candidate : tactic_candidates(family)) {
        if (request.tile && candidate.tile() != *request.tile) continue;
        survey.tactics.push_back(feasibility(product, candidate, request.chip));
        products.push_back(&product);
      }
    }
  }
  std::vector<SurveyTask> tasks;
  for (std::size_t index = 0; index < survey.tactics.size(); ++index) {
    Feasibility& found = survey.tactics[index];
    if (!found.feasible()) continue;
    tasks.push_back({products[index], &found});
    if (!request.compile) found.registers_reason = "not compiled: --no-compile";
  }
  if (!request.compile) return survey;
  (compiler.name.ok() ? survey.compiler : survey.compiler_reason) =
      compiler.name.ok() ? *compiler.name : compiler.name.error().message;
  compile_tasks(request, tasks, compiler, progress);
  add_neighbours(survey.tactics);
  return survey;
}

int distinct_tiles(const std::vector<Feasibility>& tactics, std::string_view op,
                   TacticFamily family) {
  std::set<std::pair<Way, std::string>> tiles;
  for (const Feasibility& found : tactics) {
    if (found.feasible() && found.op == op && found.candidate.family() == family) {
      tiles.emplace(found.candidate.way(), to_string(found.candidate.tile()));
    }
  }
  return static_cast<int>(tiles.size());
}

}  // namespace nibble
