// Rows on disk: they are written as requests end, so that memory does not grow with the run, and
// read back one at a time.
//
//   NIBBLE_ASSIGN_OR_RETURN(RowWriter writer, RowWriter::create(folder / "rows.jsonl"));
//   NIBBLE_RETURN_IF_ERROR(writer.write(record));         // from any thread
//   NIBBLE_RETURN_IF_ERROR(writer.finish());
//   NIBBLE_ASSIGN_OR_RETURN(const RowsRead read, for_each_row(path, each));
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "load/record.h"

namespace nibble::load {

// A file that holds whole rows at every moment but the one of a write: what the program leaves
// behind when it is killed can be read. Thread-safe. The first failure (a full disk) is kept and
// returned by every later call; the rows before it stay in the file, and a row that fitted in part
// is cut off.
class RowWriter {
 public:
  // Replaces a file of that name.
  static Result<RowWriter> create(const std::filesystem::path& path);
  RowWriter(RowWriter&&) noexcept;
  RowWriter& operator=(RowWriter&&) noexcept;
  ~RowWriter();  // hands what is buffered to the system, and cannot tell whether that worked

  Result<> write(const RequestRecord& record);
  // Hands buffered rows to the system: after it they survive the program. Call it once a second or
  // so; a full buffer (256 KiB) does it by itself.
  Result<> flush();
  // Flushes, syncs to the disk and closes.
  Result<> finish();

  std::int64_t rows() const;  // safely handed over or buffered, none lost
  const std::filesystem::path& path() const;

 private:
  struct State;
  explicit RowWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct RowsRead {
  std::int64_t rows = 0;
  // The last line ends in the middle: the program was killed or the disk was full while it was
  // written. It is left out, and whoever shows results says so.
  bool cut = false;
  std::string note() const;  // the sentence for that; "" when nothing was cut
};

// Calls `each` with every row in the order of the file; an error of `each` ends the reading and is
// returned. Broken rows other than a cut last one are input errors that name their line. Memory:
// one row.
Result<RowsRead> for_each_row(const std::filesystem::path& path,
                              const std::function<Result<>(const RequestRecord&)>& each);

}  // namespace nibble::load
