#include "cuda/ptx.h"

#include <gtest/gtest.h>
#include <string>

namespace nibble::cuda {
namespace {

constexpr const char* kHead = ".version 9.0\n.target sm_80\n.address_size 64\n";

Result<std::vector<KernelResources>> read_image(const std::string& image,
                                                const char* arch = "compute_80") {
  return read_ptx_kernels(std::as_bytes(std::span(image.data(), image.size())), *parse_arch(arch));
}

Result<std::vector<KernelResources>> read(const std::string& body) {
  return read_image(kHead + body + '\0');
}

std::string refusal(const Result<std::vector<KernelResources>>& result) {
  if (result.ok()) return "";
  const std::string& message = result.error().message;
  EXPECT_TRUE(message.starts_with("the PTX is damaged: ")) << message;
  EXPECT_TRUE(message.ends_with("; compile it again")) << message;
  return message.substr(20, message.size() - 20 - 18);
}

TEST(Ptx, KernelsAndTheirParameters) {
  const auto kernels = read(R"(
// .entry comment(
/* .entry other( .param .u32 x ) { */
.visible .const .align 4 .b8 table[8] = {1, 2, 3, 4};
.extern .shared .align 16 .b8 dynamic[];
.file 1 "/a \"b\" { .entry quoted("
.func (.param .b32 r) helper (.param .b64 p, .param .align 4 .b8 q[12]) { ret; }
.visible .entry add(
	.param .u64 .ptr .global .align 16 add_param_0,
	.param .align 8 .b8 add_param_1[5000],
	.param .f16 h, .param .s8 c,
	.param .f64 .b16name // not a type
)
.maxntid 32, 4
.minnctapersm 2
{
	.reg .b32 %r<4>;
	{ // a scope of inline assembly
	mov.u32 %r1, 1; }
	@%p1 bra $L__BB0_2;
	ret;
}
.entry bare { ret; }
.weak .entry $none() .pragma "nounroll { "; .reqntid 7 { ret; }
.visible .entry declared(.param .u32 x);
)");
  ASSERT_TRUE(kernels.ok()) << kernels.error().message;
  ASSERT_EQ(kernels->size(), 3U);
  EXPECT_EQ(kernels->at(0).name, "add");
  EXPECT_EQ(kernels->at(0).parameter_bytes, (std::vector<int>{8, 5000, 2, 1, 8}));
  EXPECT_EQ(kernels->at(0).max_threads, 128);
  EXPECT_EQ(kernels->at(0).registers, std::nullopt);
  EXPECT_EQ(kernels->at(0).constant_bytes, std::nullopt);
  EXPECT_EQ(kernels->at(0).barriers, std::nullopt);
  EXPECT_TRUE(kernels->at(0).spills());  // for all that is known
  EXPECT_EQ(kernels->at(1).name, "bare");
  EXPECT_TRUE(kernels->at(1).parameter_bytes.empty());
  EXPECT_EQ(kernels->at(1).max_threads, 0);
  EXPECT_EQ(kernels->at(2).name, "$none");
  EXPECT_EQ(kernels->at(2).max_threads, 7);
}

TEST(Ptx, WithoutKernels) {
  const auto kernels = read("");
  ASSERT_TRUE(kernels.ok()) << kernels.error().message;
  EXPECT_TRUE(kernels->empty());
}

TEST(Ptx, IsATextThatEndsInItsOnlyZero) {
  constexpr const char* kWhy = "it is not a text that ends in its only zero byte";
  const std::string whole = kHead + std::string(1, '\0');
  ASSERT_TRUE(read_image(whole).ok());
  EXPECT_EQ(refusal(read_image("")), kWhy);
  EXPECT_EQ(refusal(read_image(kHead)), kWhy);
  EXPECT_EQ(refusal(read_image(whole + '\0')), kWhy);
  EXPECT_EQ(refusal(read_image('\0' + whole)), kWhy);
  EXPECT_EQ(refusal(read_image(std::string(1, '\0'))), "it has no .version and .target");
}

TEST(Ptx, IsOfTheArchitectureThatWasAskedFor) {
  const std::string plain = kHead + std::string(1, '\0');
  EXPECT_EQ(refusal(read_image(plain, "compute_90")),
            "it is for sm_80, and compute_90 was asked for");
  const std::string own = std::string(".version 9.0\n.target sm_90a, debug\n") + '\0';
  EXPECT_EQ(refusal(read_image(own, "compute_90a")), "");
  EXPECT_EQ(refusal(read_image(own, "compute_90")),
            "it is for sm_90a, and compute_90 was asked for");
  EXPECT_EQ(refusal(read_image(std::string(".version 9.0\n.target") + '\0')),
            "it is for nothing, and compute_80 was asked for");
  EXPECT_EQ(refusal(read_image(std::string(".target sm_80\n") + '\0')),
            "it has no .version and .target");
  EXPECT_EQ(refusal(read_image(std::string(".version 9.0 .entry k() {} .target sm_80\n") + '\0')),
            "a kernel stands before .version and .target");
}

TEST(Ptx, WhatCannotBeIsRefused) {
  EXPECT_EQ(refusal(read(".entry")), "a kernel has no name");
  EXPECT_EQ(refusal(read(".entry (")), "a kernel has no name");
  EXPECT_EQ(refusal(read(".entry k")), "k has no body");
  EXPECT_EQ(refusal(read(".entry k() .entry l() {}")), "k has no body");
  EXPECT_EQ(refusal(read(".entry k() .pragma \"x\"")), "k has no body");
  EXPECT_EQ(refusal(read(".entry k() { {}")), "a block is cut off");
  EXPECT_EQ(refusal(read(".entry k() {} }")), "a brace is closed that was not opened");
  EXPECT_EQ(refusal(read(".entry k(")), "the parameters of k are cut off");
  EXPECT_EQ(refusal(read(".entry k(.param .u32 a, ")), "the parameters of k are cut off");
  EXPECT_EQ(refusal(read(".entry k(x) {}")), "the parameters of k are cut off");
  for (const char* parameter :
       {".param", ".param a", ".param .u31 a", ".param .pred a", ".param .u32 a .param .u32 b",
        ".param .b8 a[]", ".param .b8 a[0]", ".param .b8 a[-1]", ".param .b8 a[4294967297]",
        ".param .b8 a[99999999999999999999]", ".param .b8 a[x]", ".param .align .b8 a[4]"}) {
    EXPECT_EQ(refusal(read(std::string(".entry k(.param .u64 z, ") + parameter + ") {}")),
              "parameter 1 of k has no size that is known")
        << parameter;
  }
  EXPECT_EQ(refusal(read(".entry k(.param .u64")), "parameter 0 of k has no size that is known");
  EXPECT_EQ(refusal(read(".entry k() .maxntid { }")), "the launch bounds of k are no numbers");
  EXPECT_EQ(refusal(read(".entry k() .maxntid 1, -1 { }")),
            "the launch bounds of k are no numbers");
}

TEST(Ptx, NoDamageIsReadOutOfBounds) {
  const std::string whole = std::string(kHead) +
                            ".file 1 \"a\\\"b\"\n/* c */ .entry k(.param .align 8 .b8 p[16]) "
                            ".maxntid 1, 2, 3 { ret; }" +
                            '\0';
  ASSERT_TRUE(read_image(whole).ok());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char value : {'\0', '"', '{', '(', '/', '*', '.', ' ', '\xff', '\\'}) {
      std::string damaged = whole;
      damaged[at] = value;
      const auto kernels = read_image(damaged);
      ASSERT_TRUE(kernels.ok() || !kernels.error().message.empty()) << at;
    }
  }
  // Cut off before the last brace, and with a zero behind.
  for (std::size_t size = 0; size + 1 < whole.size(); ++size) {
    const auto kernels = read_image(whole.substr(0, size) + '\0');
    ASSERT_TRUE(!kernels.ok() || kernels->empty()) << size;
  }
}

}  // namespace
}  // namespace nibble::cuda
