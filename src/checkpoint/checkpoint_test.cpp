#include "checkpoint/checkpoint.h"

#include "checkpoint/shard_index.h"
#include "checkpoint/test_files.h"

namespace nibble {
namespace {

std::string index_fault(std::string_view json) {
  const Result<ShardIndex> index = parse_shard_index(json, "index");
  return index.ok() ? "" : index.error().message;
}

TEST(ShardIndex, ReadsFilesEntriesAndTotal) {
  const Result<ShardIndex> index = parse_shard_index(
      R"({"metadata":{"total_size":12},"weight_map":{"b":"2.safetensors","a":"1.safetensors",
          "c":"2.safetensors"}})",
      "index");
  ASSERT_TRUE(index.ok()) << index.error().message;
  EXPECT_EQ(index->files, (std::vector<std::string>{"1.safetensors", "2.safetensors"}));
  ASSERT_EQ(index->entries.size(), 3U);
  EXPECT_EQ(index->entries[0].tensor, "b");
  EXPECT_EQ(index->entries[0].file, 1U);
  EXPECT_EQ(index->entries[1].file, 0U);
  EXPECT_EQ(index->total_bytes, 12U);
}

TEST(ShardIndex, ATotalThatIsNoCountIsLeftOut) {
  for (const char* total : {"-1", "1.5", "\"12\"", "null", "1e30"}) {
    const Result<ShardIndex> index = parse_shard_index(
        fmt::format(R"({{"metadata":{{"total_size":{}}},"weight_map":{{"a":"1.safetensors"}}}})",
                    total),
        "index");
    ASSERT_TRUE(index.ok()) << total;
    EXPECT_FALSE(index->total_bytes) << total;
  }
}

TEST(ShardIndex, RefusesNamesThatLeadOutOfTheFolder) {
  for (const char* name :
       {"../a.safetensors", "/a.safetensors", "x/a.safetensors", ".a.safetensors",
        "x\\\\a.safetensors", "a.bin", "", "a\\u0001.safetensors"}) {
    EXPECT_NE(index_fault(fmt::format(R"({{"weight_map":{{"t":"{}"}}}})", name)), "") << name;
  }
  EXPECT_NE(index_fault(R"({"weight_map":{"t":1}})"), "");
  EXPECT_NE(index_fault(R"({"weight_map":{}})"), "");
  EXPECT_NE(index_fault(R"({"weight_map":[]})"), "");
  EXPECT_NE(index_fault("{}"), "");
  EXPECT_NE(index_fault("[]"), "");
}

class CheckpointTest : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& bytes) {
    write(folder_.path() / name, bytes);
  }
  void put_index(const std::string& map, const std::string& total = "3") {
    put("model.safetensors.index.json",
        fmt::format(R"({{"metadata":{{"total_size":{}}},"weight_map":{}}})", total, map));
  }
  // Two files with a tensor each.
  void put_two() {
    put("1.safetensors", safetensors_bytes({{"a", "U8", {1}, "x"}}));
    put("2.safetensors", safetensors_bytes({{"b", "U8", {2}, "yz"}}));
    put("config.json", std::string(kTinyConfig) + "}");
  }
  Checkpoint open() {
    Result<Checkpoint> opened = Checkpoint::open(folder_.path());
    EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().message);
    NIBBLE_CHECK(opened.ok());
    return std::move(*opened);
  }
  const TemporaryFolder folder_;
};

TEST_F(CheckpointTest, FindsTensorsAcrossFiles) {
  put_two();
  put_index(R"({"a":"1.safetensors","b":"2.safetensors"})");
  const Checkpoint checkpoint = open();
  EXPECT_EQ(fault_ids(checkpoint.faults()), "");
  ASSERT_NE(checkpoint.find("b"), nullptr);
  EXPECT_EQ(checkpoint.data(*checkpoint.find("b")).size(), 2U);
  EXPECT_EQ(static_cast<char>(checkpoint.data(*checkpoint.find("b"))[1]), 'z');
  EXPECT_EQ(checkpoint.find("c"), nullptr);
  EXPECT_TRUE(checkpoint.model());
  EXPECT_TRUE(checkpoint.faults().refuse("x").ok());
}

TEST_F(CheckpointTest, AFileThatIsNotThereIsOneFault) {
  put_two();
  put_index(R"({"a":"1.safetensors","b":"2.safetensors","m.experts.down_blocks":"3.safetensors",
                "m.q.weight_packed":"3.safetensors"})");
  const Checkpoint checkpoint = open();
  EXPECT_EQ(fault_ids(checkpoint.faults()), "shard-missing");
  EXPECT_EQ(checkpoint.faults().faults()[0].examples, (std::vector<std::string>{"3.safetensors"}));
  for (const char* name : {"m.q.weight_packed", "m.q", "m.experts.down"}) {
    EXPECT_TRUE(checkpoint.is_lost(name)) << name;
  }
  EXPECT_FALSE(checkpoint.is_lost("a"));
  const Result<> refused = checkpoint.faults().refuse("PATH");
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(refused.error().message.starts_with("PATH: 3.safetensors: "))
      << refused.error().message;
}

TEST_F(CheckpointTest, IndexAndFilesMustAgreeBothWays) {
  put_two();
  put_index(R"({"a":"2.safetensors","c":"1.safetensors"})", "4");
  const FaultLog faults = open().faults();
  EXPECT_EQ(fault_ids(faults),
            "index-disagrees index-lists-absent-tensor index-lacks-tensor index-total");
  EXPECT_EQ(find_fault(faults, "index-disagrees")->examples[0], "a");
  EXPECT_EQ(find_fault(faults, "index-lists-absent-tensor")->examples[0], "c");
  EXPECT_EQ(find_fault(faults, "index-lacks-tensor")->examples[0], "b");
  EXPECT_EQ(find_fault(faults, "index-total")->severity, Severity::kWarning);
}

TEST_F(CheckpointTest, ATensorInTwoFilesIsAFault) {
  put_two();
  put("2.safetensors", safetensors_bytes({{"a", "U8", {1}, "x"}, {"b", "U8", {2}, "yz"}}));
  put_index(R"({"a":"1.safetensors","b":"2.safetensors"})");
  EXPECT_EQ(fault_ids(open().faults()), "tensor-twice");
}

TEST_F(CheckpointTest, ATruncatedFileIsSaidToBe) {
  put_two();
  const std::string whole = safetensors_bytes({{"b", "U8", {2}, "yz"}});
  put("2.safetensors", whole.substr(0, whole.size() - 1));
  put_index(R"({"a":"1.safetensors","b":"2.safetensors"})");
  const Checkpoint checkpoint = open();
  EXPECT_EQ(fault_ids(checkpoint.faults()), "truncated");
  EXPECT_NE(checkpoint.find("a"), nullptr);  // the rest is still there to look at
  EXPECT_TRUE(checkpoint.is_lost("b"));
}

TEST_F(CheckpointTest, AnIndexThatCannotBeReadLeavesTheFiles) {
  put_two();
  put("model.safetensors.index.json", "{");
  const Checkpoint checkpoint = open();
  EXPECT_EQ(fault_ids(checkpoint.faults()), "index-refused");
  EXPECT_EQ(checkpoint.tensors().size(), 2U);
}

TEST_F(CheckpointTest, TheOtherNamesAreReadToo) {
  put("consolidated.safetensors", safetensors_bytes({{"a", "U8", {1}, "x"}}));
  EXPECT_EQ(open().tensors().size(), 1U);
  put("model.safetensors", safetensors_bytes({{"a", "U8", {1}, "x"}, {"b", "U8", {1}, "y"}}));
  const Checkpoint both = open();  // the same model twice, as Mistral ships it
  EXPECT_EQ(both.tensors().size(), 2U);
  ASSERT_NE(find_fault(both.faults(), "file-not-used"), nullptr);
  EXPECT_EQ(find_fault(both.faults(), "file-not-used")->severity, Severity::kInfo);
  put("consolidated.safetensors.index.json", R"({"weight_map":{"a":"consolidated.safetensors"}})");
  EXPECT_EQ(open().tensors().size(), 1U);
}

TEST_F(CheckpointTest, WithoutAConfigurationTensorsAreStillRead) {
  put("model.safetensors", safetensors_bytes({{"a", "U8", {1}, "x"}}));
  EXPECT_EQ(fault_ids(open().faults()), "config-missing");
  put("config.json", "{\"model_type\": \"qwen3_moe\"}");
  const Checkpoint checkpoint = open();
  EXPECT_EQ(fault_ids(checkpoint.faults()), "config-refused");
  EXPECT_FALSE(checkpoint.model());
  EXPECT_EQ(checkpoint.tensors().size(), 1U);
}

TEST_F(CheckpointTest, AFolderWithoutModelIsRefused) {
  const Result<Checkpoint> empty = Checkpoint::open(folder_.path());
  ASSERT_FALSE(empty.ok());
  EXPECT_EQ(empty.error().kind, ErrorKind::kInput);
  EXPECT_FALSE(Checkpoint::open(folder_.path() / "absent").ok());
  put("a.txt", "x");
  EXPECT_FALSE(Checkpoint::open(folder_.path() / "a.txt").ok());
}

TEST(FaultLog, CountsAlikeAndKeepsEightNames) {
  FaultLog log;
  for (int number = 0; number < 10; ++number) {
    log.add(Severity::kError, "odd", fmt::format("t{}", number), "is odd");
  }
  log.add(Severity::kInfo, "even", "t", "is even");
  ASSERT_EQ(log.faults().size(), 2U);
  EXPECT_EQ(log.faults()[0].count, 10U);
  EXPECT_EQ(log.faults()[0].examples.size(), 8U);
  EXPECT_EQ(log.faults()[0].text(), "10 times: is odd (t0, t1, t2, t3, t4, t5, t6, t7, ...)");
  EXPECT_EQ(log.faults()[1].text(), "t: is even");
  EXPECT_EQ(log.errors(), 1U);
  FaultLog both;
  both.append(log);
  both.append(log);
  EXPECT_EQ(both.faults()[0].count, 20U);
  EXPECT_EQ(both.faults()[0].examples.size(), 8U);
}

}  // namespace
}  // namespace nibble
