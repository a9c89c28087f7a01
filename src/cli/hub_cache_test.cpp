#include "cli/hub_cache.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/testing.h"

namespace nibble::cli {
namespace {

namespace fs = std::filesystem;

class HubCache : public testing::Test {
 protected:
  // As huggingface_hub lays it out.
  void put(const fs::path& hub, const std::string& revision) {
    const fs::path folder = hub / "models--Qwen--Qwen3-8B";
    fs::create_directories(folder / "snapshots" / revision);
    fs::create_directories(folder / "refs");
    ASSERT_TRUE(write_file(folder / "snapshots" / revision / "tokenizer.json", "{}").ok());
  }
  void set_main(const fs::path& hub, const std::string& revision) {
    ASSERT_TRUE(write_file(hub / "models--Qwen--Qwen3-8B" / "refs" / "main", revision).ok());
  }
  static std::string found() {
    const auto path = find_in_hub_cache("Qwen/Qwen3-8B", "tokenizer.json");
    return path ? path->parent_path().filename().string() : "none";
  }

  TemporaryFolder folder_;
  ScopedEnvironment hub_{"HF_HUB_CACHE", nullptr};
  ScopedEnvironment hugging_face_{"HF_HOME", nullptr};
  ScopedEnvironment caches_{"XDG_CACHE_HOME", nullptr};
  ScopedEnvironment home_{"HOME", nullptr};
};

TEST_F(HubCache, NamesAndPaths) {
  EXPECT_TRUE(is_hub_id("Qwen/Qwen3-8B"));
  EXPECT_TRUE(is_hub_id("deepseek-ai/DeepSeek-V3.1"));
  for (const char* path : {"", "gpt2", "/Qwen/x", "./x", "../x", "a/b/c", "a/", "/a", "~/x",
                           "a/tokenizer.json", "a b/c", "a/..", ".hidden/x"}) {
    EXPECT_FALSE(is_hub_id(path)) << path;
  }
  const fs::path before = fs::current_path();
  fs::create_directories(folder_.path() / "models");
  fs::current_path(folder_.path());
  EXPECT_FALSE(is_hub_id("models/qwen"));  // the folder is there: a path
  fs::current_path(before);
}

TEST_F(HubCache, TheFolderIsTheOneThatItsToolsUse) {
  EXPECT_EQ(hub_cache(), "");
  EXPECT_EQ(found(), "none");
  const ScopedEnvironment home("HOME", "/home/x");
  EXPECT_EQ(hub_cache(), "/home/x/.cache/huggingface/hub");
  const ScopedEnvironment caches("XDG_CACHE_HOME", "/c");
  EXPECT_EQ(hub_cache(), "/c/huggingface/hub");
  const ScopedEnvironment hugging_face("HF_HOME", "/hf");
  EXPECT_EQ(hub_cache(), "/hf/hub");
  const ScopedEnvironment hub("HF_HUB_CACHE", "/hub");
  EXPECT_EQ(hub_cache(), "/hub");
}

TEST_F(HubCache, TheRevisionMainElseTheOnlyOne) {
  const fs::path hub = folder_.path() / "hub";
  const ScopedEnvironment set("HF_HOME", folder_.path().c_str());
  EXPECT_EQ(found(), "none");
  put(hub, "aaa111");
  EXPECT_EQ(found(), "aaa111");
  put(hub, "bbb222");
  EXPECT_EQ(found(), "none");  // which of them?
  set_main(hub, "bbb222\n");
  EXPECT_EQ(found(), "bbb222");
  set_main(hub, "../../../etc");
  EXPECT_EQ(found(), "none");
  set_main(hub, "ccc333");
  EXPECT_EQ(found(), "none");
}

}  // namespace
}  // namespace nibble::cli
