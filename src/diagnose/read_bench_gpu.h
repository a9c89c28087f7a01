// What nibble.bench/1 says of a GPU: its roofs and the kernels that were timed on it, with what the
// board did meanwhile.
//
//   NIBBLE_RETURN_IF_ERROR(read_bench_gpu(json, {.name = "bench.json"}, evidence));
//   evidence.gpu->rows
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "diagnose/read_evidence.h"

namespace nibble::diagnose {

// Nothing where the document is of no GPU. A second document must be of the same one; its roofs
// count where the first had none.
Result<> read_bench_gpu(const Json& json, const ReadContext& context, Evidence& evidence);

}  // namespace nibble::diagnose
