#include <algorithm>

#include "cli/analyze.h"
#include "cli/bench.h"
#include "cli/command.h"
#include "cli/diagnose.h"
#include "cli/doctor.h"
#include "cli/inspect.h"
#include "cli/load.h"
#include "cli/mock.h"
#include "cli/serve.h"
#include "cli/tactics.h"
#include "cli/tune.h"
#include "cli/watch.h"
#include "explain/case.h"
#include "machine/spec.h"
#include "model/config.h"

namespace nibble::cli {
namespace {

std::vector<CommandDef> make_commands() {
  std::vector<CommandDef> list = {diagnose_command(), analyze_command(), bench_command(),
                                  tactics_command(),  tune_command(),    inspect_command(),
                                  serve_command(),    load_command(),    mock_command(),
                                  watch_command(),    doctor_command()};
  for (CommandDef& command : documentation_commands(list)) list.push_back(std::move(command));
  return list;
}

}  // namespace

std::span<const CommandDef> commands() {
  static const std::vector<CommandDef> list = make_commands();
  return list;
}

CatalogNames catalog_names() {
  CatalogNames names;
  for (CatalogModel& model : model_catalog()) names.models.push_back(std::move(model.name));
  for (MachineSpec& machine : machine_catalog()) names.machines.push_back(std::move(machine.name));
  names.machines.push_back("this");
  names.cases = case_catalog();
  return names;
}

}  // namespace nibble::cli
