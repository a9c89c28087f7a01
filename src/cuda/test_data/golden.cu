// The golden program of cubin_test.cpp; make_golden.py compiles it. `spill` has more live values than
// the 32 registers that 2 x 1024 threads leave it, `plain` has a static array and parameters of several sizes.
struct Pair {
  int a;
  char b[8];
};

extern "C" __global__ void __launch_bounds__(1024, 2) spill(const float* in, float* out, int rounds) {
  float v[40];
#pragma unroll
  for (int i = 0; i < 40; ++i) v[i] = in[threadIdx.x + i * 1024];
#pragma unroll 1
  for (int r = 0; r < rounds; ++r) {
#pragma unroll
    for (int i = 0; i < 40; ++i) v[i] = v[i] * v[(i * 7 + 1) % 40] + 1.0f;
  }
#pragma unroll
  for (int i = 0; i < 40; ++i) out[threadIdx.x + i * 1024] = v[i];
}

extern "C" __global__ void plain(float* out, Pair pair) {
  __shared__ float shared[100];
  shared[threadIdx.x] = static_cast<float>(pair.a);
  __syncthreads();
  out[threadIdx.x] = shared[99 - threadIdx.x];
}
