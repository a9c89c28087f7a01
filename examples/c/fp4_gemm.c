/* A product of two matrices in NVFP4, on the GPU if there is one, else on the CPU, beside a plain
 * loop in double precision.
 *
 *   cc -std=c99 fp4_gemm.c -o fp4_gemm $(pkg-config --cflags --libs nibble) -lm && ./fp4_gemm
 */
#include <math.h>
#include <nibble/nibble.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { M = 24, N = 96, K = 256, BLOCKS = K / 16 };

/* A matrix as engines have it: codes, scales as the instruction reads them, and one factor. */
struct fp4_matrix {
  uint8_t* codes;
  uint8_t* row_major; /* scales [rows, BLOCKS] */
  uint8_t* scales;    /* the same in 128x4 */
  size_t scale_bytes;
  float factor;
};

static void check(nibble_status status, const char* what) {
  if (status == NIBBLE_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, nibble_status_text(status), nibble_last_error());
  exit(1);
}

static void* allocate(size_t bytes) {
  void* memory = calloc(1, bytes);
  if (memory == NULL) exit(1);
  return memory;
}

/* Sums of uniform values look like a bell. */
static struct fp4_matrix random_matrix(int64_t rows) {
  struct fp4_matrix matrix;
  float* x = allocate((size_t)rows * K * sizeof *x);
  int64_t at;
  int draw;
  for (at = 0; at < rows * K; ++at) {
    for (draw = 0; draw < 4; ++draw) x[at] += (float)rand() / (float)RAND_MAX - 0.5F;
  }
  matrix.codes = allocate((size_t)rows * K / 2);
  matrix.row_major = allocate((size_t)rows * BLOCKS);
  matrix.scale_bytes = (size_t)nibble_swizzled_bytes(rows, BLOCKS);
  matrix.scales = allocate(matrix.scale_bytes);
  check(nibble_quantize_nvfp4(x, rows, K, NULL, matrix.codes, matrix.row_major, &matrix.factor),
        "quantize");
  check(nibble_swizzle_scales(matrix.row_major, rows, BLOCKS, matrix.scales), "swizzle");
  free(x);
  return matrix;
}

/* e2m1 code x e4m3 scale x factor. */
static double value(const struct fp4_matrix* matrix, int64_t row, int64_t column) {
  static const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const int byte = matrix->codes[(row * K + column) / 2];
  const int code = column % 2 == 0 ? byte & 15 : byte >> 4;
  const int scale = matrix->row_major[row * BLOCKS + column / 16];
  const int exponent = scale >> 3;
  const double multiplier =
      exponent == 0 ? ldexp(scale & 7, -9) : ldexp(8 + (scale & 7), exponent - 10);
  return (code & 8 ? -1 : 1) * magnitudes[code & 7] * multiplier * (double)matrix->factor;
}

static void* to_gpu(nibble_device* gpu, const void* from, size_t bytes) {
  void* memory = NULL;
  check(nibble_device_allocate(gpu, bytes, &memory), "allocate");
  if (from != NULL) check(nibble_device_upload(gpu, memory, from, bytes), "upload");
  return memory;
}

static void run_on_gpu(nibble_device* gpu, const nibble_fp4_gemm_desc* desc,
                       const struct fp4_matrix* a, const struct fp4_matrix* b, float alpha,
                       float* out) {
  nibble_fp4_gemm* plan = NULL;
  nibble_fp4_gemm_args args = {sizeof args, 0,    M,    NULL, NULL, NULL, NULL,
                               NULL,        NULL, NULL, NULL, NULL, 0};
  nibble_fp4_gemm_info info = {sizeof info, 0, 0, 0, 0, "", ""};
  check(nibble_fp4_gemm_create(gpu, desc, &plan), "plan");
  check(nibble_fp4_gemm_describe(plan, &info), "describe");
  printf("%s: %s%s\n", info.problem, info.tactic,
         info.software_mma ? ", its instruction in software" : "");
  check(nibble_fp4_gemm_workspace_bytes(plan, &args.workspace_bytes), "workspace");
  args.a = to_gpu(gpu, a->codes, M * K / 2);
  args.b = to_gpu(gpu, b->codes, N * K / 2);
  args.block_scale_a = to_gpu(gpu, a->scales, a->scale_bytes);
  args.block_scale_b = to_gpu(gpu, b->scales, b->scale_bytes);
  args.alpha = to_gpu(gpu, &alpha, sizeof alpha);
  args.out = to_gpu(gpu, NULL, M * N * sizeof *out);
  args.workspace = to_gpu(gpu, NULL, args.workspace_bytes);
  check(nibble_fp4_gemm_run(plan, &args, NULL), "run"); /* NULL: the default stream */
  check(nibble_device_download(gpu, out, args.out, M * N * sizeof *out), "download");
  nibble_fp4_gemm_destroy(plan); /* the buffers go with the process */
}

static void run_on_cpu(nibble_device* cpu, const nibble_fp4_gemm_desc* desc,
                       const struct fp4_matrix* a, const struct fp4_matrix* b, float alpha,
                       float* out) {
  nibble_cpu_gemm* gemm = NULL;
  const nibble_cpu_gemm_weights weights = {sizeof weights, NIBBLE_SCALES_128X4, b->codes, b->scales,
                                           &alpha};
  const nibble_cpu_gemm_args args = {sizeof args, NIBBLE_FP4, M,    a->codes,
                                     a->scales,   out,        NULL, NULL};
  check(nibble_cpu_gemm_create(cpu, desc, &weights, &gemm), "pack");
  check(nibble_cpu_gemm_run(gemm, &args), "run");
  nibble_cpu_gemm_destroy(gemm);
}

int main(void) {
  const struct fp4_matrix a = random_matrix(M);
  const struct fp4_matrix b = random_matrix(N);
  const nibble_fp4_gemm_desc desc = {sizeof desc, NIBBLE_NVFP4, NIBBLE_FP32, 1, N, K, M};
  float* out = allocate(M * N * sizeof *out);
  nibble_device* device = NULL;
  nibble_device_info info = {sizeof info, 0, 0, 0, 0, 0, 0, "", "", 0};
  double difference = 0;
  double size = 0;
  int64_t row, column, at;
  if (nibble_device_open(0, &device) != NIBBLE_OK) {
    printf("no GPU: %s\n", nibble_last_error());
    check(nibble_cpu_open(0, &device), "cpu");
  }
  check(nibble_device_describe(device, &info), "describe");
  printf("nibble %s on %s\n", nibble_version(), info.name);
  (info.is_gpu ? run_on_gpu : run_on_cpu)(device, &desc, &a, &b, a.factor * b.factor, out);
  nibble_device_close(device);
  for (row = 0; row < M; ++row) {
    for (column = 0; column < N; ++column) {
      double sum = 0;
      for (at = 0; at < K; ++at) sum += value(&a, row, at) * value(&b, column, at);
      difference += pow((double)out[row * N + column] - sum, 2);
      size += sum * sum;
    }
  }
  printf("[%d, %d] x [%d, %d]: relative error %.1e\n", M, K, N, K, sqrt(difference / size));
  return sqrt(difference / size) < 1e-3 ? 0 : 1;
}
