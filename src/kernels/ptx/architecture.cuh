// What the architecture that is compiled for has beyond its number: instructions of one chip or of
// its family alone.
#pragma once

// The family of sm_120 and sm_121: the block-scaled FP4 product, with the suffix a or f.
#if defined(__CUDA_ARCH_FEAT_SM120_ALL) || defined(__CUDA_ARCH_FEAT_SM121_ALL) || \
    (defined(__CUDA_ARCH_FAMILY_SPECIFIC__) &&                                    \
     (__CUDA_ARCH_FAMILY_SPECIFIC__ == 1200 || __CUDA_ARCH_FAMILY_SPECIFIC__ == 1210))
#define NIBBLE_FP4_MMA 1
#endif
