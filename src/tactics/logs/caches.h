// The JSON files that tuners keep: each reader says whether a document is its own.
//
//   NIBBLE_ASSIGN_OR_RETURN(const bool mine, read_flashinfer_cache(document, collector));
//   if (mine) ...
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "tactics/logs/collector.h"

namespace nibble::logs {

// False: some other document. An input error: one of this kind that does not keep to its form.
Result<bool> read_flashinfer_cache(const Json& document, Collector& collector);
Result<bool> read_tensorrt_llm_cache(const Json& document, Collector& collector);
// The file's name tells what the configurations are for.
Result<bool> read_triton_config(const Json& document, Collector& collector);

// "rank_tp3_pp0_dp0.json" -> "TP3 PP0 DP0", as SGLang names its files; "" for other names.
std::string rank_of_file(std::string_view name);

}  // namespace nibble::logs
