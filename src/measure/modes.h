// One mode or two: a kernel that takes 1.0 ms on one half of its runs and 1.3 ms on the other has
// no typical time, and a single median would hide that.
//
//   const Modes modes = find_modes(times);
//   if (modes.two) say("{} in {} of the runs, else {}", modes.low, modes.low_share, modes.high);
#pragma once

#include <span>

namespace nibble {

struct Modes {
  bool two = false;
  double low = 0;        // median of the lower mode
  double high = 0;       // of the upper; equal to `low` when there is one mode
  double low_share = 1;  // of the samples
};

// The samples are split where the variance within the two parts is least (Otsu 1979). They are two
// modes when
// - there are at least 32 samples and each part holds a fifth of them (fewer are outliers),
// - Ashman's D = |m1 - m2| / sqrt((s1^2 + s2^2) / 2) exceeds 5, with m the means and s the
// standard
//   deviations of the parts: the halves of a normal distribution have 2.65, those of a uniform one
//   3.46, and in 32 samples of either chance passes 5 in fewer than three of a hundred;
// - their medians differ by 5 % at least, so that the difference matters.
Modes find_modes(std::span<const double> samples);

}  // namespace nibble
