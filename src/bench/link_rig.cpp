#include "bench/link_rig.h"

#include <algorithm>
#include <bit>

namespace nibble {
namespace {

constexpr std::size_t kElementBytes = sizeof(std::uint16_t);
constexpr std::size_t kWordBytes = 16;
constexpr std::uint8_t kPoison = 0xFF;  // two of them are a bf16 NaN

// CUdevice_P2PAttribute: what one GPU can do in the memory of the other.
constexpr int kAccess = 2;
constexpr int kNativeAtomics = 3;
// CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED and _NOT_ENABLED.
constexpr cuda::abi::Status kAlreadyEnabled = 704;
constexpr cuda::abi::Status kNotEnabled = 705;

Result<bool> peers_have(int attribute, const cuda::Device& of, const cuda::Device& in) {
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Driver* driver, cuda::Driver::get());
  cuda::abi::DeviceId ids[2] = {};
  NIBBLE_RETURN_IF_ERROR(cuda::check(driver->DeviceGet(&ids[0], of.ordinal()), "cuDeviceGet"));
  NIBBLE_RETURN_IF_ERROR(cuda::check(driver->DeviceGet(&ids[1], in.ordinal()), "cuDeviceGet"));
  int able = 0;
  NIBBLE_RETURN_IF_ERROR(cuda::check(
      driver->DeviceGetP2PAttribute(&able, attribute, ids[0], ids[1]), "cuDeviceGetP2PAttribute"));
  return able != 0;
}

}  // namespace

std::size_t link_step(std::size_t ranks) {
  return kWordBytes * ranks;
}

int link_sent(std::size_t rank, std::size_t element) {
  return static_cast<int>((3 * rank + element) % 7) + 1;
}

int link_expected(LinkOp op, std::size_t ranks, std::size_t rank, std::size_t element,
                  std::size_t part) {
  switch (op) {
    case LinkOp::kCopy:  // between two: `rank` is the one that gives
      return link_sent(rank, element);
    case LinkOp::kAllReduce: {
      int sum = 0;
      for (std::size_t one = 0; one < ranks; ++one) sum += link_sent(one, element);
      return sum;
    }
    case LinkOp::kAllGather:
      return link_sent(element / part, element % part);
    case LinkOp::kAllToAll:
      return link_sent(element / part, rank * part + element % part);
  }
  NIBBLE_CHECK(false);
}

std::uint16_t bf16_of(int small) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(small)) >> 16);
}

Result<LinkRig> LinkRig::make(const std::vector<int>& ordinals, std::size_t most_bytes) {
  LinkRig rig;
  for (const int ordinal : ordinals) {
    NIBBLE_ASSIGN_OR_RETURN(cuda::Device device, cuda::Device::open(ordinal));
    rig.devices_.push_back(std::move(device));
  }
  NIBBLE_ASSIGN_OR_RETURN(rig.timer_, LinkTimer::make(rig.devices_));
  NIBBLE_RETURN_IF_ERROR(rig.make_buffers(most_bytes));
  return rig;
}

Result<> LinkRig::make_buffers(std::size_t most_bytes) {
  std::vector<std::uint16_t> sent(most_bytes / kElementBytes);
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    for (std::size_t at = 0; at < sent.size(); ++at) sent[at] = bf16_of(link_sent(rank, at));
    NIBBLE_RETURN_IF_ERROR(devices_[rank].make_current());
    NIBBLE_ASSIGN_OR_RETURN(cuda::DeviceBuffer send, cuda::DeviceBuffer::of(sent));
    NIBBLE_ASSIGN_OR_RETURN(cuda::DeviceBuffer receive, cuda::DeviceBuffer::make(most_bytes));
    send_.push_back(std::move(send));
    receive_.push_back(std::move(receive));
  }
  return {};
}

Result<bool> LinkRig::can_access(std::size_t a, std::size_t b) const {
  NIBBLE_ASSIGN_OR_RETURN(const bool there, peers_have(kAccess, device(a), device(b)));
  NIBBLE_ASSIGN_OR_RETURN(const bool back, peers_have(kAccess, device(b), device(a)));
  return there && back;
}

Result<bool> LinkRig::has_atomics(std::size_t a, std::size_t b) const {
  return peers_have(kNativeAtomics, device(a), device(b));
}

Result<> LinkRig::set_access(std::size_t a, std::size_t b, bool enabled) {
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Driver* driver, cuda::Driver::get());
  for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
    NIBBLE_RETURN_IF_ERROR(device(from).make_current());
    const cuda::abi::Context peer = device(to).context();
    const cuda::abi::Status status =
        enabled ? driver->CtxEnablePeerAccess(peer, 0) : driver->CtxDisablePeerAccess(peer);
    if (status == (enabled ? kAlreadyEnabled : kNotEnabled)) continue;
    NIBBLE_RETURN_IF_ERROR(
        cuda::check(status, enabled ? "cuCtxEnablePeerAccess" : "cuCtxDisablePeerAccess"));
  }
  return {};
}

Result<> LinkRig::open_nccl(const Nccl& nccl) {
  std::vector<int> ordinals;
  for (const cuda::Device& device : devices_) ordinals.push_back(device.ordinal());
  NIBBLE_ASSIGN_OR_RETURN(NcclGroup group, NcclGroup::make(nccl, ordinals));
  group_.emplace(std::move(group));
  return {};
}

void LinkRig::abort_nccl() {
  if (group_) group_->abort();
  group_.reset();
}

Result<> LinkRig::enqueue_copy(const LinkMessage& message, std::size_t from, std::size_t to) {
  NIBBLE_RETURN_IF_ERROR(device(from).make_current());
  cuda::Stream& stream = timer_->stream(from);
  const cuda::DevicePointer source = send_.at(from).address();
  const cuda::DevicePointer target = receive_.at(to).address();
  const cuda::Driver& driver = stream.driver();
  if (message.peer_access) {
    return cuda::check(driver.MemcpyDtoDAsync(target, source, message.bytes, stream.handle()),
                       "cuMemcpyDtoDAsync");
  }
  return cuda::check(driver.MemcpyPeerAsync(target, device(to).context(), source,
                                            device(from).context(), message.bytes, stream.handle()),
                     "cuMemcpyPeerAsync");
}

Result<> LinkRig::enqueue_collective(const LinkMessage& message, int rank) {
  const auto at = static_cast<std::size_t>(rank);
  const std::uint64_t from = send_.at(at).address();
  const std::uint64_t to = receive_.at(at).address();
  const std::size_t count = message.bytes / kElementBytes;
  const nccl_abi::Stream stream = timer_->stream(at).handle();
  switch (message.op) {
    case LinkOp::kAllReduce:
      return group_->all_reduce(rank, from, to, count, stream);
    case LinkOp::kAllGather:
      return group_->all_gather(rank, from, to, count / ranks(), stream);
    case LinkOp::kAllToAll:
      return group_->all_to_all(rank, from, to, count / ranks(), stream);
    case LinkOp::kCopy:
      break;
  }
  NIBBLE_CHECK(false);
}

Result<> LinkRig::enqueue(const LinkMessage& message) {
  if (message.op != LinkOp::kCopy) {
    NIBBLE_CHECK(group_.has_value());
    return group_->together([&](int rank) { return enqueue_collective(message, rank); });
  }
  NIBBLE_RETURN_IF_ERROR(enqueue_copy(message, message.from, message.to));
  return message.both_ways ? enqueue_copy(message, message.to, message.from) : Result<>();
}

// `rank` is where the message arrived.
Result<> LinkRig::compare(const LinkMessage& message, std::size_t rank, std::size_t first,
                          std::size_t count) const {
  std::vector<std::uint16_t> found(count);
  NIBBLE_RETURN_IF_ERROR(
      receive_.at(rank).download(std::as_writable_bytes(std::span(found)), first * kElementBytes));
  const bool copy = message.op == LinkOp::kCopy;
  const std::size_t giver = rank == message.to ? message.from : message.to;
  const std::size_t part = message.bytes / kElementBytes / ranks();
  for (std::size_t at = 0; at < count; ++at) {
    const int expected = link_expected(message.op, ranks(), copy ? giver : rank, first + at, part);
    if (found[at] == bf16_of(expected)) continue;
    return run_error("{} of {} B: element {} on GPU {} arrived as bf16 {:#06x}, not as {:#06x}",
                     to_string(message.op), message.bytes, first + at, device(rank).ordinal(),
                     found[at], bf16_of(expected));
  }
  return {};
}

Result<> LinkRig::check(const LinkMessage& message) {
  NIBBLE_CHECK(message.bytes % link_step(ranks()) == 0 && message.bytes > 0);
  std::vector<std::size_t> receivers;
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    const bool copied_to = rank == message.to || (message.both_ways && rank == message.from);
    if (message.op == LinkOp::kCopy && !copied_to) continue;
    receivers.push_back(rank);
    NIBBLE_RETURN_IF_ERROR(receive_.at(rank).fill(kPoison));
  }
  for (const cuda::Device& device : devices_) NIBBLE_RETURN_IF_ERROR(device.synchronize());
  NIBBLE_RETURN_IF_ERROR(enqueue(message));
  NIBBLE_RETURN_IF_ERROR(timer_->synchronize());
  if (group_) NIBBLE_RETURN_IF_ERROR(group_->async_error());
  // Both ends of the message: what a wrong size or offset would spoil.
  const std::size_t elements = message.bytes / kElementBytes;
  const std::size_t some = std::min<std::size_t>(elements, 4096);
  for (const std::size_t rank : receivers) {
    NIBBLE_RETURN_IF_ERROR(compare(message, rank, 0, some));
    NIBBLE_RETURN_IF_ERROR(compare(message, rank, elements - some, some));
  }
  return {};
}

Result<LinkTiming> LinkRig::time(const LinkMessage& message, const StopRule& rule) {
  // A copy through the host is no node of a graph.
  const bool graphs = message.op != LinkOp::kCopy || message.peer_access;
  return timer_->time({.enqueue = [&] { return enqueue(message); }, .graphs = graphs}, rule);
}

}  // namespace nibble
