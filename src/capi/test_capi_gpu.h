// What the GPU tests of the C API share: a device of the API beside the tests' own, in one context.
//
//   class CapiThing : public CapiGpuTest {};
//   TEST_F(CapiThing, Works) { nibble_thing_create(device(), ...); }
#pragma once

#include <nibble/nibble.h>

#include "capi/test_fp4.h"
#include "kernels/device/test_gpu.h"

namespace nibble::capi {

class CapiGpuTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_CALL_OK(nibble_device_open(0, &device_));
  }
  void TearDown() override { nibble_device_close(device_); }

  nibble_device* device() const { return device_; }

 private:
  nibble_device* device_ = nullptr;
};

}  // namespace nibble::capi
