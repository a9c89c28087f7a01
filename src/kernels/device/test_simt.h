// Runs device code on the host, for tests without a GPU: every thread of a block is a fiber, and
// the collectives of a warp or block wait for each other as on a GPU. Slow, exact about indices and
// order of operations, and a deadlock is a failed test. Include it before any .cuh file.
//
//   simt::launch(grid, block, [&] { nibble::route_tables<kShape>(params); });
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <ucontext.h>
#include <vector>

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __shared__ static
#define __launch_bounds__(...)
#define __grid_constant__

namespace simt {

struct Index {
  unsigned x = 0;
};

// All lanes of a warp, or all threads of a block: none goes on before the last one is there.
struct Meeting {
  unsigned expected = 0;
  unsigned arrived = 0;
  std::uint64_t generation = 0;
};

struct Thread {
  ucontext_t context = {};
  std::unique_ptr<std::byte[]> stack;
  bool done = false;
};

struct BlockState {
  static constexpr std::size_t kStackBytes = 96 << 10;
  std::vector<Thread> threads;
  std::vector<Meeting> warps;
  std::vector<std::uint64_t> values;  // [2][threads]: what lanes show each other, by turns
  Meeting all;
  ucontext_t scheduler = {};
  unsigned current = 0;
  bool moved = false;  // since the last look for a deadlock
  const std::function<void()>* body = nullptr;
};

inline BlockState* block = nullptr;
inline Index thread_index;
inline Index block_index;
inline Index block_size;
inline Index grid_size;

inline void yield() {
  swapcontext(&block->threads[block->current].context, &block->scheduler);
}

inline void meet(Meeting& meeting) {
  const std::uint64_t mine = meeting.generation;
  if (++meeting.arrived == meeting.expected) {
    meeting.arrived = 0;
    ++meeting.generation;
    block->moved = true;
    return;
  }
  while (meeting.generation == mine) yield();
}

// Shows a value to the warp and looks at what `source` shows.
template <class T, class Look>
auto exchange(T value, Look look) {
  static_assert(sizeof(T) <= 8);
  const unsigned me = block->current;
  Meeting& warp = block->warps[me / 32];
  std::uint64_t* const values = block->values.data() + warp.generation % 2 * block->threads.size();
  std::memcpy(values + me, &value, sizeof(T));
  meet(warp);
  return look([values, me](unsigned lane) {
    T shown;
    std::memcpy(&shown, values + me / 32 * 32 + lane, sizeof(T));
    return shown;
  });
}

inline void enter() {
  (*block->body)();
  block->threads[block->current].done = true;
  block->moved = true;
}

inline void run_block(BlockState& state) {
  for (Thread& thread : state.threads) {
    thread.done = false;
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.get();
    thread.context.uc_stack.ss_size = BlockState::kStackBytes;
    thread.context.uc_link = &state.scheduler;
    makecontext(&thread.context, enter, 0);
  }
  std::size_t left = state.threads.size();
  // Forwards and backwards by turns, so that what one thread writes too late for another shows.
  for (bool backwards = false; left > 0; backwards = !backwards) {
    state.moved = false;
    left = 0;
    for (std::size_t turn = 0; turn < state.threads.size(); ++turn) {
      const std::size_t index = backwards ? state.threads.size() - 1 - turn : turn;
      if (state.threads[index].done) continue;
      state.current = static_cast<unsigned>(index);
      thread_index.x = state.current;
      swapcontext(&state.scheduler, &state.threads[index].context);
      left += state.threads[index].done ? 0 : 1;
    }
    ASSERT_TRUE(left == 0 || state.moved) << left << " threads wait for others for ever";
  }
}

inline void launch(unsigned grid, unsigned threads, const std::function<void()>& body) {
  BlockState state;
  state.threads.resize(threads);
  for (Thread& thread : state.threads) {
    thread.stack = std::make_unique<std::byte[]>(BlockState::kStackBytes);
  }
  state.warps.assign(threads / 32, {.expected = 32});
  state.values.resize(2 * std::size_t{threads});
  state.all.expected = threads;
  state.body = &body;
  block = &state;
  grid_size.x = grid;
  block_size.x = threads;
  for (unsigned index = 0; index < grid; ++index) {
    block_index.x = index;
    run_block(state);
  }
  block = nullptr;
}

}  // namespace simt

#define threadIdx simt::thread_index
#define blockIdx simt::block_index
#define blockDim simt::block_size
#define gridDim simt::grid_size

inline void __syncthreads() {
  simt::meet(simt::block->all);
}
inline void __syncwarp() {
  simt::meet(simt::block->warps[simt::block->current / 32]);
}
template <class T>
T __shfl_sync(unsigned, T value, int source) {
  return simt::exchange(value,
                        [&](auto shown) { return shown(static_cast<unsigned>(source) % 32); });
}
template <class T>
T __shfl_down_sync(unsigned, T value, unsigned distance) {
  const unsigned lane = simt::block->current % 32;
  return simt::exchange(
      value, [&](auto shown) { return shown(lane + distance < 32 ? lane + distance : lane); });
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned distance) {
  const unsigned lane = simt::block->current % 32;
  return simt::exchange(
      value, [&](auto shown) { return shown(lane >= distance ? lane - distance : lane); });
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  const unsigned lane = simt::block->current % 32;
  return simt::exchange(value,
                        [&](auto shown) { return shown(lane ^ static_cast<unsigned>(mask)); });
}
inline unsigned __ballot_sync(unsigned, bool value) {
  return simt::exchange(value, [](auto shown) {
    unsigned bits = 0;
    for (unsigned lane = 0; lane < 32; ++lane) bits |= shown(lane) ? 1U << lane : 0U;
    return bits;
  });
}
inline bool __any_sync(unsigned mask, bool value) {
  return __ballot_sync(mask, value) != 0;
}
inline unsigned __match_any_sync(unsigned, int value) {
  return simt::exchange(value, [&](auto shown) {
    unsigned bits = 0;
    for (unsigned lane = 0; lane < 32; ++lane) bits |= shown(lane) == value ? 1U << lane : 0U;
    return bits;
  });
}
inline unsigned __reduce_max_sync(unsigned, unsigned value) {
  return simt::exchange(value, [](auto shown) {
    unsigned most = 0;
    for (unsigned lane = 0; lane < 32; ++lane) most = std::max(most, shown(lane));
    return most;
  });
}
inline unsigned __reduce_min_sync(unsigned, unsigned value) {
  return simt::exchange(value, [](auto shown) {
    unsigned least = ~0U;
    for (unsigned lane = 0; lane < 32; ++lane) least = std::min(least, shown(lane));
    return least;
  });
}
inline int __popc(unsigned value) {
  return __builtin_popcount(value);
}
inline int __ffs(int value) {
  return __builtin_ffs(value);
}
inline int __clz(int value) {
  return value == 0 ? 32 : __builtin_clz(static_cast<unsigned>(value));
}
template <class T>
T atomicAdd(T* address, T value) {
  const T before = *address;
  *address = before + value;
  return before;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
