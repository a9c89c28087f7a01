// Devices: what there is, what is missing, and handles of the wrong kind.
#include "cuda/device.h"

#include <gtest/gtest.h>
#include <string>

#include "capi/test_fp4.h"
#include "machine/isa.h"

namespace nibble::capi {
namespace {

TEST(CapiDevice, AGpuThatIsNotThere) {
  nibble_device* device = nullptr;
  const Result<int> count = cuda::device_count();
  const int none = count.ok() ? *count : 0;
  EXPECT_EQ(nibble_device_open(none, &device), NIBBLE_NO_DEVICE);
  EXPECT_EQ(device, nullptr);
  // One sentence, the same as the library's own.
  const std::string sentence = nibble_last_error();
  EXPECT_EQ(sentence,
            count.ok() ? cuda::Device::open(none).error().message : count.error().message);
  EXPECT_GT(sentence.size(), 20U);
  EXPECT_EQ(nibble_device_open(0, nullptr), NIBBLE_INVALID_ARGUMENT);
  EXPECT_STREQ(nibble_last_error(), "device is null");
}

TEST(CapiDevice, TheCpu) {
  nibble_device* device = nullptr;
  ASSERT_CALL_OK(nibble_cpu_open(2, &device));
  auto info = sized<nibble_device_info>();
  ASSERT_CALL_OK(nibble_device_describe(device, &info));
  EXPECT_EQ(info.size, sizeof(info));
  EXPECT_EQ(info.is_gpu, 0);
  EXPECT_EQ(info.threads, 2);
  EXPECT_EQ(std::string(info.name), to_string(best_isa()));
  EXPECT_EQ(nibble_device_describe(device, nullptr), NIBBLE_INVALID_ARGUMENT);
  EXPECT_EQ(nibble_device_describe(nullptr, &info), NIBBLE_INVALID_ARGUMENT);
  nibble_device_close(device);
  nibble_device_close(nullptr);
}

TEST(CapiDevice, WhatNeedsAGpuSaysSo) {
  nibble_device* cpu = nullptr;
  ASSERT_CALL_OK(nibble_cpu_open(1, &cpu));
  void* memory = nullptr;
  EXPECT_EQ(nibble_device_allocate(cpu, 16, &memory), NIBBLE_INVALID_ARGUMENT);
  EXPECT_STREQ(nibble_last_error(),
               "nibble_device_allocate works on a GPU, and the device is of nibble_cpu_open()");
  EXPECT_EQ(nibble_device_upload(cpu, &memory, &memory, 1), NIBBLE_INVALID_ARGUMENT);
  EXPECT_EQ(nibble_device_download(cpu, &memory, &memory, 1), NIBBLE_INVALID_ARGUMENT);
  EXPECT_EQ(nibble_device_release(cpu, nullptr), NIBBLE_INVALID_ARGUMENT);
  EXPECT_EQ(nibble_device_allocate(nullptr, 16, &memory), NIBBLE_INVALID_ARGUMENT);
  EXPECT_STREQ(nibble_last_error(), "device is null");
  nibble_device_close(cpu);
}

}  // namespace
}  // namespace nibble::capi
