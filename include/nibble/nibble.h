/* nibble's C API: products and expert layers with 4-bit weights, for serving engines.
 *
 *   nibble_device* device = NULL;
 *   if (nibble_device_open(0, &device) != NIBBLE_OK) puts(nibble_last_error());
 *   nibble_fp4_gemm_desc desc = {sizeof desc};
 *   desc.n = 4096; desc.k = 6144;
 *   nibble_fp4_gemm_create(device, &desc, &plan);   // compiles, once
 *   nibble_fp4_gemm_run(plan, &args, stream);       // enqueues
 *
 * Rules of every call (docs/c_api.md):
 * - It returns NIBBLE_OK or what went wrong; nibble_last_error() has the sentence.
 * - A struct begins with its size. Fields that are zero take their defaults, so that a struct may
 *   grow: set all of it to zero first. A size that ends inside of a field is refused.
 * - `stream` is a CUstream (cudaStream_t), NULL the default one. A call with a stream enqueues: it
 *   neither allocates memory of the GPU nor waits, and may be captured into a graph.
 * - Matrices are row-major. 4-bit codes: two in a byte, the even column in the low nibble. Block
 *   scales: e4m3 for 16 columns (NVFP4), e8m0 for 32 (MXFP4).
 * - Objects are made and destroyed by calls named so; destroying NULL does nothing. An object keeps
 *   what it was made of, and must outlive the work that it enqueued.
 */
#ifndef NIBBLE_NIBBLE_H
#define NIBBLE_NIBBLE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define NIBBLE_API __attribute__((visibility("default")))
#else
#define NIBBLE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Of this header; what nibble_abi_version() says of the library must be the same. It changes when a
 * function or a field changes its meaning; fields are added at the end of structs without that. */
#define NIBBLE_ABI_VERSION 1

/* ---- Versions and errors ----------------------------------------------------------------------
 */

typedef enum nibble_status {
  NIBBLE_OK = 0,
  NIBBLE_INVALID_ARGUMENT = 1, /* a pointer, size or format that the call does not take */
  NIBBLE_NO_DEVICE = 2,        /* no driver, or no GPU of that number */
  NIBBLE_OUT_OF_MEMORY = 3,    /* of the host */
  NIBBLE_RUN_FAILED = 4,       /* the driver, the compiler, the GPU or the system refused; or the
                                * numbers between two products leave what is held */
  NIBBLE_INTERNAL = 5,         /* a mistake of the library's own */
  NIBBLE_BAD_TUNING = 6        /* a tuning file that cannot be read, or is of no use here */
} nibble_status;

NIBBLE_API const char* nibble_version(void); /* "0.1.0" */
NIBBLE_API int32_t nibble_abi_version(void);
NIBBLE_API const char* nibble_status_text(nibble_status status); /* "invalid argument" */
/* What went wrong in this thread's last call that failed, in one sentence; "" before the first.
 * Stands until the next call of this thread that fails. */
NIBBLE_API const char* nibble_last_error(void);

/* ---- Devices ----------------------------------------------------------------------------------
 */

typedef enum nibble_dtype {
  NIBBLE_BF16 = 0,
  NIBBLE_FP16 = 1,
  NIBBLE_FP32 = 2,
  NIBBLE_FP4 = 3 /* packed codes with block scales */
} nibble_dtype;

typedef enum nibble_format { NIBBLE_NVFP4 = 0, NIBBLE_MXFP4 = 1 } nibble_format;

typedef enum nibble_scale_layout {
  NIBBLE_SCALES_ROW_MAJOR = 0, /* [rows, k / block], as checkpoints have them */
  NIBBLE_SCALES_128X4 = 1      /* as matrix instructions read them; see nibble_swizzle_scales() */
} nibble_scale_layout;

typedef struct nibble_device nibble_device; /* a GPU, or threads of the CPU */

/* A GPU of this process, counted from 0; its primary context, which PyTorch and the CUDA runtime
 * use too. The context that is current in the calling thread stays so. */
NIBBLE_API nibble_status nibble_device_open(int32_t ordinal, nibble_device** device);
/* `threads` threads of the CPU, the caller not among them; 0: as many as it may use. Work of
 * several callers is done one after the other. NIBBLE_RUN_FAILED where the system does not give so
 * many threads.
 *
 * A forked process has none of them: there, calls that work on this device are refused
 * (NIBBLE_INVALID_ARGUMENT), objects may be destroyed, and a device must be opened anew. */
NIBBLE_API nibble_status nibble_cpu_open(int32_t threads, nibble_device** device);
NIBBLE_API void nibble_device_close(nibble_device* device);

/* Layers that are made on this device of nibble_cpu_open() from now on take the choices of this
 * file (nibble.tuning/1, which `nibble tune --on cpu` writes); NULL: the defaults.
 * NIBBLE_BAD_TUNING for a file that is missing or damaged, or of another processor or version: the
 * device stays as it was. */
NIBBLE_API nibble_status nibble_device_use_tuning(nibble_device* device, const char* path);

typedef struct nibble_device_info {
  uint32_t size;
  int32_t is_gpu;
  int32_t fp4_mma; /* the GPU multiplies FP4 itself (compute capability 12.x) */
  int32_t major;   /* compute capability */
  int32_t minor;
  int32_t sms;
  int32_t threads; /* of a CPU */
  char name[128];  /* "NVIDIA H200"; of a CPU its instructions: "avx2" */
  char arch[16];   /* "sm_90a" */
  int64_t memory_bytes;
} nibble_device_info;

NIBBLE_API nibble_status nibble_device_describe(const nibble_device* device,
                                                nibble_device_info* info);

/* Memory of a GPU for programs that have none of their own: set-up and tests. Each waits. */
NIBBLE_API nibble_status nibble_device_allocate(nibble_device* device, size_t bytes, void** memory);
NIBBLE_API nibble_status nibble_device_release(nibble_device* device, void* memory);
NIBBLE_API nibble_status nibble_device_upload(nibble_device* device, void* to, const void* from,
                                              size_t bytes);
NIBBLE_API nibble_status nibble_device_download(nibble_device* device, void* to, const void* from,
                                                size_t bytes);

/* ---- FP4 GEMM: out = alpha * a * b^T, both sides quantized -------------------------------------
 */

typedef struct nibble_fp4_gemm_desc {
  uint32_t size;
  int32_t format;        /* nibble_format, of both sides */
  int32_t out_dtype;     /* NIBBLE_BF16, NIBBLE_FP16 or NIBBLE_FP32 */
  int32_t experts;       /* matrices; 0: one */
  int64_t n;             /* rows of b */
  int64_t k;             /* columns: a multiple of 16 (NVFP4) or 32 (MXFP4); to 2^24 */
  int64_t expected_rows; /* rows of a that the largest expert has usually; 0: 16. Any number works,
                          * this one is planned for; the CPU plans nothing. */
} nibble_fp4_gemm_desc;

/* The arguments of cutlass_scaled_fp4_mm and cutlass_fp4_moe_mm. Addresses of the GPU. */
typedef struct nibble_fp4_gemm_args {
  uint32_t size;
  int32_t reserved;              /* 0 */
  int64_t rows;                  /* m: of a, of all experts together */
  const void* a;                 /* [rows, k / 2] */
  const void* b;                 /* [experts, n, k / 2] */
  const void* block_scale_a;     /* 128x4, padded to 128 rows and 4 columns; padding is not read */
  const void* block_scale_b;     /* [experts] matrices of 128x4, each padded so */
  const float* alpha;            /* [experts]; NULL: 1 */
  void* out;                     /* [rows, n] in out_dtype */
  const int32_t* expert_offsets; /* [experts + 1], ascending from 0 to rows: an expert's first row;
                                  * NULL for one expert */
  const int32_t* sf_offsets;     /* [experts]: an expert's first row of block_scale_a; NULL: that
                                  * of a */
  void* workspace;               /* nibble_fp4_gemm_workspace_bytes(), for one call at a time */
  size_t workspace_bytes;
} nibble_fp4_gemm_args;

typedef struct nibble_fp4_gemm nibble_fp4_gemm; /* a plan; several threads may run it */

NIBBLE_API nibble_status nibble_fp4_gemm_create(nibble_device* device,
                                                const nibble_fp4_gemm_desc* desc,
                                                nibble_fp4_gemm** plan);
NIBBLE_API void nibble_fp4_gemm_destroy(nibble_fp4_gemm* plan);
NIBBLE_API nibble_status nibble_fp4_gemm_workspace_bytes(const nibble_fp4_gemm* plan,
                                                         size_t* bytes);
/* a, b, scales, out and workspace begin at multiples of 16 bytes, the others of 4. */
NIBBLE_API nibble_status nibble_fp4_gemm_run(const nibble_fp4_gemm* plan,
                                             const nibble_fp4_gemm_args* args, void* stream);

typedef struct nibble_fp4_gemm_info {
  uint32_t size;
  int32_t software_mma; /* 1: this GPU has no FP4 instruction, and a software body multiplies:
                         * right, and far too slow to use or to time */
  int32_t grid;         /* blocks of a launch */
  int32_t reserved;     /* 0 */
  int64_t shared_bytes; /* of a block */
  char problem[128];    /* "1 x [4096, 6144] nvfp4 x nvfp4 -> bf16" */
  char tactic[128];
} nibble_fp4_gemm_info;

NIBBLE_API nibble_status nibble_fp4_gemm_describe(const nibble_fp4_gemm* plan,
                                                  nibble_fp4_gemm_info* info);

/* ---- The same on the CPU, weights packed once --------------------------------------------------
 *
 * Right within a range, and refused outside of it (docs/c_api.md has where it comes from):
 * - a: finite, magnitudes to 2^85; of 64 neighbours (columns 64 i .. 64 i + 63 of a row) all zero,
 *   or the largest 2^-100 or more. Of NIBBLE_FP4 neighbours are those of one scale.
 * - b: the scales of a row, where codes are not all zero, within 2^48 of its largest, as all of
 *   NVFP4's are. Where that lies in [2^s, 2^(s + 1)), alpha * 2^(s - 14) is held by fp32 exactly
 *   (of NVFP4, s is -6 at least): with NVFP4, of every alpha of magnitude 2^-106 and more.
 * Results that fp32 does not hold are infinite, as in any product.
 */

typedef struct nibble_cpu_gemm_weights {
  uint32_t size;
  int32_t scale_layout;      /* nibble_scale_layout */
  const void* b;             /* [experts, n, k / 2] */
  const void* block_scale_b; /* [experts] matrices */
  const float* alpha;        /* [experts]; NULL: 1 */
} nibble_cpu_gemm_weights;

typedef struct nibble_cpu_gemm_args {
  uint32_t size;
  int32_t a_dtype; /* nibble_dtype */
  int64_t rows;
  const void* a;                 /* [rows, k] at a multiple of its type's bytes, as out is; or of
                                  * NIBBLE_FP4 [rows, k / 2] */
  const void* block_scale_a;     /* of NIBBLE_FP4: 128x4, in the plan's format */
  void* out;                     /* [rows, n] in out_dtype */
  const int32_t* expert_offsets; /* as above */
  const int32_t* sf_offsets;     /* as above, of NIBBLE_FP4 */
} nibble_cpu_gemm_args;

typedef struct nibble_cpu_gemm nibble_cpu_gemm;

/* `device` is of nibble_cpu_open(). The weights are copied. */
NIBBLE_API nibble_status nibble_cpu_gemm_create(nibble_device* device,
                                                const nibble_fp4_gemm_desc* desc,
                                                const nibble_cpu_gemm_weights* weights,
                                                nibble_cpu_gemm** gemm);
NIBBLE_API void nibble_cpu_gemm_destroy(nibble_cpu_gemm* gemm);
/* Done when it returns. Weights are exact, and so is a of NIBBLE_FP4: its result is the GPU's but
 * for the order of sums. Of other types of a, bf16 keeps 2^-14 and the others 2^-15 of the largest
 * of 64 neighbours. Sums of 64 are exact, and rounded to fp32 as they are added up. Where codes
 * need it, a row takes up to four times as long. */
NIBBLE_API nibble_status nibble_cpu_gemm_run(const nibble_cpu_gemm* gemm,
                                             const nibble_cpu_gemm_args* args);

/* ---- A layer of experts with 4-bit weights -----------------------------------------------------
 */

/* What multiplies the weights. */
typedef enum nibble_operand {
  NIBBLE_OPERAND_16 = 0, /* W4A16: activations as they are; on every GPU from Ampere on */
  NIBBLE_OPERAND_FP4 = 1 /* W4A4: quantized to the weights' format, as FP4 instructions take them.
                          * GPUs without these compute it in software, far too slow to use. */
} nibble_operand;

typedef enum nibble_row_order {
  NIBBLE_GATE_UP = 0,    /* w13 has the gate rows (w1), then the up rows (w3) */
  NIBBLE_UP_GATE = 1,    /* up rows first */
  NIBBLE_INTERLEAVED = 2 /* a gate row and an up row in turn, as gpt-oss has them */
} nibble_row_order;

typedef enum nibble_activation {
  NIBBLE_SWIGLU = 0,        /* silu(gate) * up */
  NIBBLE_CLAMPED_SWIGLU = 1 /* gpt-oss's: (up' + 1) * gate' * sigmoid(swiglu_alpha * gate'), both
                             * clamped to swiglu_limit */
} nibble_activation;

typedef struct nibble_moe_desc {
  uint32_t size;
  int32_t format;     /* nibble_format of the weights */
  int32_t dtype;      /* of hidden_states and out: NIBBLE_BF16 or NIBBLE_FP16; on the CPU
                       * NIBBLE_FP32 too */
  int32_t activation; /* nibble_activation */
  int32_t operand;    /* nibble_operand */
  int32_t experts;
  int32_t top_k;
  int32_t reserved;        /* 0 */
  int64_t hidden;          /* whole blocks, where the operand is FP4 */
  int64_t intermediate;    /* of one expert; the same */
  float swiglu_alpha;      /* of the clamped form; 0: 1.702 */
  float swiglu_limit;      /* of the clamped form; 0: 7 */
  int64_t expected_tokens; /* usual number of tokens of a call; 0: 1. Any number works. */
} nibble_moe_desc;

/* A checkpoint's tensors; copied and rearranged. */
typedef struct nibble_moe_weights {
  uint32_t size;
  int32_t on_device;       /* 1: the addresses are of the GPU; 0: of the host */
  int32_t scale_layout;    /* nibble_scale_layout; 128x4: of each expert by itself */
  int32_t row_order;       /* nibble_row_order, of w13, its scales and its bias */
  const void* w13;         /* [experts, 2 * intermediate, hidden / 2] */
  const void* w13_scale;   /* [experts] matrices of [2 * intermediate, hidden / block] */
  const float* w13_factor; /* [experts, 2]: what multiplies gate rows and up rows (ModelOpt's
                            * weight_scale_2; compressed-tensors has its reciprocal); NULL: 1 */
  const float* w13_bias;   /* [experts, 2 * intermediate], or NULL */
  const void* w2;          /* [experts, hidden, intermediate / 2] */
  const void* w2_scale;    /* [experts] matrices of [hidden, intermediate / block] */
  const float* w2_factor;  /* [experts]; NULL: 1 */
  const float* w2_bias;    /* [experts, hidden], or NULL */
  /* FP4 operands in NVFP4: the factors of activations (ModelOpt's input_scale; engines' a1_gscale
   * and a2_gscale are reciprocals), of which the largest is taken for all experts. NULL, both: a
   * factor of each row. */
  const float* w13_input_scale; /* [experts] */
  const float* w2_input_scale;  /* [experts] */
} nibble_moe_weights;

typedef struct nibble_moe_args {
  uint32_t size;
  int32_t reserved; /* 0 */
  int64_t tokens;
  const void* hidden_states; /* [tokens, hidden] */
  const int32_t* topk_ids;   /* [tokens, top_k]. On a GPU a choice of what is no expert (-1 too) is
                              * left out and counted; on the CPU it is refused. */
  const float* topk_weights; /* [tokens, top_k]: multiply what experts give, not what they take */
  const void* shared;        /* [tokens, hidden]: added last; NULL: none; may be out */
  void* out;                 /* [tokens, hidden]; not hidden_states */
} nibble_moe_args;

typedef struct nibble_moe nibble_moe;                     /* a layer's weights and kernels */
typedef struct nibble_moe_workspace nibble_moe_workspace; /* what a call writes besides out */

/* `device` may be a GPU or the CPU. Layers of one description share their kernels. Waits for all
 * work of the GPU. */
NIBBLE_API nibble_status nibble_moe_create(nibble_device* device, const nibble_moe_desc* desc,
                                           const nibble_moe_weights* weights, nibble_moe** moe);
NIBBLE_API void nibble_moe_destroy(nibble_moe* moe);
/* For at most `most_tokens` tokens, of all layers with the description of this one: one call at a
 * time, which calls in one stream are. */
NIBBLE_API nibble_status nibble_moe_workspace_create(const nibble_moe* moe, int64_t most_tokens,
                                                     nibble_moe_workspace** workspace);
NIBBLE_API void nibble_moe_workspace_destroy(nibble_moe_workspace* workspace);
/* On the CPU `stream` is NULL and the layer done when the call returns. On a GPU both top-k
 * tables begin at multiples of 4 bytes, hidden_states, shared and out of 16; on the CPU those of
 * their type's bytes.
 *
 * On the CPU hidden_states and the activations between the products have the range of a of
 * nibble_cpu_gemm_run(), and w13 and w2 that of b; with NIBBLE_OPERAND_FP4 neighbours are a whole
 * row, and input scales 2^-112 or more. topk_weights and shared are finite. A call that is refused
 * for what it was given returns NIBBLE_INVALID_ARGUMENT, for the activations or for sums that leave
 * fp32 NIBBLE_RUN_FAILED; it leaves out as it was. */
NIBBLE_API nibble_status nibble_moe_run(const nibble_moe* moe, nibble_moe_workspace* workspace,
                                        const nibble_moe_args* args, void* stream);
/* Choices left out since the workspace was made. Waits for all work of the GPU. */
NIBBLE_API nibble_status nibble_moe_dropped_choices(const nibble_moe_workspace* workspace,
                                                    int64_t* choices);

typedef struct nibble_moe_info {
  uint32_t size;
  int32_t is_gpu;
  int32_t software_mma; /* as of nibble_fp4_gemm_info */
  int32_t reserved;     /* 0 */
  char layer[160];      /* what it computes, and on what */
  char tactics[256]; /* of both products, on a GPU, and of the layer in one launch, if there is one
                      */
  char tuning[1024]; /* of nibble_device_use_tuning(): which keys hit, and what is taken instead
                      * where none did, and why; "" without a file */
} nibble_moe_info;

NIBBLE_API nibble_status nibble_moe_describe(const nibble_moe* moe, nibble_moe_info* info);

/* ---- Number formats, on the host ----------------------------------------------------------------
 */

/* x [rows, columns], columns even -> codes [rows, columns / 2] and row-major scales
 * [rows, ceil(columns / 16)], with x = code * scale * factor about. `given` is the factor to take;
 * NULL: max|x| / (6 * 448). `factor` gets what was taken, unless it is NULL. */
NIBBLE_API nibble_status nibble_quantize_nvfp4(const float* x, int64_t rows, int64_t columns,
                                               const float* given, uint8_t* codes, uint8_t* scales,
                                               float* factor);
/* The same in MXFP4, which has no factor: scales [rows, ceil(columns / 32)]. */
NIBBLE_API nibble_status nibble_quantize_mxfp4(const float* x, int64_t rows, int64_t columns,
                                               uint8_t* codes, uint8_t* scales);
/* Bytes of a matrix of scales [rows, columns] in 128x4; 0 for sizes that are not above 0. `columns`
 * counts scales: k / block. */
NIBBLE_API int64_t nibble_swizzled_bytes(int64_t rows, int64_t columns);
/* Row-major to 128x4, whose padding becomes zeros, and back. */
NIBBLE_API nibble_status nibble_swizzle_scales(const uint8_t* scales, int64_t rows, int64_t columns,
                                               uint8_t* swizzled);
NIBBLE_API nibble_status nibble_unswizzle_scales(const uint8_t* swizzled, int64_t rows,
                                                 int64_t columns, uint8_t* scales);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* NIBBLE_NIBBLE_H */
