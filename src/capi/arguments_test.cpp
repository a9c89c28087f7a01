// Versions, errors, and the structs' sizes.
#include "capi/arguments.h"

#include <cstddef>
#include <gtest/gtest.h>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "capi/error.h"
#include "capi/test_fp4.h"

extern "C" int nibble_c99_multiply(float* result);

namespace nibble::capi {
namespace {

TEST(Capi, TheHeaderWorksFromC99) {
  float result = 0;
  EXPECT_EQ(nibble_c99_multiply(&result), 0) << nibble_last_error();
  // 2 is held as code 6 x scale 448 x factor 2 / 2688, which fp32 rounds.
  EXPECT_NEAR(result, 192, 192 * 0x1p-20);
}

TEST(Capi, VersionsAndStatusTexts) {
  EXPECT_EQ(nibble_abi_version(), NIBBLE_ABI_VERSION);
  EXPECT_NE(std::string(nibble_version()).find('.'), std::string::npos);
  EXPECT_STREQ(nibble_status_text(NIBBLE_OK), "ok");
  EXPECT_STREQ(nibble_status_text(NIBBLE_INVALID_ARGUMENT), "invalid argument");
  EXPECT_STREQ(nibble_status_text(NIBBLE_NO_DEVICE), "no device");
  EXPECT_STREQ(nibble_status_text(NIBBLE_OUT_OF_MEMORY), "out of memory");
  EXPECT_STREQ(nibble_status_text(NIBBLE_RUN_FAILED), "run failed");
  EXPECT_STREQ(nibble_status_text(NIBBLE_INTERNAL), "internal error");
  EXPECT_STREQ(nibble_status_text(NIBBLE_BAD_TUNING), "bad tuning file");
  EXPECT_STREQ(nibble_status_text(static_cast<nibble_status>(7)), "unknown status");
}

// What programs that were compiled before rely on (LP64: 8-byte pointers).
TEST(Capi, FieldsStayWhereTheyAre) {
  EXPECT_EQ(static_cast<int>(NIBBLE_INVALID_ARGUMENT), 1);
  EXPECT_EQ(static_cast<int>(NIBBLE_INTERNAL), 5);
  EXPECT_EQ(static_cast<int>(NIBBLE_BAD_TUNING), 6);
  EXPECT_EQ(static_cast<int>(NIBBLE_FP4), 3);
  EXPECT_EQ(sizeof(nibble_fp4_gemm_desc), 4 * 4 + 3 * 8);
  EXPECT_EQ(offsetof(nibble_fp4_gemm_desc, n), 16);
  EXPECT_EQ(sizeof(nibble_fp4_gemm_args), 8 + 8 + 10 * 8);
  EXPECT_EQ(offsetof(nibble_fp4_gemm_args, a), 16);
  EXPECT_EQ(offsetof(nibble_fp4_gemm_args, workspace_bytes), 88);
  EXPECT_EQ(sizeof(nibble_fp4_gemm_info), 4 * 4 + 8 + 2 * 128);
  EXPECT_EQ(sizeof(nibble_cpu_gemm_weights), 8 + 3 * 8);
  EXPECT_EQ(sizeof(nibble_cpu_gemm_args), 8 + 8 + 5 * 8);
  EXPECT_EQ(sizeof(nibble_moe_desc), 8 * 4 + 2 * 8 + 2 * 4 + 8);
  EXPECT_EQ(offsetof(nibble_moe_desc, hidden), 32);
  EXPECT_EQ(sizeof(nibble_moe_weights), 4 * 4 + 10 * 8);
  EXPECT_EQ(sizeof(nibble_moe_info), 4 * 4 + 160 + 256 + 1024);
  EXPECT_EQ(offsetof(nibble_moe_info, tuning), 4 * 4 + 160 + 256);
  EXPECT_EQ(sizeof(nibble_moe_args), 8 + 8 + 5 * 8);
  EXPECT_EQ(sizeof(nibble_device_info), 7 * 4 + 128 + 16 + 4 + 8);  // 4 of padding
}

TEST(Capi, AShorterStructIsOfAnOlderHeader) {
  auto desc = sized<nibble_moe_desc>();
  desc.format = NIBBLE_MXFP4;
  desc.expected_tokens = 7;
  desc.size = offsetof(nibble_moe_desc, expected_tokens);
  const auto read = read_struct(&desc, "desc");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->format, NIBBLE_MXFP4);
  EXPECT_EQ(read->expected_tokens, 0);  // behind its end
}

TEST(Capi, ALongerStructMayNotAskForWhatIsNotKnown) {
  struct Newer {
    nibble_moe_desc known;
    std::int64_t field;
  };
  Newer newer = {};
  newer.known.size = sizeof(Newer);
  EXPECT_TRUE(read_struct(&newer.known, "desc").ok());
  newer.field = 1;
  const auto refused = read_struct(&newer.known, "desc");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("desc sets a field that this library ("),
            std::string::npos);
}

TEST(Capi, StructsWithoutASizeAreRefused) {
  nibble_moe_desc desc = {};
  EXPECT_EQ(read_struct(&desc, "desc").error().message,
            "desc->size is 0; set it to the size of the struct, and all else to zero first");
  EXPECT_EQ(read_struct<nibble_moe_desc>(nullptr, "desc").error().message, "desc is null");
}

// By offsets that are written out: 4-byte fields to 16, 8-byte ones behind.
TEST(Capi, ASizeThatCutsAFieldIsRefused) {
  auto weights = sized<nibble_cpu_gemm_weights>();
  for (std::uint32_t size = 8; size <= sizeof(weights); ++size) {
    weights.size = size;
    EXPECT_EQ(read_struct(&weights, "weights").ok(), size % 8 == 0) << size;
    auto filled = sized<nibble_cpu_gemm_weights>();
    EXPECT_EQ(write_struct(&weights, filled, "weights").ok(), size % 8 == 0) << size;
  }
  auto desc = sized<nibble_fp4_gemm_desc>();
  for (std::uint32_t size = 8; size <= sizeof(desc); ++size) {
    desc.size = size;
    EXPECT_EQ(read_struct(&desc, "desc").ok(), size % (size < 16 ? 4 : 8) == 0) << size;
  }
  // A text is whole or not there; the 4 bytes of padding before memory_bytes are no field.
  auto info = sized<nibble_device_info>();
  for (std::uint32_t size = 28; size <= sizeof(info); ++size) {
    info.size = size;
    const bool whole =
        size == 28 || size == 28 + 128 || (size >= 172 && size <= 176) || size == 184;
    EXPECT_EQ(read_struct(&info, "info").ok(), whole) << size;
  }
  info.size = 100;
  EXPECT_EQ(read_struct(&info, "info").error().message,
            "info->size is 100, which ends inside of name (bytes 28 to 155); set it to the size of "
            "the struct");
}

TEST(Capi, InfoOfAShorterStructIsCutThere) {
  struct Room {
    nibble_moe_info info;
    std::uint64_t behind;
  };
  Room room = {};
  room.behind = 42;
  room.info.size = 8;
  auto filled = sized<nibble_moe_info>();
  filled.is_gpu = 1;
  write_text(filled.layer, "text");
  ASSERT_TRUE(write_struct(&room.info, filled, "info").ok());
  EXPECT_EQ(room.info.size, 8U);
  EXPECT_EQ(room.info.is_gpu, 1);
  EXPECT_EQ(room.info.layer[0], '\0');
  EXPECT_EQ(room.behind, 42U);
}

TEST(Capi, TextsAreCutToTheirField) {
  char field[4];
  write_text(field, "abcdef");
  EXPECT_STREQ(field, "abc");
}

TEST(Capi, ErrorsBelongToTheirThread) {
  EXPECT_EQ(nibble_cpu_open(-1, nullptr), NIBBLE_INVALID_ARGUMENT);
  EXPECT_STREQ(nibble_last_error(), "device is null");
  std::string before = "not read";
  std::string after;
  std::thread([&] {
    before = nibble_last_error();
    nibble_device* device = nullptr;
    EXPECT_EQ(nibble_cpu_open(-1, &device), NIBBLE_INVALID_ARGUMENT);
    after = nibble_last_error();
  }).join();
  EXPECT_EQ(before, "");
  EXPECT_EQ(after, "threads is -1; give 0 to 1024");
  EXPECT_STREQ(nibble_last_error(), "device is null");
  // A call that succeeds leaves the sentence.
  EXPECT_GT(nibble_swizzled_bytes(1, 1), 0);
  EXPECT_STREQ(nibble_last_error(), "device is null");
}

TEST(Capi, NoExceptionCrosses) {
  EXPECT_EQ(guarded([]() -> Result<> { throw std::bad_alloc(); }), NIBBLE_OUT_OF_MEMORY);
  EXPECT_EQ(guarded([]() -> Result<> { throw std::runtime_error("why"); }), NIBBLE_INTERNAL);
  EXPECT_STREQ(nibble_last_error(), "why");
  EXPECT_EQ(guarded([]() -> Result<> { throw 1; }), NIBBLE_INTERNAL);
  EXPECT_EQ(guarded([]() -> Result<> { return run_error("a call failed"); }), NIBBLE_RUN_FAILED);
  EXPECT_STREQ(nibble_last_error(), "a call failed");
}

TEST(Capi, ASentenceThatIsTooLongIsCut) {
  EXPECT_EQ(report(NIBBLE_INTERNAL, std::string(100'000, 'x')), NIBBLE_INTERNAL);
  EXPECT_EQ(std::string(nibble_last_error()), std::string(4095, 'x'));
}

TEST(Capi, OffsetsOfExperts) {
  const auto refusal = [](std::vector<std::int32_t> offsets, std::int64_t rows) {
    const Result<> checked = check_offsets(offsets, rows);
    return checked.ok() ? std::string() : checked.error().message;
  };
  EXPECT_EQ(refusal({0, 2, 2, 5}, 5), "");
  EXPECT_EQ(refusal({1, 2}, 2), "expert_offsets[0] is 1; the first expert's rows begin at 0");
  EXPECT_EQ(refusal({0, 3, 2}, 2), "expert_offsets[2] is 2 and the one before it 3; they ascend");
  EXPECT_EQ(refusal({0, 3}, 4), "expert_offsets ends with 3, and there are 4 rows");
}

}  // namespace
}  // namespace nibble::capi
