#include "capi/cpu_rows.h"

#include <algorithm>
#include <cmath>
#include <nibble/nibble.h>

#include "capi/cpu_range.h"
#include "formats/quantize.h"

namespace nibble::capi {
namespace {

std::int64_t row_count(const GivenRows& given) {
  return given.offsets.back();
}

Result<std::vector<float>> decoded(const GivenRows& given) {
  const std::int64_t columns = given.columns;
  std::vector<float> rows(static_cast<std::size_t>(row_count(given) * columns));
  for (std::size_t expert = 0; expert + 1 < given.offsets.size(); ++expert) {
    const std::int64_t begin = given.offsets[expert];
    const std::int64_t scale_begin = given.sf_offsets != nullptr ? given.sf_offsets[expert] : begin;
    if (scale_begin < 0) {
      return input_error("sf_offsets[{}] is {}; give rows of block_scale_a, from 0", expert,
                         scale_begin);
    }
    for (std::int64_t row = begin; row < given.offsets[expert + 1]; ++row) {
      decode_row(given.coded, row, scale_begin + row - begin,
                 std::span(rows).subspan(static_cast<std::size_t>(row * columns),
                                         static_cast<std::size_t>(columns)));
    }
  }
  return rows;
}

}  // namespace

void CpuRows::append(std::span<const float> row, std::int64_t block) {
  std::int32_t parts = 1;
  if (is_held_exactly(row)) {
    x_.insert(x_.end(), row.begin(), row.end());
  } else {
    parts = static_cast<std::int32_t>(kUnitColumns / block);
    const std::size_t begin = x_.size();
    x_.resize(begin + static_cast<std::size_t>(parts) * row.size());
    for (std::size_t column = 0; column < row.size(); ++column) {
      const std::size_t part = column / static_cast<std::size_t>(block) % parts;
      x_[begin + part * row.size() + column] = row[column];
    }
  }
  first_.push_back(first_.back() + parts);
}

Result<CpuRows> CpuRows::read(const GivenRows& given) {
  const std::int64_t columns = given.columns;
  const std::int64_t rows = row_count(given);
  const bool coded = given.dtype == NIBBLE_FP4;
  const std::int64_t block = given.coded.format == Format::kMxfp4 ? kMxfp4Block : kNvfp4Block;
  std::vector<float> x;
  if (coded) {
    NIBBLE_ASSIGN_OR_RETURN(x, decoded(given));
  } else {
    x = widened(given.a, given.dtype, rows * columns);
  }
  if (const auto beyond = beyond_range(x, columns, coded ? block : kUnitColumns)) {
    return input_error(
        "{}", beyond_sentence(fmt::format("a[{}, {}]", beyond->row, beyond->column), *beyond));
  }
  CpuRows made;
  if (coded) {
    for (std::int64_t row = 0; row < rows; ++row) {
      made.append(std::span(x).subspan(static_cast<std::size_t>(row * columns),
                                       static_cast<std::size_t>(columns)),
                  block);
    }
  } else {
    made.x_ = std::move(x);
    for (std::int64_t row = 1; row <= rows; ++row) {
      made.first_.push_back(static_cast<std::int32_t>(row));
    }
  }
  made.offsets_.clear();
  for (const std::int32_t offset : given.offsets) {
    made.offsets_.push_back(made.first_[static_cast<std::size_t>(offset)]);
  }
  return made;
}

Result<> CpuRows::add_parts(std::span<float> output, std::int64_t n) const {
  if (parts() + 1 == static_cast<std::int64_t>(first_.size())) return {};  // each row is its part
  for (std::size_t row = 0; row + 1 < first_.size(); ++row) {
    const auto begin = first_[row];
    const auto end = first_[row + 1];
    for (std::int64_t column = 0; column < n; ++column) {
      double sum = 0;
      bool finite = true;
      for (std::int64_t part = begin; part < end; ++part) {
        const float value = output[static_cast<std::size_t>(part * n + column)];
        finite = finite && std::isfinite(value);
        sum += static_cast<double>(value);
      }
      if (!finite && end - begin > 1) {
        return run_error(
            "out[{}, {}] has parts beyond fp32, of a row whose scales lie far apart; give a "
            "smaller alpha",
            row, column);
      }
      // No row has fewer parts than one: this one's are behind it.
      output[row * static_cast<std::size_t>(n) + static_cast<std::size_t>(column)] =
          static_cast<float>(sum);
    }
  }
  return {};
}

}  // namespace nibble::capi
