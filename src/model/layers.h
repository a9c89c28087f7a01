// The layers of a model in order: which have experts, what each attends to, which compute an index.
//
//   std::vector<LayerSpec> layers = read_layers(reader, spec);   // faults are kept by the reader
#pragma once

#include <vector>

#include "base/json.h"
#include "model/family.h"
#include "model/spec.h"

namespace nibble {

// `spec` has its attention and experts already. `layers` is num_hidden_layers.
std::vector<LayerSpec> read_layers(ObjectReader& reader, const ModelSpec& spec,
                                   const Family& family, std::int64_t layers);

}  // namespace nibble
