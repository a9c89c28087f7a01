#include "checkpoint/stored_matrix.h"

#include <algorithm>

namespace nibble {
namespace {

bool is_plain(Format format) {
  return format == Format::kBf16 || format == Format::kFp16 || format == Format::kFp32;
}

}  // namespace

bool formats_agree(Format found, Format claimed) {
  return found == claimed || (is_plain(found) && is_plain(claimed));
}

const StoredTensor* ModuleTensors::find(std::string_view suffix) const {
  for (const auto& [name, tensor] : tensors) {
    if (name == suffix) return tensor;
  }
  return nullptr;
}

std::uint64_t StoredMatrix::bytes() const {
  std::uint64_t sum = 0;
  for (const StoredTensor* tensor : {codes, scales, factor, input}) {
    if (tensor != nullptr) sum += tensor->info->bytes();
  }
  return sum;
}

double StoredMatrix::parameters() const {
  return static_cast<double>(rows) * static_cast<double>(columns) *
         static_cast<double>(std::max<std::int64_t>(copies, 1));
}

}  // namespace nibble
