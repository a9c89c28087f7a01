// Finishes rows on a thread of its own, away from the loops that take the time of events: counts
// tokens where the server does not, looks for repetition, writes the line.
//
//   RowFinisher finisher(writer, tokenizer);
//   finisher.push(std::move(record), std::move(text));    // from any loop
//   finisher.drain();                                     // all pushed rows are written
//   if (const auto fault = finisher.fault()) stop();      // the disk is full
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/result.h"
#include "load/record.h"
#include "load/row_file.h"
#include "text/tokenizer.h"

namespace nibble::drive {

class RowFinisher {
 public:
  // The writer must outlive the finisher.
  RowFinisher(load::RowWriter& writer, std::optional<text::Tokenizer> tokenizer);
  ~RowFinisher();  // writes what was pushed
  RowFinisher(const RowFinisher&) = delete;
  RowFinisher& operator=(const RowFinisher&) = delete;

  void push(load::RequestRecord record, std::string text);
  // Waits until everything that was pushed is written and handed to the system.
  void drain();

  bool counts_tokens() const { return tokenizer_.has_value(); }
  std::int64_t written() const;
  // The first failure of writing; rows behind it are lost.
  std::optional<Error> fault() const;

 private:
  struct Entry {
    load::RequestRecord record;
    std::string text;
  };
  void work();
  void finish(Entry& entry) const;
  void write(Entry entry);
  void note(const Result<>& done);

  load::RowWriter& writer_;
  std::optional<text::Tokenizer> tokenizer_;
  mutable std::mutex mutex_;
  std::condition_variable pushed_, idle_;
  std::deque<Entry> queue_;
  bool busy_ = false;
  bool ending_ = false;
  std::int64_t written_ = 0;
  std::optional<Error> fault_;
  std::thread thread_;
};

}  // namespace nibble::drive
