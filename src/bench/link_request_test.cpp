#include "bench/link_request.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

using Sizes = std::vector<std::int64_t>;

TEST(LinkRequest, TheDefaultSizesAreSixteen) {
  const auto sizes = parse_message_sizes("2KB..64MB");
  ASSERT_TRUE(sizes.ok());
  ASSERT_EQ(sizes->size(), 16U);
  EXPECT_EQ(sizes->front(), 2048);
  EXPECT_EQ(sizes->at(1), 4096);
  EXPECT_EQ(sizes->back(), 67108864);
}

TEST(LinkRequest, ListsRangesAndUnits) {
  EXPECT_EQ(*parse_message_sizes("1MB, 4kb"), (Sizes{4096, 1048576}));
  EXPECT_EQ(*parse_message_sizes("256B..1KB,512"), (Sizes{256, 512, 1024}));
  EXPECT_EQ(*parse_message_sizes("3KB..7KB"), (Sizes{3072, 6144}));
  EXPECT_EQ(*parse_message_sizes("1GB"), (Sizes{1073741824}));
}

TEST(LinkRequest, RefusesOtherSizes) {
  for (const char* text :
       {"", "0", "255", "2GB", "-4KB", "4XB", "KB", "4.5KB", "1MB..1KB", "..", "4KB..", "..4KB",
        "4KB,,8KB", "99999999999999999999", "999999999GB", "4 4KB", "nan", "1e3"}) {
    const auto sizes = parse_message_sizes(text);
    ASSERT_FALSE(sizes.ok()) << text;
    EXPECT_EQ(sizes.error().kind, ErrorKind::kUsage);
    EXPECT_NE(sizes.error().message.find("give sizes of 256 B to 1 GB"), std::string::npos);
  }
  std::string many = "256";
  for (int size = 257; size < 256 + 65; ++size) many += fmt::format(",{}", size);
  EXPECT_NE(parse_message_sizes(many).error().message.find("more than 64"), std::string::npos);
}

TEST(LinkRequest, Devices) {
  EXPECT_EQ(*parse_link_devices("all"), std::vector<int>());
  EXPECT_EQ(*parse_link_devices("cuda:0,1"), (std::vector<int>{0, 1}));
  EXPECT_EQ(*parse_link_devices("cuda:3,cuda:0, 2"), (std::vector<int>{3, 0, 2}));
  for (const char* text : {"", "0,1", "cuda:", "cuda:0", "cuda:0,0", "cuda:0,", "cuda:0,-1", "cpu",
                           "cuda:0,x", "cuda:0,99999999999", "cuda:0,1024", "ALL"}) {
    const auto devices = parse_link_devices(text);
    ASSERT_FALSE(devices.ok()) << text;
    EXPECT_EQ(devices.error().kind, ErrorKind::kUsage);
  }
  std::string many = "cuda:0";
  for (int at = 1; at < 17; ++at) many += fmt::format(",{}", at);
  EXPECT_NE(parse_link_devices(many).error().message.find("at most 16"), std::string::npos);
}

TEST(LinkRequest, SizesAsText) {
  EXPECT_EQ(message_size_text(256), "256 B");
  EXPECT_EQ(message_size_text(2048), "2 KB");
  EXPECT_EQ(message_size_text(1536), "1.5 KB");
  EXPECT_EQ(message_size_text(67108864), "64 MB");
  EXPECT_EQ(message_size_text(1073741824), "1 GB");
}

}  // namespace
}  // namespace nibble
