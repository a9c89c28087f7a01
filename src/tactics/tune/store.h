// The tuning file as several processes share it: who holds its lock decides, the others wait and
// read what was decided.
//
//   NIBBLE_ASSIGN_OR_RETURN(TuningStore store, TuningStore::open(path, site, waiting));
//   if (const TuningEntry* entry = store.file().find(key)) ...   // decided already
//   NIBBLE_RETURN_IF_ERROR(store.put(entry));                    // on disk when it returns
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/descriptor.h"
#include "base/result.h"
#include "tactics/tune/tuning_file.h"

namespace nibble::tune {

class TuningStore {
 public:
  // Makes the folder, takes the lock (FILE.lock beside the file, which stays), and reads the file.
  // `waiting` is called once when another process holds the lock. Entries of another driver or
  // version of the kernels are left out, and note() says so; a file of another device is an input
  // error, as is one that cannot be read: it is not ours to overwrite.
  static Result<TuningStore> open(const std::filesystem::path& path, const TuningSite& site,
                                  const std::function<void()>& waiting);

  const TuningFile& file() const { return file_; }
  TuningFile& file() { return file_; }
  const std::string& note() const { return note_; }
  // Replaces the entry of its key, and the file: whole, or not at all.
  Result<> put(TuningEntry entry);

 private:
  TuningStore(std::filesystem::path path, Descriptor lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  std::filesystem::path path_;
  Descriptor lock_;  // closing it gives the lock back
  TuningFile file_;
  std::string note_;
};

// tuning/DEVICE-UNITS.json in nibble's cache folder.
std::filesystem::path default_tuning_path(const TuningSite& site);

}  // namespace nibble::tune
