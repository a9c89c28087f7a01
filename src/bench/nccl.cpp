#include "bench/nccl.h"

#include <cstdlib>
#include <fmt/core.h>
#include <memory>
#include <type_traits>
#include <utility>

#include "machine/probe_parse.h"

namespace nibble {
namespace {

constexpr std::size_t kBf16Bytes = 2;

const void* source(std::uint64_t address) {
  return reinterpret_cast<const void*>(address);
}
void* target(std::uint64_t address) {
  return reinterpret_cast<void*>(address);
}

DynamicLibrary find_library(const std::string& file) {
  return file.empty() ? DynamicLibrary::open({"libnccl.so.2"})
                      : DynamicLibrary::open({file.c_str()});
}

}  // namespace

Result<const Nccl*> Nccl::load(const std::string& file) {
  const auto load_first = [&file] {
    // NVLink multicast stays off (kNcclSetting); NCCL reads these when it is first used.
    ::setenv("NCCL_NVLS_ENABLE", "0", 1);
    // What NCCL_DEBUG asks for shall not stand between our own lines.
    ::setenv("NCCL_DEBUG_FILE", "/dev/stderr", 0);
    return open(find_library(file));
  };
  // Never closed: it has threads.
  static const Result<Nccl>& loaded = *std::make_unique<Result<Nccl>>(load_first()).release();
  if (!loaded) return loaded.error();
  return &loaded.value();
}

Result<Nccl> Nccl::open(DynamicLibrary library) {
  if (!library) {
    return run_error(
        "NCCL is not here ({}); give its file with --nccl, as in --nccl "
        "/usr/lib/x86_64-linux-gnu/libnccl.so.2",
        library.reason());
  }
  Nccl nccl;
#define NIBBLE_NCCL_FIND(name, ...)                                                       \
  nccl.name = library.symbol<std::remove_pointer_t<decltype(nccl.name)>>(#name);          \
  if (nccl.name == nullptr) {                                                             \
    return run_error("{} has no " #name "; NCCL 2.7 or later is needed", library.path()); \
  }
  NIBBLE_NCCL_FUNCTIONS(NIBBLE_NCCL_FIND)
#undef NIBBLE_NCCL_FIND
  nccl.library_ = std::move(library);
  int code = 0;
  NIBBLE_RETURN_IF_ERROR(nccl.check(nccl.ncclGetVersion(&code), "ncclGetVersion"));
  nccl.version_ = nccl_version_text(code);
  return nccl;
}

Result<> Nccl::check(nccl_abi::Status status, std::string_view call) const {
  if (status == nccl_abi::kSuccess) return {};
  return run_error("{}: {} ({}); NCCL_DEBUG=WARN in the environment tells more", call,
                   ncclGetErrorString(status), status);
}

Result<NcclGroup> NcclGroup::make(const Nccl& nccl, const std::vector<int>& devices) {
  NcclGroup group(nccl);
  std::vector<nccl_abi::Comm> comms(devices.size(), nullptr);
  NIBBLE_RETURN_IF_ERROR(nccl.check(
      nccl.ncclCommInitAll(comms.data(), static_cast<int>(devices.size()), devices.data()),
      "ncclCommInitAll"));
  group.comms_ = std::move(comms);
  return group;
}

NcclGroup::NcclGroup(NcclGroup&& other) noexcept
    : nccl_(other.nccl_), comms_(std::exchange(other.comms_, {})) {}

NcclGroup::~NcclGroup() {
  for (const nccl_abi::Comm comm : comms_) nccl_.ncclCommDestroy(comm);
}

void NcclGroup::abort() {
  for (const nccl_abi::Comm comm : comms_) nccl_.ncclCommAbort(comm);
  comms_.clear();
}

Result<> NcclGroup::together(const std::function<Result<>(int rank)>& enqueue) const {
  NIBBLE_RETURN_IF_ERROR(nccl_.check(nccl_.ncclGroupStart(), "ncclGroupStart"));
  Result<> done;
  for (int rank = 0; rank < ranks() && done; ++rank) done = enqueue(rank);
  const Result<> ended = nccl_.check(nccl_.ncclGroupEnd(), "ncclGroupEnd");  // in any case
  return done ? ended : done;
}

Result<> NcclGroup::all_reduce(int rank, std::uint64_t from, std::uint64_t to, std::size_t count,
                               nccl_abi::Stream stream) const {
  return nccl_.check(
      nccl_.ncclAllReduce(source(from), target(to), count, nccl_abi::kBfloat16, nccl_abi::kSum,
                          comms_.at(static_cast<std::size_t>(rank)), stream),
      "ncclAllReduce");
}

Result<> NcclGroup::all_gather(int rank, std::uint64_t from, std::uint64_t to,
                               std::size_t count_of_rank, nccl_abi::Stream stream) const {
  return nccl_.check(
      nccl_.ncclAllGather(source(from), target(to), count_of_rank, nccl_abi::kBfloat16,
                          comms_.at(static_cast<std::size_t>(rank)), stream),
      "ncclAllGather");
}

Result<> NcclGroup::all_to_all(int rank, std::uint64_t from, std::uint64_t to,
                               std::size_t count_of_part, nccl_abi::Stream stream) const {
  const nccl_abi::Comm comm = comms_.at(static_cast<std::size_t>(rank));
  for (int peer = 0; peer < ranks(); ++peer) {
    const std::uint64_t part = static_cast<std::uint64_t>(peer) * count_of_part * kBf16Bytes;
    NIBBLE_RETURN_IF_ERROR(nccl_.check(
        nccl_.ncclSend(source(from + part), count_of_part, nccl_abi::kBfloat16, peer, comm, stream),
        "ncclSend"));
    NIBBLE_RETURN_IF_ERROR(nccl_.check(
        nccl_.ncclRecv(target(to + part), count_of_part, nccl_abi::kBfloat16, peer, comm, stream),
        "ncclRecv"));
  }
  return {};
}

Result<> NcclGroup::async_error() const {
  for (const nccl_abi::Comm comm : comms_) {
    nccl_abi::Status status = nccl_abi::kSuccess;
    NIBBLE_RETURN_IF_ERROR(
        nccl_.check(nccl_.ncclCommGetAsyncError(comm, &status), "ncclCommGetAsyncError"));
    NIBBLE_RETURN_IF_ERROR(nccl_.check(status, "a collective"));
  }
  return {};
}

}  // namespace nibble
