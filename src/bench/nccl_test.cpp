#include "bench/nccl.h"

#include <gtest/gtest.h>

#include "bench/link_rig.h"

namespace nibble {
namespace {

using Values = std::vector<std::uint16_t>;

DynamicLibrary fake_library() {
  return DynamicLibrary::open({NIBBLE_FAKE_NCCL});
}

// Ranks with known content, whose memory is the host's.
class FakeRanks {
 public:
  FakeRanks(std::size_t ranks, std::size_t count)
      : send_(ranks, Values(count)), receive_(ranks, Values(count, 0xFFFF)) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t at = 0; at < count; ++at) send_[rank][at] = bf16_of(link_sent(rank, at));
    }
  }
  std::uint64_t from(int rank) const { return address(send_.at(static_cast<std::size_t>(rank))); }
  std::uint64_t to(int rank) const { return address(receive_.at(static_cast<std::size_t>(rank))); }

  void expect(LinkOp op) const {
    for (std::size_t rank = 0; rank < receive_.size(); ++rank) {
      const std::size_t count = receive_[rank].size();
      for (std::size_t at = 0; at < count; ++at) {
        ASSERT_EQ(receive_[rank][at],
                  bf16_of(link_expected(op, receive_.size(), rank, at, count / receive_.size())))
            << to_string(op) << " rank " << rank << " element " << at;
      }
    }
  }

 private:
  static std::uint64_t address(const Values& values) {
    return reinterpret_cast<std::uint64_t>(values.data());
  }
  std::vector<Values> send_;
  std::vector<Values> receive_;
};

TEST(Nccl, ACollectiveOfEachKindArrivesAsTheRigExpectsIt) {
  const Result<Nccl> nccl = Nccl::open(fake_library());
  ASSERT_TRUE(nccl.ok()) << nccl.error().message;
  EXPECT_EQ(nccl->version(), "2.28.9");
  constexpr std::size_t kCount = 96;
  for (const std::size_t ranks : {std::size_t{2}, std::size_t{3}, std::size_t{8}}) {
    std::vector<int> devices;
    for (std::size_t rank = 0; rank < ranks; ++rank) devices.push_back(static_cast<int>(rank));
    const Result<NcclGroup> group = NcclGroup::make(*nccl, devices);
    ASSERT_TRUE(group.ok());
    EXPECT_TRUE(group->async_error().ok());
    for (const LinkOp op : {LinkOp::kAllReduce, LinkOp::kAllGather, LinkOp::kAllToAll}) {
      const FakeRanks memory(ranks, kCount);
      const Result<> done = group->together([&](int rank) {
        const std::uint64_t from = memory.from(rank);
        const std::uint64_t to = memory.to(rank);
        if (op == LinkOp::kAllReduce) return group->all_reduce(rank, from, to, kCount, nullptr);
        if (op == LinkOp::kAllGather) {
          return group->all_gather(rank, from, to, kCount / ranks, nullptr);
        }
        return group->all_to_all(rank, from, to, kCount / ranks, nullptr);
      });
      ASSERT_TRUE(done.ok()) << done.error().message;
      memory.expect(op);
    }
  }
}

TEST(Nccl, EveryRankIsEndedOnce) {
  const DynamicLibrary library = fake_library();
  const int* left = library.symbol<int>("fake_nccl_comms");
  ASSERT_NE(left, nullptr);
  const Result<Nccl> nccl = Nccl::open(fake_library());
  ASSERT_TRUE(nccl.ok());
  {
    Result<NcclGroup> group = NcclGroup::make(*nccl, {0, 1, 2});
    ASSERT_TRUE(group.ok());
    EXPECT_EQ(*left, 3);
    const NcclGroup moved = std::move(*group);
    EXPECT_EQ(moved.ranks(), 3);
  }
  EXPECT_EQ(*left, 0);
  Result<NcclGroup> group = NcclGroup::make(*nccl, {0, 1});
  ASSERT_TRUE(group.ok());
  group->abort();
  EXPECT_EQ(*left, 0);
}

TEST(Nccl, FailuresNameTheCall) {
  const Result<Nccl> nccl = Nccl::open(fake_library());
  ASSERT_TRUE(nccl.ok());
  const Result<NcclGroup> group = NcclGroup::make(*nccl, {0, 1});
  ASSERT_TRUE(group.ok());
  // Outside a group, which one thread may not do.
  const Result<> alone = group->all_reduce(0, 0, 0, 8, nullptr);
  ASSERT_FALSE(alone.ok());
  EXPECT_EQ(alone.error().message,
            "ncclAllReduce: invalid usage (5); NCCL_DEBUG=WARN in the environment tells more");
  // A rank that does not take part: the others would wait for it.
  const FakeRanks memory(2, 16);
  const Result<> half = group->together([&](int rank) {
    return rank == 0 ? group->all_reduce(0, memory.from(0), memory.to(0), 16, nullptr) : Result<>();
  });
  ASSERT_FALSE(half.ok());
  EXPECT_NE(half.error().message.find("ncclGroupEnd"), std::string::npos);
  EXPECT_FALSE(NcclGroup::make(*nccl, {99}).ok());
}

TEST(Nccl, ALibraryThatIsNotThereOrNotNccl) {
  const Result<Nccl> missing = Nccl::open(DynamicLibrary::open({"libnccl-of-nobody.so.2"}));
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("NCCL is not here (libnccl-of-nobody.so.2"),
            std::string::npos);
  EXPECT_NE(missing.error().message.find("--nccl"), std::string::npos);
  const Result<Nccl> other = Nccl::open(DynamicLibrary::open({"libm.so.6"}));
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("has no ncclGetVersion"), std::string::npos);
}

}  // namespace
}  // namespace nibble
