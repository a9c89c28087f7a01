# Device code and its host side: included by the room's CMakeLists.txt.
set(device_sources
  device/block_limits.cpp
  device/device_sources.cpp
  gemm/device/prepack.cpp
  gemm/device/product_checks.cpp
  gemm/device/w4a16.cpp
  gemm/device/w4a16_defaults.cpp
  gemm/device/w4a4.cpp
  moe/device/moe_cuda.cpp
  moe/device/moe_cuda_call.cpp
  moe/device/moe_cuda_layer.cpp
  moe/device/moe_cuda_memory.cpp
  moe/device/moe_kernels.cpp
  moe/device/one_launch.cpp
  moe/device/quantize_kernel.cpp
  moe/device/w4a4_moe.cpp
  moe/device/w4a4_moe_call.cpp
  moe/device/w4a4_weights.cpp)
set(device_tests
  device/device_compile_test.cpp
  gemm/device/prepack_device_test.cpp
  gemm/device/prepack_gpu_test.cpp
  gemm/device/w4a16_gpu_test.cpp
  gemm/device/w4a16_test.cpp
  gemm/device/mma_fp4_device_test.cpp
  gemm/device/w4a4_gpu_test.cpp
  gemm/device/w4a4_test.cpp
  moe/device/moe_cuda_gpu_test.cpp
  moe/device/moe_cuda_test.cpp
  moe/device/moe_kernels_gpu_test.cpp
  moe/device/one_launch_device_test.cpp
  moe/device/one_launch_test.cpp
  moe/device/quantize_kernel_test.cpp
  moe/device/quantize_rows_device_test.cpp
  moe/device/route_device_test.cpp
  moe/device/rows_device_test.cpp
  moe/device/w4a4_moe_gpu_test.cpp
  moe/device/w4a4_moe_test.cpp)

# What the run-time compiler is given: device code, and the headers that host and device share.
file(GLOB_RECURSE device_texts CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cuh")
file(GLOB product_texts CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/gemm/device/w4a*_*.h")
list(APPEND device_texts ${product_texts}
  "${PROJECT_SOURCE_DIR}/src/formats/codec.h"
  "${PROJECT_SOURCE_DIR}/src/formats/host_device.h"
  "${CMAKE_CURRENT_SOURCE_DIR}/device/element.h"
  "${CMAKE_CURRENT_SOURCE_DIR}/gemm/device/product.h"
  "${CMAKE_CURRENT_SOURCE_DIR}/gemm/device/weight_codes.h"
  "${PROJECT_SOURCE_DIR}/src/formats/scale_layout.h"
  "${CMAKE_CURRENT_SOURCE_DIR}/moe/device/moe_shape.h"
  "${CMAKE_CURRENT_SOURCE_DIR}/moe/device/one_launch_params.h"
  "${CMAKE_CURRENT_SOURCE_DIR}/moe/device/quantize_rows.h")

# Device code that the host runs (device/test_simt.h): g++ has no #pragma unroll. Each file has
# stand-ins of its own, and is not compiled together with others.
set_source_files_properties(
  gemm/device/mma_fp4_device_test.cpp
  gemm/device/prepack_device_test.cpp
  moe/device/one_launch_device_test.cpp
  moe/device/quantize_rows_device_test.cpp
  moe/device/route_device_test.cpp
  moe/device/rows_device_test.cpp
  PROPERTIES COMPILE_OPTIONS "-Wno-unknown-pragmas")
