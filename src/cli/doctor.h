// nibble doctor: what this machine has, and what each missing thing would give.
//
//   const Probe probe = probe_this_machine();
//   fmt::print("{}", doctor_text(probe, Style::for_stdout()));
//   fmt::print("{}\n", doctor_document(probe).dump());   // nibble.doctor/1
#pragma once

#include <string>

#include "base/json.h"
#include "base/terminal.h"
#include "cli/command.h"
#include "machine/probe.h"

namespace nibble::cli {

CommandDef doctor_command();

// Exit status 0 also when things are missing: they are answers.
Result<int> run_doctor(const Arguments& arguments);

std::string doctor_text(const Probe& probe, const Style& style);
Json doctor_document(const Probe& probe);

}  // namespace nibble::cli
