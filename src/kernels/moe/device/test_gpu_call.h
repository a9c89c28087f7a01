// What goes into a call of a layer on a GPU and what comes out, for the tests of all layers.
//
//   struct Call : GpuCall { CudaMoeLayer layer; ... Result<> enqueue(cuda::Stream&); };
//   Call call{GpuCall(layer), ...};
//   call.ids.write(other);
//   const std::vector<float> y = run_call(call, stream);
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

#include "kernels/device/test_gpu.h"
#include "kernels/moe/device/test_gpu_layer.h"

namespace nibble {

struct GpuCall {
  GpuArray<std::uint16_t> x;
  GpuArray<float> logits;
  GpuArray<int> ids;
  GpuArray<float> weights;
  GpuArray<std::uint32_t> y;  // poisoned
  std::size_t values;         // of y
  Element output;
  std::int64_t tokens;
  bool ids_given;

  explicit GpuCall(const GpuLayer& layer)
      : x(narrowed(layer.test.x, layer.activations)),
        logits(layer.routing.logits),
        ids(layer.ids),
        weights(layer.weights),
        y(GpuArray<std::uint32_t>::poisoned(
            (layer.test.x.size() * static_cast<std::size_t>(bytes_of(layer.output)) + 3) / 4)),
        values(layer.test.x.size()),
        output(layer.output),
        tokens(layer.test.shape.tokens),
        ids_given(layer.test.ids_given()) {}

  CudaMoeCall addresses() const {
    return {.x = x.address(),
            .logits = ids_given ? 0 : logits.address(),
            .expert_ids = ids_given ? ids.address() : 0,
            .expert_weights = ids_given ? weights.address() : 0,
            .y = y.address(),
            .tokens = tokens};
  }

  std::vector<float> result() const {
    const std::vector<std::uint32_t> words = y.read();
    if (output == Element::kFp32) {
      std::vector<float> floats(values);
      std::memcpy(floats.data(), words.data(), values * sizeof(float));
      return floats;
    }
    std::vector<std::uint16_t> bits(values);
    std::memcpy(bits.data(), words.data(), values * sizeof(std::uint16_t));
    return widened(bits, output);
  }
};

// Enqueues a call, waits, and reads y.
template <class Call>
std::vector<float> run_call(Call& call, cuda::Stream& stream) {
  check_ok(call.enqueue(stream));
  check_ok(stream.synchronize());
  return call.result();
}

// Six replays of `captured` with logits of their own, some of which leave most experts empty: each
// gives the bits of `eager`, and is right.
template <class Layer, class Call>
void expect_graph_follows_routing(Layer& layer, Call& captured, Call& eager, double limit,
                                  cuda::Stream& stream) {
  cuda::Graph graph = value_of(stream.capture([&] { return captured.enqueue(stream); }));
  const auto experts = static_cast<std::size_t>(layer.test.shape.experts);
  Random random(5);
  for (int replay = 0; replay < 6; ++replay) {
    const bool few = replay % 2 == 1;
    std::vector<float>& logits = layer.routing.logits;
    logits = gaussian(random, static_cast<std::int64_t>(logits.size()), few ? 0.001 : 1);
    for (std::size_t at = 0; at < logits.size(); ++at) {
      if (few && at % experts > 4) logits[at] -= 50;
    }
    layer.choose();
    captured.logits.write(logits);
    eager.logits.write(logits);
    check_ok(graph.launch(stream));
    check_ok(stream.synchronize());
    const std::vector<float> y = captured.result();
    EXPECT_TRUE(same_bits(y, run_call(eager, stream))) << replay;
    EXPECT_LE(moe_error(y, layer.reference()), limit) << replay;
  }
}

// Twenty calls in a row without waiting, of either on a stream of its own, as one that waits.
template <class Call>
void expect_calls_in_a_row(Call& first, Call& second, cuda::Stream& stream) {
  const std::vector<float> alone = run_call(first, stream);
  cuda::Stream other = value_of(cuda::Stream::make());
  for (int round = 0; round < 20; ++round) {
    check_ok(first.enqueue(stream));
    check_ok(second.enqueue(other));
  }
  check_ok(stream.synchronize());
  check_ok(other.synchronize());
  EXPECT_TRUE(same_bits(first.result(), alone));
  EXPECT_TRUE(same_bits(second.result(), alone));
}

// Root of the mean square.
inline double size_of_values(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value * value);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

}  // namespace nibble
