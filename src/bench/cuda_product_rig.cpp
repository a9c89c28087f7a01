// One product with 4-bit weights as a rig: a grouped one as a part of a layer that has it, an
// ordinary one by itself.
#include <cmath>

#include "bench/cuda_dense_frame.h"
#include "bench/cuda_layer_parts.h"
#include "bench/cuda_w4a16_rig.h"
#include "formats/codec.h"

namespace nibble {
namespace {

// One expert, whose slots are the tokens.
class DenseRig : public CudaDenseFrame<TiledWeights, W4A16Kernel> {
 public:
  using CudaDenseFrame::CudaDenseFrame;

  // Sums of k products of size 1 stay of size 1.
  Result<> make() {
    return make_weights(static_cast<float>(1 / std::sqrt(static_cast<double>(shape_.k))));
  }

  Result<> set_tokens(std::int64_t tokens) override {
    const W4A16Problem problem = dense_problem(shape_);
    NIBBLE_RETURN_IF_ERROR(
        choose_kernel(problem, tokens, default_tactic(problem, tokens, setup_.gpu.info())));
    return make_buffers();
  }

  Result<> enqueue(int copy, cuda::Stream& stream) override {
    const TiledWeights& weights = weights_[static_cast<std::size_t>(copy)];
    const W4A16Params params{.weights = at<std::uint8_t>(weights.tiles()),
                             .alpha = at<float>(weights.alpha()),
                             .tokens = at<std::uint8_t>(slots_.address()),
                             .offsets = at<int>(offsets_.address()),
                             .tiles = at<int>(tiles_.address()),
                             .output = at<void>(output_.address()),
                             .partials = at<float>(partials_.address()),
                             .flags = at<std::uint32_t>(flags_.address())};
    return kernel_->enqueue(stream, params);
  }

  std::string kernel() const override {
    return fmt::format("w4a16 {} x {}", to_string(shape_.format), to_string(shape_.activations));
  }

  std::optional<double> predict_us(const CudaRates& rates) const override {
    const CudaProduct product{.n = shape_.n,
                              .k = shape_.k,
                              .tokens = {tokens_},
                              .bytes = dense_work(shape_, tokens_).bytes(),
                              .tactic = layout_of(*kernel_)};
    return predict_layer_us({.products = {product}}, rates);
  }

 private:
  template <class T>
  static T* at(cuda::DevicePointer address) {
    return reinterpret_cast<T*>(static_cast<std::uintptr_t>(address));
  }

  std::int64_t slot_count() const { return ceil_div(tokens_, kSlotGroup) * kSlotGroup; }

  Result<> make_buffers() {
    const std::int64_t slots = slot_count();
    const auto slot_bytes =
        static_cast<std::size_t>(slots / kSlotGroup * chunks_of(shape_.k) * kSlotTileBytes);
    NIBBLE_ASSIGN_OR_RETURN(slots_, cuda::DeviceBuffer::make(slot_bytes));
    NIBBLE_ASSIGN_OR_RETURN(
        output_, cuda::DeviceBuffer::make(static_cast<std::size_t>(slots * shape_.n * 2)));
    NIBBLE_RETURN_IF_ERROR(make_split_buffers());
    const std::vector<int> offsets = {0, static_cast<int>(slots)};
    const std::vector<int> tiles = {0, static_cast<int>(ceil_div(tokens_, kernel_->tile_tokens()))};
    NIBBLE_ASSIGN_OR_RETURN(offsets_, cuda::DeviceBuffer::of(offsets));
    NIBBLE_ASSIGN_OR_RETURN(tiles_, cuda::DeviceBuffer::of(tiles));
    return fill_slots();
  }

  // Columns beyond k meet weights of zero; random values there would do no harm, but NaN would.
  Result<> fill_slots() {
    NIBBLE_ASSIGN_OR_RETURN(cuda::Stream stream, cuda::Stream::make());
    const bool half = shape_.activations == Format::kFp16;
    NIBBLE_RETURN_IF_ERROR(setup_.probes.fill(slots_,
                                              {.seed = static_cast<int64_t>(setup_.seed) + 99,
                                               .filling = half ? Filling::kFp16 : Filling::kBf16},
                                              stream));
    return stream.synchronize();
  }

  float value(std::uint16_t bits) const {
    return shape_.activations == Format::kFp16 ? fp16_to_float(bits) : bf16_to_float(bits);
  }

  Result<std::vector<float>> input_of(std::int64_t token) const {
    const std::int64_t chunks = chunks_of(shape_.k);
    const auto group_bytes = static_cast<std::size_t>(chunks * kSlotTileBytes);
    std::vector<std::uint16_t> group(group_bytes / 2);
    NIBBLE_RETURN_IF_ERROR(
        slots_.download(std::as_writable_bytes(std::span(group)),
                        static_cast<std::size_t>(token / kSlotGroup) * group_bytes));
    std::vector<float> x;
    for (std::int64_t column = 0; column < shape_.k; ++column) {
      const std::int64_t byte = slot_byte(token % kSlotGroup, column, chunks);
      x.push_back(value(group[static_cast<std::size_t>(byte / 2)]));
    }
    return x;
  }

  Result<std::vector<float>> output_of(std::int64_t token) const {
    std::vector<std::uint16_t> row(static_cast<std::size_t>(shape_.n));
    NIBBLE_RETURN_IF_ERROR(output_.download(std::as_writable_bytes(std::span(row)),
                                            static_cast<std::size_t>(token) * row.size() * 2));
    std::vector<float> y;
    for (const std::uint16_t bits : row) y.push_back(value(bits));
    return y;
  }

  Result<> check_tokens(const std::vector<std::int64_t>& tokens) const override {
    NIBBLE_ASSIGN_OR_RETURN(const ExpertMatrix matrix,
                            expert_matrix(setup_.gpu, weights_.front(), 0));
    for (const std::int64_t token : tokens) {
      NIBBLE_ASSIGN_OR_RETURN(const std::vector<float> x, input_of(token));
      NIBBLE_ASSIGN_OR_RETURN(const std::vector<float> y, output_of(token));
      // No 16-bit float changes as fp32.
      NIBBLE_RETURN_IF_ERROR(
          check_error({.matrix = matrix.view, .activations = Format::kFp32, .x = x, .y = y}, token,
                      "double precision"));
    }
    return {};
  }

  cuda::DeviceBuffer slots_, offsets_, tiles_;
};

// A grouped product of a layer [hidden, intermediate] that has it: gate and up with their
// activation, or down.
Result<std::unique_ptr<CudaRig>> grouped_rig(const BenchShape& shape, const CudaSetup& setup) {
  const bool gate_up = shape.name == "moe.gate_up";
  NIBBLE_ASSIGN_OR_RETURN(std::shared_ptr<CudaLayerRig> rig,
                          make_layer_rig(layer_of_product(shape), setup));
  return part_of(std::move(rig), gate_up ? LayerPart::kGateUp : LayerPart::kDown);
}

}  // namespace

W4A16Problem dense_problem(const BenchShape& shape) {
  const Element element = shape.activations == Format::kFp16 ? Element::kFp16 : Element::kBf16;
  return {.experts = 1,
          .n = shape.n,
          .k = shape.k,
          .format = shape.format,
          .activations = element,
          .output = element,
          .mode = W4A16Mode::kPlain};
}

Result<std::unique_ptr<CudaRig>> make_product_rig(const BenchShape& shape, const CudaSetup& setup) {
  if (shape.experts > 1) return grouped_rig(shape, setup);
  auto rig = std::make_unique<DenseRig>(shape, setup);
  NIBBLE_RETURN_IF_ERROR(rig->make());
  return std::unique_ptr<CudaRig>(std::move(rig));
}

}  // namespace nibble
