// The choices of a tuning file as the library asks for them: a tactic, or the reason why the
// default is taken. Nothing is left out in silence.
//
//   TuningTable table = TuningTable::load(path, here);
//   const Found found = table.find(shape, 48);
//   const AnyTactic tactic = found.tactic ? *found.tactic : default_tactic(...);
//   fmt::print("{}", table.report());   // "tuning file h200.json: 10 of 12 keys hit; ..."
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tactics/tune/tuning_file.h"

namespace nibble::tune {

struct Found {
  std::optional<AnyTactic> tactic;
  std::string reason;  // of a miss: "not in the file, default taken"
  // The range of the entry that holds the tokens, whether it has a choice or not; nullopt: none.
  std::int64_t entry_from = 0;
  std::optional<std::int64_t> entry_tokens;
};

class TuningTable {
 public:
  // In any case a table. That of a file which is missing, damaged or stale has no choices, and
  // problem() is its sentence.
  static TuningTable load(const std::filesystem::path& path, const TuningSite& here);
  TuningTable(TuningFile file, std::string name, const TuningSite& here);
  // Of a file that somebody named for this run: another device's is an input error. One of another
  // driver or of other kernels gives no choices, and problem() says why.
  static Result<TuningTable> for_run(TuningFile file, const std::string& name,
                                     const TuningSite& here);

  const std::string& problem() const { return problem_; }
  // Counts a hit or a miss; the same question again counts no more.
  Found find(const TuningShape& shape, std::int64_t tokens);

  // What was found cannot run here: it counts as a miss from now on.
  void refuse(const TuningShape& shape, std::int64_t tokens, const std::string& why);

  // Where the ranges that the file holds of a shape end; none of a file that is not used.
  std::vector<std::int64_t> ends(const TuningShape& shape) const;

  std::size_t hits() const;
  std::size_t asked() const { return asked_.size(); }
  // "tuning file x.json: 10 of 12 keys hit", then what was found or why not, a line for all numbers
  // of tokens of one shape that have the same: "moe.down ..., 32 and 64 tokens: cpu avx2 1 thread".
  std::vector<std::string> report() const;

 private:
  struct Asked {
    TuningShape shape;
    std::int64_t tokens = 0;
    Found found;
  };

  static std::string outcome(const Asked& asked);
  Found look_up(const TuningShape& shape, std::int64_t tokens) const;
  std::string why_missing(const TuningShape& shape, std::int64_t tokens) const;

  TuningFile file_;
  std::string name_;
  std::string problem_;
  std::vector<Asked> asked_;
};

}  // namespace nibble::tune
