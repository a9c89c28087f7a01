#include "load/least_squares.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace nibble::load {
namespace {

// A pivot below this share of its column's length is rounding.
constexpr double kDependent = 1e-10;

// Columns of a matrix, orthogonalised one by one against those before (modified Gram-Schmidt done
// twice, which is as accurate as Householder's reflections: Bjorck 1994, "twice is enough").
struct Orthogonal {
  std::vector<std::vector<double>> directions;  // unit vectors; empty for a dependent column
  std::vector<std::vector<double>> upper;       // upper[c][p]: part of column c along direction p
  std::vector<double> shares;                   // length left over / length
};

Orthogonal orthogonalise(const Rows& rows, const std::vector<std::size_t>& columns) {
  Orthogonal result;
  for (const std::size_t column : columns) {
    std::vector<double> rest;
    for (const std::vector<double>& row : rows) rest.push_back(row[column]);
    const double length = std::sqrt(dot(rest, rest));
    std::vector<double> parts(result.directions.size() + 1, 0);
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t p = 0; p < result.directions.size(); ++p) {
        if (result.directions[p].empty()) continue;
        const double part = dot(result.directions[p], rest);
        parts[p] += part;
        for (std::size_t r = 0; r < rest.size(); ++r) rest[r] -= part * result.directions[p][r];
      }
    }
    const double left = std::sqrt(dot(rest, rest));
    result.shares.push_back(length > 0 ? left / length : 0);
    if (!(length > 0) || left <= kDependent * length) {
      rest.clear();
    } else {
      for (double& value : rest) value /= left;
      parts.back() = left;
    }
    result.directions.push_back(std::move(rest));
    result.upper.push_back(std::move(parts));
  }
  return result;
}

// Solves upper x = projections from the last column; a dependent column gets zero.
std::vector<double> back_substitute(const Orthogonal& qr, std::vector<double> projections) {
  std::vector<double> solution(projections.size(), 0);
  for (std::size_t column = projections.size(); column-- > 0;) {
    if (qr.directions[column].empty()) continue;
    solution[column] = projections[column] / qr.upper[column][column];
    for (std::size_t p = 0; p < column; ++p) {
      projections[p] -= qr.upper[column][p] * solution[column];
    }
  }
  return solution;
}

std::vector<double> solve_columns(const Rows& rows, const std::vector<double>& values,
                                  const std::vector<std::size_t>& columns) {
  const Orthogonal qr = orthogonalise(rows, columns);
  std::vector<double> projections;
  for (const std::vector<double>& direction : qr.directions) {
    projections.push_back(direction.empty() ? 0 : dot(direction, values));
  }
  return back_substitute(qr, std::move(projections));
}

// Diagonal of (upper' upper)^-1: the squared length of each row of upper's inverse.
std::vector<std::optional<double>> variances_of(const Orthogonal& qr) {
  const std::size_t count = qr.directions.size();
  std::vector<double> sums(count, 0);
  bool dependent = false;
  for (std::size_t unit = 0; unit < count; ++unit) {
    dependent = dependent || qr.directions[unit].empty();
    std::vector<double> right(count, 0);
    right[unit] = 1;
    const std::vector<double> column = back_substitute(qr, std::move(right));
    for (std::size_t c = 0; c < count; ++c) sums[c] += column[c] * column[c];
  }
  std::vector<std::optional<double>> variances(count);
  // With a dependent column its partners are not determined either; none is claimed.
  for (std::size_t c = 0; c < count && !dependent; ++c) variances[c] = sums[c];
  return variances;
}

std::vector<double> residuals(const Rows& rows, const std::vector<double>& values,
                              const std::vector<double>& coefficients) {
  std::vector<double> rest = values;
  for (std::size_t row = 0; row < rows.size(); ++row) rest[row] -= dot(rows[row], coefficients);
  return rest;
}

// Lawson and Hanson, "Solving Least Squares Problems", chapter 23, with columns that are always in.
class ActiveSet {
 public:
  ActiveSet(const Rows& rows, const std::vector<double>& values,
            const std::vector<bool>& nonnegative)
      : rows_(rows), values_(values), nonnegative_(nonnegative), now_(nonnegative.size(), 0) {
    for (const bool held : nonnegative) in_.push_back(!held);
  }

  LeastSquares solve() {
    refit();
    // Each round lets one column in and never comes back to a set, so 3 a column is ample.
    for (std::size_t round = 0; round < 3 * in_.size() + 3; ++round) {
      const std::size_t column = best_to_enter();
      if (column == in_.size()) break;
      in_[column] = true;
      refit();
    }
    return result();
  }

 private:
  std::vector<std::size_t> columns() const {
    std::vector<std::size_t> list;
    for (std::size_t c = 0; c < in_.size(); ++c) {
      if (in_[c]) list.push_back(c);
    }
    return list;
  }

  // The held column along which the residual falls fastest, or their number when none helps.
  std::size_t best_to_enter() const {
    const std::vector<double> rest = residuals(rows_, values_, now_);
    const double scale = std::sqrt(dot(values_, values_));
    std::size_t best = in_.size();
    double best_slope = 1e-12 * scale;
    for (std::size_t c = 0; c < in_.size(); ++c) {
      if (in_[c]) continue;
      double product = 0;
      double length = 0;
      for (std::size_t r = 0; r < rows_.size(); ++r) {
        product += rows_[r][c] * rest[r];
        length += rows_[r][c] * rows_[r][c];
      }
      const double slope = length > 0 ? product / std::sqrt(length) : 0;
      if (slope > best_slope) {
        best_slope = slope;
        best = c;
      }
    }
    return best;
  }

  // Moves to the solution over the columns that are in; those that would turn negative are let out
  // on the way.
  void refit() {
    for (std::size_t guard = 0; guard <= in_.size(); ++guard) {
      const std::vector<std::size_t> list = columns();
      const std::vector<double> target = solve_columns(rows_, values_, list);
      double step = 1;
      for (std::size_t index = 0; index < list.size(); ++index) {
        const std::size_t c = list[index];
        if (!nonnegative_[c] || target[index] > 0) continue;
        step = std::min(step, now_[c] / (now_[c] - target[index] + 1e-300));
      }
      for (std::size_t index = 0; index < list.size(); ++index) {
        const std::size_t c = list[index];
        now_[c] += step * (target[index] - now_[c]);
        if (nonnegative_[c] && target[index] <= 0 && now_[c] <= 1e-14 * std::abs(target[index])) {
          now_[c] = 0;
          in_[c] = false;
        }
      }
      if (step >= 1) return;
    }
  }

  LeastSquares result() const {
    LeastSquares fit{.coefficients = now_, .active = in_};
    const std::vector<double> rest = residuals(rows_, values_, now_);
    fit.squares = dot(rest, rest);
    const std::vector<std::size_t> list = columns();
    const auto variances = variances_of(orthogonalise(rows_, list));
    fit.variances.resize(in_.size());
    for (std::size_t index = 0; index < list.size(); ++index) {
      fit.variances[list[index]] = variances[index];
    }
    return fit;
  }

  const Rows& rows_;
  const std::vector<double>& values_;
  const std::vector<bool>& nonnegative_;
  std::vector<double> now_;
  std::vector<bool> in_;
};

}  // namespace

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t index = 0; index < a.size(); ++index) sum += a[index] * b[index];
  return sum;
}

LeastSquares solve_least_squares(const Rows& rows, const std::vector<double>& values,
                                 const std::vector<bool>& nonnegative) {
  NIBBLE_CHECK(rows.size() == values.size() && !rows.empty());
  for (const std::vector<double>& row : rows) NIBBLE_CHECK(row.size() == nonnegative.size());
  return ActiveSet(rows, values, nonnegative).solve();
}

std::vector<double> independence(const Rows& rows) {
  NIBBLE_CHECK(!rows.empty());
  std::vector<std::size_t> columns;
  for (std::size_t c = 0; c < rows.front().size(); ++c) columns.push_back(c);
  return orthogonalise(rows, columns).shares;
}

}  // namespace nibble::load
