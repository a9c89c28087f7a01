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

// The lock of a tuning file: FILE.lock beside it, as long as this lives. It is removed while it is
// still held, and whoever gets the lock of a removed file asks again: nobody holds an old one.
class TuningLock {
 public:
  static Result<TuningLock> take(const std::filesystem::path& file,
                                 const std::function<void()>& waiting);
  TuningLock(TuningLock&&) = default;
  ~TuningLock();

 private:
  TuningLock(std::filesystem::path path, Descriptor descriptor)
      : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

  std::filesystem::path path_;
  Descriptor descriptor_;  // closing it gives the lock back
};

class TuningStore {
 public:
  // Looks at the file, makes the folder, takes the lock, and reads the file as it is then. What is
  // refused is refused before anything is made: what is no regular file, a file of another device,
  // and one that cannot be read, which is not ours to overwrite.
  // `waiting` is called once when another process holds the lock. Entries of another driver or
  // version of the kernels are left out, and note() says so.
  static Result<TuningStore> open(const std::filesystem::path& path, const TuningSite& site,
                                  const std::function<void()>& waiting);

  const TuningFile& file() const { return file_; }
  TuningFile& file() { return file_; }
  const std::string& note() const { return note_; }
  // Replaces the entry of its key, and the file: whole, or not at all.
  Result<> put(TuningEntry entry);

 private:
  TuningStore(std::filesystem::path path, TuningLock lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  std::filesystem::path path_;
  TuningLock lock_;
  TuningFile file_;
  std::string note_;
};

// tuning/DEVICE-UNITS.json in nibble's cache folder.
std::filesystem::path default_tuning_path(const TuningSite& site);

}  // namespace nibble::tune
