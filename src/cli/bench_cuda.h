// `nibble bench roof|gemm|moe --on cuda:N`, and `nibble bench --import`.
//
//   if (is_on_cuda(arguments)) return run_bench_cuda(arguments, what);
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/terminal.h"
#include "bench/cuda_bench.h"
#include "bench/import_csv.h"
#include "cli/command.h"

namespace nibble::cli {

// The options that only these have; --on itself is with `bench link`'s.
std::vector<OptionDef> bench_cuda_options();
// Those that `what` ("roof", "gemm", "moe") takes on a GPU.
std::vector<std::string> bench_cuda_takes(const std::string& what);

// --on names a GPU; a usage error for a word that it does not take.
Result<bool> is_on_cuda(const Arguments& arguments);

// --tuning, which is of layers and names a file that is there; empty: not given.
Result<std::filesystem::path> tuning_file(const Arguments& arguments, const std::string& what);

Result<int> run_bench_cuda(const Arguments& arguments, const std::string& what);
Result<int> run_bench_import(const Arguments& arguments);

// What they print for people.
std::string cuda_text(const CudaBenchReport& report, const Style& style);
std::string cuda_check_text(const CudaBenchReport& report, const Style& style);  // --check-only
std::string imported_text(const Imported& imported, const Style& style);

// "20 of 24 predictions within 15 % of the time; the worst is off by +22 %": empty without any.
std::string predictions_sentence(const std::vector<CudaRow>& rows);

}  // namespace nibble::cli
