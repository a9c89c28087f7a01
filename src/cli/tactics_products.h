// The products that `nibble tactics` is about: a model's on one rank, or given sizes.
//
//   NIBBLE_ASSIGN_OR_RETURN(const TacticsSubject subject, tactics_subject(arguments));
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "tactics/product.h"

namespace nibble::cli {

struct TacticsSubject {
  std::string title;  // "GLM-5, TP8"
  std::vector<TacticProduct> products;
  std::vector<std::string> notes;  // what is left out, and why
};

// --op, --model, --tp, --ep, --dp, --dp-attention, --n, --k, --experts, --format.
std::vector<OptionDef> tactics_product_options();
Result<TacticsSubject> tactics_subject(const Arguments& arguments);

}  // namespace nibble::cli
