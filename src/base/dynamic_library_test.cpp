#include "base/dynamic_library.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

TEST(DynamicLibrary, OpensTheFirstNameThatIsThere) {
  const DynamicLibrary math = DynamicLibrary::open({"libno-such-thing.so.9", "libm.so.6"});
  ASSERT_TRUE(math) << math.reason();
  EXPECT_EQ(math.reason(), "");
  EXPECT_EQ(math.path().front(), '/');  // as the loader resolved it
  EXPECT_NE(math.path().find("libm.so.6"), std::string::npos);
  auto* cosine = math.symbol<double(double)>("cos");
  ASSERT_NE(cosine, nullptr);
  EXPECT_EQ(cosine(0), 1);
  EXPECT_EQ(math.symbol<double(double)>("no_such_function"), nullptr);
}

TEST(DynamicLibrary, AnAbsentLibrarySaysWhy) {
  const DynamicLibrary absent = DynamicLibrary::open({"libno-such-thing.so.9"});
  EXPECT_FALSE(absent);
  EXPECT_NE(absent.reason().find("libno-such-thing.so.9"), std::string::npos);
  EXPECT_EQ(absent.symbol<void()>("anything"), nullptr);
  EXPECT_FALSE(DynamicLibrary::open({}));
  EXPECT_FALSE(DynamicLibrary());
}

TEST(DynamicLibrary, MovesWithoutClosing) {
  DynamicLibrary first = DynamicLibrary::open({"libm.so.6"});
  DynamicLibrary second = std::move(first);
  ASSERT_TRUE(second);
  first = std::move(second);
  ASSERT_TRUE(first);
  EXPECT_NE(first.symbol<double(double)>("cos"), nullptr);
}

}  // namespace
}  // namespace nibble
