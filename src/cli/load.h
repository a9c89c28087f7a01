// `nibble load`: a load test of an inference server, with this machine's signals beside it.
#pragma once

#include <string>

#include "cli/command.h"
#include "drive/run.h"

namespace nibble::cli {

CommandDef load_command();

// "level 2/4  8 users  measuring  12/100 done  1,234 tok/s": the line of a run on a terminal.
std::string progress_text(const drive::Progress& progress);

// "level 2/4: 1,234 tok/s, ..." when a level has ended.
std::string level_text(const load::LevelResult& level, std::size_t number, std::size_t levels);

}  // namespace nibble::cli
