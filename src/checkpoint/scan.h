// Every value of every matrix: what `nibble inspect --deep` reads.
//
//   Progress progress("scanning", scan_bytes(binding));
//   const std::vector<ValueStats> values = scan_values(binding, &progress, log);
//   values[i].rms();          // of binding.matrices()[i]
#pragma once

#include <cstdint>
#include <vector>

#include "base/progress.h"
#include "checkpoint/binding.h"

namespace nibble {

struct ValueStats {
  double values = 0;      // numbers looked at; 0: a form that is not scanned
  double zeros = 0;       // of them zero
  double not_finite = 0;  // of them NaN or infinite; not part of the sums below
  double max_abs = 0;
  double sum_squares = 0;
  // Block scales as stored, before the matrix's factor; of what has none, all 0.
  double scales = 0;
  double nan_scales = 0;
  double negative_scales = 0;
  double zero_scales = 0;
  double min_scale = 0;  // of those above zero; 0: there is none
  double max_scale = 0;

  double rms() const;
  void merge(const ValueStats& other);
};

double scan_bytes(const Binding& binding);

// One entry a matrix, in the order of binding.matrices(). Reads on all processors; the result does
// not depend on their number. A file that can no longer be read, or has become shorter, is a fault;
// its matrices count as not looked at.
std::vector<ValueStats> scan_values(const Binding& binding, Progress* progress, FaultLog& log);

// What the values say of the checkpoint's soundness.
void check_scanned(const Binding& binding, const std::vector<ValueStats>& values, FaultLog& log);

}  // namespace nibble
