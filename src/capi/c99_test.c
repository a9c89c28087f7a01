/* The header in C99, with every warning: each type is filled and each function named. */
#include <nibble/nibble.h>
#include <string.h>

int nibble_c99_multiply(float* result);

/* One row times one row on the CPU: 32 columns of 1 x 2 with factors 1 and 3. The caller expects
 * 32 * 2 * 3. Returns 0, or the number of the step that failed. */
int nibble_c99_multiply(float* result) {
  float weights[32];
  float row[32];
  uint8_t codes[16];
  uint8_t scales[2];
  float factor = 0;
  float alpha = 3;
  int at;
  nibble_device* device = NULL;
  nibble_cpu_gemm* gemm = NULL;
  nibble_fp4_gemm_desc desc;
  nibble_cpu_gemm_weights given;
  nibble_cpu_gemm_args args;
  for (at = 0; at < 32; ++at) {
    weights[at] = 2;
    row[at] = 1;
  }
  if (nibble_quantize_nvfp4(weights, 1, 32, NULL, codes, scales, &factor) != NIBBLE_OK) return 1;
  alpha *= factor;
  if (nibble_cpu_open(1, &device) != NIBBLE_OK) return 2;
  memset(&desc, 0, sizeof desc);
  desc.size = (uint32_t)sizeof desc;
  desc.n = 1;
  desc.k = 32;
  desc.out_dtype = NIBBLE_FP32;
  memset(&given, 0, sizeof given);
  given.size = (uint32_t)sizeof given;
  given.b = codes;
  given.block_scale_b = scales;
  given.alpha = &alpha;
  if (nibble_cpu_gemm_create(device, &desc, &given, &gemm) != NIBBLE_OK) return 3;
  memset(&args, 0, sizeof args);
  args.size = (uint32_t)sizeof args;
  args.a_dtype = NIBBLE_FP32;
  args.rows = 1;
  args.a = row;
  args.out = result;
  if (nibble_cpu_gemm_run(gemm, &args) != NIBBLE_OK) return 4;
  nibble_cpu_gemm_destroy(gemm);
  nibble_device_close(device);
  return nibble_abi_version() == NIBBLE_ABI_VERSION ? 0 : 5;
}
