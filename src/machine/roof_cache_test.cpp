#include "machine/roof_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/testing.h"

namespace nibble {
namespace {

constexpr double kTaken = 1.7e9;
constexpr double kHour = 3600;

CpuStatus cpu_of_test() {
  return {.title = "A processor", .cores = 4, .memory_gb = 8, .isa = {"avx2", "fma"}};
}

KeptRoofs kept_of_test() {
  KeptRoofs kept{.taken_unix_s = kTaken, .conditions = {.load_average = 0.14, .clock_mhz = 3200}};
  kept.roofs.threads = 4;
  kept.roofs.buffer_bytes = 256e6;
  kept.roofs.read = {.value = 30.5, .passes = {30, 30.5, 31}, .path = "4 streams"};
  kept.roofs.rates[Precision::kFp32] = {.value = 0.2, .passes = {0.2}, .path = "fma"};
  kept.roofs.rates[Precision::kBf16] = {.value = 0.3, .passes = {0.3}, .path = "maddwd"};
  kept.roofs.rates[Precision::kInt8] = {.value = 0.6, .passes = {0.6}, .path = "maddubsw"};
  return kept;
}

class RoofCache : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(keep_roofs(path_, cpu_of_test(), kept_of_test()).ok()); }
  FoundRoofs find(double now) const { return find_roofs(path_, cpu_of_test(), now); }
  // The file with one text replaced by another.
  void replace(std::string_view from, std::string_view to) {
    std::string text = *read_file(path_, 1 << 20);
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    ASSERT_TRUE(write_file(path_, text).ok());
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "deep" / "roofs.json";
};

TEST_F(RoofCache, GivesBackWhatWasKept) {
  const FoundRoofs found = find(kTaken + 3 * kHour);
  ASSERT_TRUE(found.roofs.has_value()) << found.note;
  const CpuRoofs& roofs = found.roofs->roofs;
  EXPECT_EQ(roofs.threads, 4);
  EXPECT_EQ(roofs.buffer_bytes, 256e6);
  EXPECT_EQ(roofs.read.value, 30.5);
  EXPECT_EQ(roofs.read.path, "4 streams");
  EXPECT_EQ(roofs.read.passes, (std::vector<double>{30, 30.5, 31}));
  ASSERT_EQ(roofs.rates.size(), 3U);
  EXPECT_EQ(roofs.rates.at(Precision::kInt8).value, 0.6);
  EXPECT_EQ(found.note, "measured 3 h ago at load 0.1, 3200 MHz; nibble bench roof measures again");
}

TEST_F(RoofCache, SaysThatTheMachineWasBusy) {
  KeptRoofs busy = kept_of_test();
  busy.conditions.busy_share = 0.35;
  ASSERT_TRUE(keep_roofs(path_, cpu_of_test(), busy).ok());
  const FoundRoofs found = find(kTaken);
  ASSERT_TRUE(found.roofs.has_value()) << found.note;
  EXPECT_EQ(found.roofs->conditions.busy_share, 0.35);
  EXPECT_NE(found.note.find("35.0 % of the processor time taken by others (a busy machine"),
            std::string::npos)
      << found.note;
}

TEST_F(RoofCache, KeepsWhatWasMeasuredUnderLessLoad) {
  KeptRoofs fresh = kept_of_test();
  fresh.taken_unix_s = kTaken + kHour;
  const auto worse = [&](double share) {
    fresh.conditions.busy_share = share;
    return worse_than_kept(path_, cpu_of_test(), fresh);
  };
  EXPECT_EQ(worse(0.05), "");  // a quiet machine always replaces
  EXPECT_NE(worse(0.4).find("40.0 %"), std::string::npos);
  KeptRoofs busy = kept_of_test();
  busy.conditions.busy_share = 0.5;
  ASSERT_TRUE(keep_roofs(path_, cpu_of_test(), busy).ok());
  EXPECT_EQ(worse(0.4), "");
  EXPECT_NE(worse(0.6), "");
  fresh.taken_unix_s = kTaken + 8 * 24 * kHour;  // the kept ones count no more
  EXPECT_EQ(worse(0.6), "");
}

TEST_F(RoofCache, CountsForAWeek) {
  EXPECT_TRUE(find(kTaken + 7 * 24 * kHour).roofs.has_value());
  EXPECT_FALSE(find(kTaken + 7 * 24 * kHour + 1).roofs.has_value());
  EXPECT_NE(find(kTaken + 8 * 24 * kHour).note.find("8 days ago"), std::string::npos);
  EXPECT_FALSE(find(kTaken - 1).roofs.has_value());  // a clock that was set back
}

TEST_F(RoofCache, IsOfOneMachine) {
  for (const auto& change : std::vector<std::function<void(CpuStatus&)>>{
           [](CpuStatus& cpu) { cpu.title = "Another"; }, [](CpuStatus& cpu) { cpu.cores = 2; },
           [](CpuStatus& cpu) { cpu.isa.pop_back(); }}) {
    CpuStatus other = cpu_of_test();
    change(other);
    const FoundRoofs found = find_roofs(path_, other, kTaken);
    EXPECT_FALSE(found.roofs.has_value());
    EXPECT_NE(found.note.find("another machine"), std::string::npos);
  }
}

TEST_F(RoofCache, AFileThatIsNoUseIsANote) {
  const std::string good = *read_file(path_, 1 << 20);
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"nibble.roofs/1", "nibble.roofs/2"},
                                                        {"30.5", "-1"},
                                                        {"\"threads\": 4", "\"threads\": 0"},
                                                        {"\"int8\"", "\"int9\""},
                                                        {"\"tflops\"", "\"tflips\""},
                                                        {"\"version\": \"", "\"version\": \"9"},
                                                        {"{", ""}}) {
    replace(from, to);
    const FoundRoofs found = find(kTaken);
    EXPECT_FALSE(found.roofs.has_value()) << from;
    EXPECT_NE(found.note.find("nibble bench roof"), std::string::npos) << found.note;
    ASSERT_TRUE(write_file(path_, good).ok());
  }
  for (const std::string& other : {std::string("[]"), std::string(100, '\0')}) {
    ASSERT_TRUE(write_file(path_, other).ok());
    EXPECT_FALSE(find(kTaken).roofs.has_value()) << other;
  }
  for (std::size_t size = 0; size < good.size(); size += 7) {
    ASSERT_TRUE(write_file(path_, good.substr(0, size)).ok());
    EXPECT_FALSE(find(kTaken).roofs.has_value()) << size;
  }
}

TEST_F(RoofCache, NoFileOrAFolderInItsPlaceIsANote) {
  EXPECT_FALSE(find_roofs(folder_.path() / "none.json", cpu_of_test(), kTaken).roofs.has_value());
  EXPECT_FALSE(find_roofs(folder_.path(), cpu_of_test(), kTaken).roofs.has_value());
}

TEST_F(RoofCache, AFolderThatCannotBeMadeIsAnError) {
  // A file stands where the folder would have to be.
  EXPECT_FALSE(keep_roofs(path_ / "below" / "roofs.json", cpu_of_test(), kept_of_test()).ok());
}

}  // namespace
}  // namespace nibble
