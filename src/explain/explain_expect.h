// For tests: what a finding should say. Values hold within 1 % of what was worked out by hand.
//
//   expect_value(analysis, "ridge.fp4", 1158);
//   expect_missing(analysis, "plateau", "fewer than two levels");
#pragma once

#include <cmath>
#include <gtest/gtest.h>
#include <string_view>

#include "explain/case_edit.h"

namespace nibble {

inline void expect_value(const CaseAnalysis& analysis, std::string_view id, double expected) {
  EXPECT_NEAR(value_of(analysis, id), expected, 0.01 * std::abs(expected)) << id;
}

inline void expect_says(const CaseAnalysis& analysis, std::string_view id, std::string_view part) {
  const Finding* finding = find(analysis, id);
  ASSERT_NE(finding, nullptr) << id;
  EXPECT_NE(finding->sentence.find(part), std::string::npos) << id << ": " << finding->sentence;
}

// There is no value, and both the reason and the sentence hold `part`.
inline void expect_missing(const CaseAnalysis& analysis, std::string_view id,
                           std::string_view part) {
  const Finding* finding = find(analysis, id);
  ASSERT_NE(finding, nullptr) << id;
  EXPECT_FALSE(finding->value.has_value()) << id;
  EXPECT_NE(finding->missing.find(part), std::string::npos) << id << ": " << finding->missing;
  EXPECT_NE(finding->sentence.find(part), std::string::npos) << id << ": " << finding->sentence;
}

}  // namespace nibble
