// NCCL, opened at run time: collectives among the GPUs of one process.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Nccl* nccl, Nccl::load(""));
//   NIBBLE_ASSIGN_OR_RETURN(const NcclGroup group, NcclGroup::make(*nccl, {0, 1}));
//   NIBBLE_RETURN_IF_ERROR(group.together([&](int rank) {
//     return group.all_reduce(rank, send[rank], receive[rank], count, stream[rank]); }));
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/dynamic_library.h"
#include "base/result.h"
#include "bench/nccl_abi.h"

namespace nibble {

// What is set for this process before NCCL is loaded: NVLink multicast changes the fabric of the
// whole host, which others may share.
inline constexpr const char* kNcclSetting = "NCCL_NVLS_ENABLE=0";

class Nccl : public nccl_abi::Functions {
 public:
  // From this file, or as the loader finds libnccl.so.2. The first call counts for the process: a
  // library with threads is not unloaded.
  static Result<const Nccl*> load(const std::string& file);
  // From a library of one's own choice: for tests.
  static Result<Nccl> open(DynamicLibrary library);

  const std::string& version() const { return version_; }  // "2.28.9"
  const std::string& path() const { return library_.path(); }
  // "ncclAllReduce: invalid usage (5)", or nothing for success.
  Result<> check(nccl_abi::Status status, std::string_view call) const;

 private:
  DynamicLibrary library_;
  std::string version_;
};

// One rank a GPU, all in this process.
class NcclGroup {
 public:
  static Result<NcclGroup> make(const Nccl& nccl, const std::vector<int>& devices);
  NcclGroup(NcclGroup&& other) noexcept;
  NcclGroup& operator=(NcclGroup&&) = delete;
  ~NcclGroup();

  int ranks() const { return static_cast<int>(comms_.size()); }
  // Calls `enqueue` for every rank, as one group: else the first rank would wait for the others.
  Result<> together(const std::function<Result<>(int rank)>& enqueue) const;

  // Counts are of bf16 values; addresses are of the rank's GPU. Within together().
  Result<> all_reduce(int rank, std::uint64_t from, std::uint64_t to, std::size_t count,
                      nccl_abi::Stream stream) const;
  Result<> all_gather(int rank, std::uint64_t from, std::uint64_t to, std::size_t count_of_rank,
                      nccl_abi::Stream stream) const;
  // Part q of `from` goes to rank q, whose part comes to part q of `to`; the own part too.
  Result<> all_to_all(int rank, std::uint64_t from, std::uint64_t to, std::size_t count_of_part,
                      nccl_abi::Stream stream) const;

  Result<> async_error() const;  // of any rank
  void abort();                  // after an error: what still runs is ended

 private:
  explicit NcclGroup(const Nccl& nccl) : nccl_(nccl) {}

  const Nccl& nccl_;
  std::vector<nccl_abi::Comm> comms_;
};

}  // namespace nibble
