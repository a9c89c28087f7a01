// The products that W4A4 tactics are tested with. Lists, so that the programs of all of them can be
// compiled before a run on a GPU.
//
//   for (const W4A4Case& what : w4a4_cases_of_every_tactic()) {
//     for (const W4A4Tactic& tactic : w4a4_tactics(problem_of(what), kSm120Limits)) ...
//   }
//   for (const W4A4Program& each : w4a4_test_programs()) compile_w4a4(each.problem, each.tactic,
//   ..)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "kernels/gemm/device/w4a4.h"

namespace nibble {

struct W4A4Case {
  std::string name;
  std::vector<int> counts;      // tokens of each expert
  W4A4Problem problem;          // its experts follow from the counts
  bool gathered = false;        // rows of tokens in another order, some of them twice
  bool rounded_scales = false;  // an expert's scales begin at a multiple of 128 rows
  bool token_factors = false;   // every row has its own
  bool powers_of_two = false;   // scales
  std::uint8_t poison = 0x7f;   // where the layout of scales has no scale
  int runs = 1;                 // that must give the same bits
  bool quantizes = false;       // fp32 outputs are compared, then the codes that are made of them
};
inline void PrintTo(const W4A4Case& what, std::ostream* out) {
  *out << what.name;
}

inline W4A4Problem problem_of(const W4A4Case& what) {
  W4A4Problem problem = what.problem;
  problem.experts = static_cast<std::int64_t>(what.counts.size());
  return problem;
}
// The same product that makes NVFP4 codes of its outputs.
inline W4A4Problem quantized_problem(W4A4Problem problem) {
  problem.output = W4A4Output::kNvfp4;
  return problem;
}

// Wide and narrow tiles of both ways round, with and without splitting.
inline std::vector<W4A4Tactic> w4a4_some_tactics() {
  const auto tactic = [](Way way, int m, int n, int k, int stages, int warps_m, int warps_n,
                         bool split) {
    return W4A4Tactic{.way = way,
                      .m = m,
                      .n = n,
                      .k = k,
                      .stages = stages,
                      .warps_m = warps_m,
                      .warps_n = warps_n,
                      .split = split};
  };
  return {tactic(Way::kTokensOnM, 128, 256, 128, 3, 2, 4, true),
          tactic(Way::kTokensOnM, 32, 128, 256, 4, 1, 4, false),
          tactic(Way::kWeightsOnM, 64, 8, 256, 3, 2, 1, true),
          tactic(Way::kWeightsOnM, 128, 64, 512, 1, 4, 2, false)};
}

inline const std::vector<int>& w4a4_ragged_counts() {
  static const std::vector<int> counts = {5, 130, 1, 0, 127, 129};
  return counts;
}

// An expert in three has a token, the last one nine.
inline std::vector<int> w4a4_sparse_counts(std::size_t experts) {
  std::vector<int> counts(experts, 0);
  for (std::size_t expert = 0; expert < experts; expert += 3) counts[expert] = 1;
  counts.back() = 9;
  return counts;
}

// Ragged groups and what can be wrong beside them: one program a tactic. k = 464 is 1,856 over four
// ranks, and its 29 scales are not whole words of four.
inline std::vector<W4A4Case> w4a4_ragged_cases() {
  const W4A4Problem problem{.n = 72, .k = 464, .output = W4A4Output::kFp32};
  std::vector<W4A4Case> cases = {
      {.name = "ragged groups", .counts = w4a4_ragged_counts(), .problem = problem, .runs = 3},
      {.name = "ragged groups of gathered rows",
       .counts = w4a4_ragged_counts(),
       .problem = problem,
       .gathered = true,
       .token_factors = true},
      {.name = "scales that are powers of two",
       .counts = w4a4_ragged_counts(),
       .problem = problem,
       .powers_of_two = true},
      {.name = "all groups empty", .counts = {0, 0, 0, 0, 0, 0}, .problem = problem, .runs = 2}};
  for (const auto& [name, poison] :
       {std::pair("padding of 0x00", 0x00), {"padding of 0x7f", 0x7f}, {"padding of 0xff", 0xff}}) {
    cases.push_back({.name = name,
                     .counts = w4a4_ragged_counts(),
                     .problem = problem,
                     .rounded_scales = true,
                     .poison = static_cast<std::uint8_t>(poison)});
  }
  return cases;
}

// What each rank has of intermediate sizes 640, 352 and 1,856: a down product has so many columns,
// a gate and up product twice as many rows. Splits that are no whole blocks are refused
// (w4a4_test.cpp).
inline std::vector<W4A4Case> w4a4_split_cases() {
  std::vector<W4A4Case> cases;
  for (const int k : {640, 320, 352, 176, 1856, 928}) {
    cases.push_back({.name = "down of a rank with " + std::to_string(k),
                     .counts = {9, 0, 2},
                     .problem = {.n = 72, .k = k, .output = W4A4Output::kFp32}});
  }
  for (const int intermediate : {640, 320, 160, 80, 176, 1856, 928}) {
    cases.push_back({.name = "gate and up of a rank with " + std::to_string(intermediate),
                     .counts = {9, 0, 2},
                     .problem = {.n = 2 * intermediate,
                                 .k = 96,
                                 .output = W4A4Output::kFp32,
                                 .epilogue = Epilogue::kSwiGlu},
                     .quantizes = intermediate == 320});
  }
  return cases;
}

// Cases that every tactic must get right.
inline std::vector<W4A4Case> w4a4_cases_of_every_tactic() {
  std::vector<W4A4Case> cases = w4a4_ragged_cases();
  for (const W4A4Case& each : w4a4_split_cases()) cases.push_back(each);
  // 2,880 columns have 180 scales in NVFP4 and 90 in MXFP4; the rows are 352 and 464 of a rank.
  cases.push_back({.name = "2880 columns and several experts",
                   .counts = {3, 1, 0, 20},
                   .problem = {.n = 2 * 352,
                               .k = 2880,
                               .output = W4A4Output::kFp32,
                               .epilogue = Epilogue::kSwiGlu,
                               .up_first = true}});
  cases.push_back({.name = "2880 columns of mxfp4 and several experts",
                   .counts = {3, 1, 0, 20},
                   .problem = {.n = 2 * 464,
                               .k = 2880,
                               .format = Format::kMxfp4,
                               .output = W4A4Output::kFp32,
                               .epilogue = Epilogue::kClampedSwiGlu,
                               .bias = true}});
  // With 640 over four and over eight ranks.
  cases.push_back({.name = "512 experts and down of a rank with 160",
                   .counts = w4a4_sparse_counts(512),
                   .problem = {.n = 40, .k = 160, .output = W4A4Output::kFp32}});
  cases.push_back({.name = "1025 experts and down of a rank with 80",
                   .counts = w4a4_sparse_counts(1025),
                   .problem = {.n = 40, .k = 80, .output = W4A4Output::kFp32}});
  return cases;
}

// Shapes and outputs beside them, for w4a4_some_tactics().
inline std::vector<W4A4Case> w4a4_cases_of_some_tactics() {
  const std::vector<int>& ragged = w4a4_ragged_counts();
  constexpr auto kFloats = W4A4Output::kFp32;
  constexpr auto kGated = Epilogue::kSwiGlu;
  std::vector<W4A4Case> cases = {
      {.name = "one block", .counts = {1}, .problem = {.n = 1, .k = 16}},
      {.name = "one expert", .counts = {3}, .problem = {.n = 37, .k = 80}},
      {.name = "k beyond a stage",
       .counts = {4, 0, 9},
       .problem = {.n = 130, .k = 784, .output = kFloats}},
      {.name = "no tokens", .counts = {0, 0, 0}, .problem = {.n = 64, .k = 64}},
      {.name = "groups straddle tiles",
       .counts = ragged,
       .problem = {.n = 96, .k = 128, .output = kFloats}},
      {.name = "all tokens on one expert", .counts = {0, 0, 140}, .problem = {.n = 200, .k = 64}},
      {.name = "gathered rows with their own factors",
       .counts = ragged,
       .problem = {.n = 304, .k = 1360, .output = kFloats},
       .gathered = true,
       .token_factors = true,
       .runs = 3},
      {.name = "an odd block of gate and up",
       .counts = {2, 9},
       .problem = {.n = 2 * 37, .k = 96, .epilogue = kGated}},
      {.name = "up first",
       .counts = {17, 1},
       .problem = {.n = 96, .k = 64, .output = kFloats, .epilogue = kGated, .up_first = true}},
      {.name = "clamped with biases",
       .counts = {33, 0, 8},
       .problem = {.n = 180,
                   .k = 192,
                   .format = Format::kMxfp4,
                   .output = W4A4Output::kFp16,
                   .epilogue = Epilogue::kClampedSwiGlu,
                   .bias = true}},
      {.name = "2880 columns of mxfp4 with biases",
       .counts = {3, 1, 20},
       .problem = {.n = 128, .k = 2880, .format = Format::kMxfp4, .output = kFloats, .bias = true}},
      {.name = "many steps",
       .counts = {11, 3, 40},
       .problem = {.n = 640, .k = 1472, .epilogue = kGated},
       .runs = 20},
      {.name = "codes of more than one tile",
       .counts = {33, 0, 5, 1},
       .problem = {.n = 2 * 336, .k = 192, .output = kFloats, .epilogue = kGated},
       .quantizes = true}};
  for (const Format format : {Format::kNvfp4, Format::kMxfp4}) {
    for (const auto& [name, output] : {std::pair("bf16", W4A4Output::kBf16),
                                       {"fp16", W4A4Output::kFp16},
                                       {"fp32", W4A4Output::kFp32}}) {
      cases.push_back({.name = std::string(to_string(format)) + " to " + name,
                       .counts = {7, 20},
                       .problem = {.n = 100, .k = 160, .format = format, .output = output}});
    }
  }
  return cases;
}

// As PTX of an earlier GPU, without programmatic launch.
inline W4A4Case w4a4_case_of_compute_80() {
  return {.name = "compute_80", .counts = {5, 60, 1}, .problem = {.n = 96, .k = 272}};
}

struct W4A4Program {
  W4A4Problem problem;
  W4A4Tactic tactic;
  bool compute_80 = false;  // as PTX

  friend bool operator==(const W4A4Program&, const W4A4Program&) = default;
};

// Every program of these lists, once.
inline std::vector<W4A4Program> w4a4_test_programs() {
  std::vector<W4A4Program> programs;
  const auto add = [&programs](const W4A4Program& program) {
    if (std::find(programs.begin(), programs.end(), program) == programs.end()) {
      programs.push_back(program);
    }
  };
  const auto add_case = [&add](const W4A4Case& what, const auto& tactics_of) {
    std::vector<W4A4Problem> problems = {problem_of(what)};
    if (what.quantizes) problems.push_back(quantized_problem(problems.front()));
    for (const W4A4Problem& problem : problems) {
      for (const W4A4Tactic& tactic : tactics_of(problem)) add({problem, tactic});
    }
  };
  for (const W4A4Case& what : w4a4_cases_of_every_tactic()) {
    add_case(what, [](const auto& problem) { return w4a4_tactics(problem, kSm120Limits); });
  }
  for (const W4A4Case& what : w4a4_cases_of_some_tactics()) {
    add_case(what, [](const auto&) { return w4a4_some_tactics(); });
  }
  for (const W4A4Tactic& tactic : w4a4_some_tactics()) {
    add({problem_of(w4a4_case_of_compute_80()), tactic, true});
  }
  return programs;
}

}  // namespace nibble
