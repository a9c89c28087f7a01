// The headers that device code includes, read as NVRTC reads them: no standard header is there
// (CMakeLists.txt takes the search paths away), and compiling this file is the test.
#define __CUDACC_RTC__
#include "formats/codec.h"
#include "formats/scale_layout.h"

namespace nibble {
namespace {

constexpr uint8_t kRow[] = {pack_e2m1(7, 9), pack_e2m1(1, 0)};
static_assert(e2m1_at(kRow, 0) == 7 && e2m1_at(kRow, 1) == 9 && e2m1_at(kRow, 2) == 1);
static_assert(e2m1_to_float(float_to_e2m1(2.5F)) == 2.0F);
static_assert(e4m3_to_float(float_to_e4m3(1e9F)) == 448.0F);
static_assert(e8m0_to_float(float_to_e8m0(3.0F)) == 2.0F);
static_assert(bf16_to_float(float_to_bf16(1.0F)) == 1.0F);
static_assert(fp16_to_float(float_to_fp16(1.0F)) == 1.0F);
static_assert(swizzled_bytes(1, 3) == 512);

}  // namespace
}  // namespace nibble
