// The GPUs of `nibble bench link`: their buffers with known content, one message of each kind, and
// the check that it arrived.
//
//   NIBBLE_ASSIGN_OR_RETURN(LinkRig rig, LinkRig::make({0, 1}, most_bytes));
//   const LinkMessage message{.op = LinkOp::kCopy, .bytes = 1 << 20, .from = 0, .to = 1};
//   NIBBLE_RETURN_IF_ERROR(rig.check(message));
//   NIBBLE_ASSIGN_OR_RETURN(const LinkTiming timing, rig.time(message, rule));
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "bench/link_fit.h"
#include "bench/link_timer.h"
#include "bench/nccl.h"
#include "cuda/memory.h"

namespace nibble {

struct LinkMessage {
  LinkOp op = LinkOp::kCopy;
  std::size_t bytes = 0;  // a multiple of link_step(ranks)
  std::size_t from = 0;   // of a copy: ranks, places in the list of devices
  std::size_t to = 1;
  bool both_ways = false;
  bool peer_access = true;  // of a copy
};

// Sizes are rounded up to this: every rank's part is whole 16-byte words.
std::size_t link_step(std::size_t ranks);

// What lies in a rank's send buffer: bf16 integers of 1 to 7, so that the sum over 16 ranks (at
// most 112, below 256) is exact in bf16, in whatever order it is taken.
int link_sent(std::size_t rank, std::size_t element);
// What a rank has to find afterwards at an element of its receive buffer; `part` is the number of
// elements of one rank's part.
int link_expected(LinkOp op, std::size_t ranks, std::size_t rank, std::size_t element,
                  std::size_t part);
std::uint16_t bf16_of(int small);  // exact up to 256

class LinkRig {
 public:
  static Result<LinkRig> make(const std::vector<int>& ordinals, std::size_t most_bytes);

  std::size_t ranks() const { return devices_.size(); }
  const cuda::Device& device(std::size_t rank) const { return devices_.at(rank); }
  // Whether both may have access to each other's memory, and whether it does atomics (NVLink).
  Result<bool> can_access(std::size_t a, std::size_t b) const;
  Result<bool> has_atomics(std::size_t a, std::size_t b) const;
  // There and back; stays for the process, or until it is taken again.
  Result<> set_access(std::size_t a, std::size_t b, bool enabled);
  Result<> open_nccl(const Nccl& nccl);
  void abort_nccl();

  // Sends the message once and compares what arrived.
  Result<> check(const LinkMessage& message);
  Result<LinkTiming> time(const LinkMessage& message, const StopRule& rule);

 private:
  LinkRig() = default;
  Result<> make_buffers(std::size_t most_bytes);
  Result<> enqueue(const LinkMessage& message);
  Result<> enqueue_copy(const LinkMessage& message, std::size_t from, std::size_t to);
  Result<> enqueue_collective(const LinkMessage& message, int rank);
  Result<> compare(const LinkMessage& message, std::size_t rank, std::size_t first,
                   std::size_t count) const;

  // Destroyed from the last to the first: the ranks before the buffers, those before the contexts.
  std::vector<cuda::Device> devices_;
  std::vector<cuda::DeviceBuffer> send_;
  std::vector<cuda::DeviceBuffer> receive_;
  std::optional<LinkTimer> timer_;
  std::optional<NcclGroup> group_;
};

}  // namespace nibble
