// Reads the CSV of FlashInfer's benchmark (flashinfer_benchmark.py --output_path) into rows of
// nibble.bench/1, so that its kernels stand beside ours.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Imported imported, import_flashinfer("results.csv"));
//   print(to_json(imported));
//
// Its columns (flashinfer, benchmarks/routines/flashinfer_benchmark_utils.py): routine, median_time
// in milliseconds, tflops, tb_per_sec, backend, resolved_backend; m, n, k, batch_size of products;
// num_tokens, hidden_size, intermediate_size, num_experts, top_k of layers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "bench/cuda_row.h"

namespace nibble {

struct Imported {
  std::string path;
  std::vector<CudaRow> rows;
  std::vector<std::string> notes;  // rows that are no products or layers, by routine
};

Result<Imported> import_flashinfer(const std::string& path);
Result<Imported> parse_flashinfer(std::string_view text, const std::string& path);

// nibble.bench/1; the caller adds its own version and command.
Json to_json(const Imported& imported);

// Comma-separated values (RFC 4180): quotes around cells with commas, quotes or line ends in them.
// An input error names the line of a quote that never ends.
Result<std::vector<std::vector<std::string>>> parse_csv(std::string_view text,
                                                        std::string_view path);

}  // namespace nibble
