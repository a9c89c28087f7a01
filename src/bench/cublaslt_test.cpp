#include "bench/cublaslt.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

TEST(Cublaslt, AnAbsentLibraryIsASentence) {
  const Result<Cublaslt> absent = Cublaslt::open(DynamicLibrary::open({"libno-such-blas.so.9"}));
  ASSERT_FALSE(absent.ok());
  EXPECT_NE(absent.error().message.find("cuBLASLt is not there"), std::string::npos);
  EXPECT_NE(absent.error().message.find("libno-such-blas.so.9"), std::string::npos);
}

TEST(Cublaslt, AnotherLibraryIsNone) {
  const Result<Cublaslt> other = Cublaslt::open(DynamicLibrary::open({"libm.so.6"}));
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("has no cublasLtCreate"), std::string::npos)
      << other.error().message;
}

TEST(Cublaslt, WhatIsInstalledHasEveryFunction) {
  const Result<const Cublaslt*> found = Cublaslt::get();
  if (!found.ok()) GTEST_SKIP() << found.error().message;
  EXPECT_FALSE((*found)->version().empty());
  // CUBLAS_STATUS_NOT_SUPPORTED is 15 (cublas_api.h).
  const Result<> unsupported = (*found)->check(15, "Matmul");
  ASSERT_FALSE(unsupported.ok());
  EXPECT_EQ(unsupported.error().message, "cublasLtMatmul: CUBLAS_STATUS_NOT_SUPPORTED (15)");
  EXPECT_TRUE((*found)->check(0, "Matmul").ok());
}

TEST(Cublaslt, BytesOfAValue) {
  EXPECT_EQ(bytes_per_value(LtFormat::kBf16), 2);
  EXPECT_EQ(bytes_per_value(LtFormat::kFp8), 1);
  EXPECT_EQ(bytes_per_value(LtFormat::kFp4), 0.5);
}

}  // namespace
}  // namespace nibble
