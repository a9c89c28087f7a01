// Small dense least squares with coefficients that may have to stay above zero.
//
//   LeastSquares fit = solve_least_squares({{1, 2}, {1, 3}, {1, 5}}, {5, 7, 11}, {false, true});
//   fit.coefficients   // 1, 2
//
// Rows are equations, already divided by their standard errors where they differ. The fits of a
// sweep have a few columns and some dozens of rows: a QR and the active set of Lawson and Hanson
// are 150 lines that do all they need. Eigen would bring its headers into build and set-up, and its
// release in Debian has no such solver with bounds.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace nibble::load {

using Rows = std::vector<std::vector<double>>;

double dot(const std::vector<double>& a, const std::vector<double>& b);  // of one length

struct LeastSquares {
  std::vector<double> coefficients;
  std::vector<bool> active;  // the coefficient was chosen by the data; false: held at zero
  double squares = 0;        // of the residuals
  // Of the active coefficients; nullopt where a column adds nothing to the others.
  std::vector<std::optional<double>> variances;  // for residuals of variance 1
};

// `nonnegative[c]`: coefficient c may not be below zero. Rows all have nonnegative.size() entries.
LeastSquares solve_least_squares(const Rows& rows, const std::vector<double>& values,
                                 const std::vector<bool>& nonnegative);

// The share of a column that the columns before it do not explain, 0 to 1: below some percent its
// coefficient cannot be told apart from theirs. One number a column.
std::vector<double> independence(const Rows& rows);

}  // namespace nibble::load
