#include "kernels/gemm/device/prepack.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "cuda/compile.h"
#include "cuda/stream.h"
#include "formats/codec.h"
#include "formats/quantize.h"
#include "kernels/device/device_sources.h"

namespace nibble {
namespace {

// Canonical matrices pass through this much memory of the GPU, or through one expert's size.
constexpr std::int64_t kStagingBytes = std::int64_t{256} << 20;
// Far above every model, and low enough that no product of sizes below overflows 64 bits.
constexpr std::int64_t kMostSide = std::int64_t{1} << 25;
constexpr std::int64_t kMostExpertsOfAll = std::int64_t{1} << 12;

std::int64_t block_of(Format format) {
  return format == Format::kMxfp4 ? kMxfp4Block : kNvfp4Block;
}

Result<> check_one(const QuantizedMatrix& matrix, const TiledShape& shape, std::size_t expert) {
  if (matrix.format != shape.format || matrix.rows != shape.rows ||
      matrix.columns != shape.columns) {
    return input_error("expert {} is {} {} x {}, expert 0 {} {} x {}; all experts are alike",
                       expert, to_string(matrix.format), matrix.rows, matrix.columns,
                       to_string(shape.format), shape.rows, shape.columns);
  }
  if (const Result<> checked = check_matrix(matrix); !checked.ok()) {
    return checked.error().within(fmt::format("expert {}", expert));
  }
  return {};
}

Result<> check_shape(const TiledShape& shape) {
  if (shape.format != Format::kNvfp4 && shape.format != Format::kMxfp4) {
    return input_error("the weights are {}; this product takes nvfp4 and mxfp4",
                       to_string(shape.format));
  }
  if (shape.experts < 1 || shape.experts > kMostExpertsOfAll) {
    return input_error("there are {} experts; give 1 to {}", shape.experts, kMostExpertsOfAll);
  }
  if (shape.rows < 1 || shape.rows > kMostSide || shape.columns < 2 || shape.columns > kMostSide ||
      shape.columns % 2 != 0) {
    return input_error("the weights are {} x {}; give 1 to {} rows and an even number of columns",
                       shape.rows, shape.columns, kMostSide);
  }
  if (shape.order == RowOrder::kGateUp && shape.rows % 2 != 0) {
    return input_error("gate and up have {} rows together; both have the same number", shape.rows);
  }
  return {};
}

Result<> check_scales(const QuantizedMatrix& matrix, std::size_t expert) {
  const bool mxfp4 = matrix.format == Format::kMxfp4;
  const auto is_nan = [mxfp4](std::uint8_t scale) {
    return mxfp4 ? scale == 255 : is_e4m3_nan(scale);
  };
  const auto found = std::find_if(matrix.scales.begin(), matrix.scales.end(), is_nan);
  if (found == matrix.scales.end()) return {};
  const std::int64_t at = found - matrix.scales.begin();
  const std::int64_t of_row = ceil_div(matrix.columns, block_of(matrix.format));
  return input_error("expert {}: the scale of row {}, columns from {}, is not a number", expert,
                     at / of_row, at % of_row * block_of(matrix.format));
}

// The one factor of rows `begin` .. `end` - 1; none when they have several.
std::optional<float> factor_of_rows(const QuantizedMatrix& matrix, std::int64_t begin,
                                    std::int64_t end) {
  float factor = 1;
  bool several = false;
  for (const MatrixSegment& segment : matrix.segments) {
    if (segment.row_begin <= begin) {
      factor = segment.factor;
    } else if (segment.row_begin < end && segment.factor != factor) {
      several = true;
    }
  }
  if (several) return std::nullopt;
  return factor;
}

bool is_zero_block(const QuantizedMatrix& matrix, std::int64_t at) {
  const std::int64_t of_row = ceil_div(matrix.columns, kMxfp4Block);
  const std::int64_t begin = at % of_row * kMxfp4Block;
  const std::int64_t end = std::min(begin + kMxfp4Block, matrix.columns);
  const std::uint8_t* const row = matrix.codes.data() + at / of_row * (matrix.columns / 2);
  for (std::int64_t column = begin; column < end; column += 2) {
    if ((row[column / 2] & 0x77U) != 0) return false;
  }
  return true;
}

// What lifts the largest scale of MXFP4 to kMxfp4LargestScale. Blocks of zeros do not count: theirs
// may be anything.
int shift_of(const QuantizedMatrix& matrix) {
  if (matrix.format != Format::kMxfp4) return 0;
  int largest = 0;
  for (std::size_t at = 0; at < matrix.scales.size(); ++at) {
    const int scale = matrix.scales[at];
    if (scale > largest && !is_zero_block(matrix, static_cast<std::int64_t>(at))) largest = scale;
  }
  return kMxfp4LargestScale - largest;
}

Result<float> alpha_of(const QuantizedMatrix& matrix, std::size_t expert, std::int64_t begin,
                       std::int64_t end, int shift) {
  const std::optional<float> factor = factor_of_rows(matrix, begin, end);
  if (!factor) {
    return input_error("expert {}: rows {} to {} have several factors; they share one", expert,
                       begin, end - 1);
  }
  const bool mxfp4 = matrix.format == Format::kMxfp4;
  const double lift = static_cast<double>(mxfp4 ? kMxfp4Lift : kNvfp4Lift);
  const auto alpha = static_cast<float>(std::ldexp(static_cast<double>(*factor) * lift, -shift));
  if (!std::isfinite(alpha)) {
    return input_error("expert {}: the factor {} of rows {} to {} is too large", expert, *factor,
                       begin, end - 1);
  }
  return alpha;
}

}  // namespace

WeightTiles TiledShape::layout() const {
  const int scale_bytes = format == Format::kMxfp4 ? kMxfp4ScaleBytes : kNvfp4ScaleBytes;
  return weight_tiles(rows, columns, scale_bytes, order);
}

std::int64_t TiledShape::scale_bytes() const {
  return rows * ceil_div(columns, block_of(format));
}

Result<TiledShape> tiled_shape(std::span<const QuantizedMatrix> experts, RowOrder order) {
  TiledShape shape{.order = order};
  shape.experts = static_cast<std::int64_t>(experts.size());
  if (!experts.empty()) {
    shape.format = experts.front().format;
    shape.rows = experts.front().rows;
    shape.columns = experts.front().columns;
  }
  NIBBLE_RETURN_IF_ERROR(check_shape(shape));
  for (std::size_t expert = 0; expert < experts.size(); ++expert) {
    NIBBLE_RETURN_IF_ERROR(check_one(experts[expert], shape, expert));
    NIBBLE_RETURN_IF_ERROR(check_scales(experts[expert], expert));
  }
  return shape;
}

Result<TiledFactors> tiled_factors(std::span<const QuantizedMatrix> experts, RowOrder order) {
  TiledFactors factors;
  for (std::size_t expert = 0; expert < experts.size(); ++expert) {
    const QuantizedMatrix& matrix = experts[expert];
    const int shift = shift_of(matrix);
    factors.shifts.push_back(shift);
    const std::int64_t first_end = order == RowOrder::kGateUp ? matrix.rows / 2 : matrix.rows;
    NIBBLE_ASSIGN_OR_RETURN(const float first, alpha_of(matrix, expert, 0, first_end, shift));
    factors.alpha.push_back(first);
    const std::int64_t second_begin = order == RowOrder::kGateUp ? first_end : 0;
    NIBBLE_ASSIGN_OR_RETURN(const float second,
                            alpha_of(matrix, expert, second_begin, matrix.rows, shift));
    factors.alpha.push_back(second);
  }
  return factors;
}

Result<cuda::Cubin> compile_prepack(const std::string& arch) {
  return cuda::compile({.name = "prepack",
                        .files = device_sources(),
                        .main = "kernels/gemm/device/prepack.cuh",
                        .defines = {},
                        .arch = arch});
}

// The kernels, and the staging memory of one conversion.
class TilePacker {
 public:
  static Result<TilePacker> make(const cuda::Device& device, const TiledShape& shape,
                                 std::int64_t staged_experts) {
    NIBBLE_RETURN_IF_ERROR(device.make_current());
    NIBBLE_ASSIGN_OR_RETURN(const cuda::Cubin cubin, compile_prepack(device.info().arch()));
    NIBBLE_ASSIGN_OR_RETURN(cuda::Module module, cuda::Module::load(device, cubin));
    NIBBLE_ASSIGN_OR_RETURN(cuda::Stream stream, cuda::Stream::make());
    const auto bytes = [staged_experts](std::int64_t of_expert) {
      return static_cast<std::size_t>(staged_experts * of_expert);
    };
    NIBBLE_ASSIGN_OR_RETURN(cuda::DeviceBuffer codes,
                            cuda::DeviceBuffer::make(bytes(shape.code_bytes())));
    NIBBLE_ASSIGN_OR_RETURN(cuda::DeviceBuffer scales,
                            cuda::DeviceBuffer::make(bytes(shape.scale_bytes())));
    return TilePacker(device, shape, std::move(module), std::move(stream), std::move(codes),
                      std::move(scales));
  }

  // Experts whose canonical matrices are at hand at once.
  static std::int64_t staged(const TiledShape& shape) {
    const std::int64_t bytes = shape.code_bytes() + shape.scale_bytes();
    return std::clamp(kStagingBytes / bytes, std::int64_t{1}, shape.experts);
  }

  // Memory for the tiles, and the factors.
  static Result<TiledWeights> unset(const TiledShape& shape, TiledFactors factors) {
    TiledWeights weights;
    weights.shape_ = shape;
    NIBBLE_ASSIGN_OR_RETURN(weights.alpha_, cuda::DeviceBuffer::of(factors.alpha));
    NIBBLE_ASSIGN_OR_RETURN(weights.shifts_, cuda::DeviceBuffer::of(factors.shifts));
    const std::int64_t bytes = shape.experts * shape.layout().expert_bytes();
    NIBBLE_ASSIGN_OR_RETURN(weights.tiles_,
                            cuda::DeviceBuffer::make(static_cast<std::size_t>(bytes)));
    weights.factors_ = std::move(factors);
    return weights;
  }

  Result<> upload(const QuantizedMatrix& matrix, std::int64_t place) {
    const auto at = static_cast<std::size_t>(place);
    NIBBLE_RETURN_IF_ERROR(codes_.upload(std::as_bytes(matrix.codes), at * matrix.codes.size()));
    return scales_.upload(std::as_bytes(matrix.scales), at * matrix.scales.size());
  }

  Result<> fill_randomly(std::int64_t experts, std::uint64_t seed) {
    NIBBLE_ASSIGN_OR_RETURN(const cuda::Kernel kernel, module_.kernel("w4a16_random_weights"));
    const RandomWeights params{.codes = at<std::uint8_t>(codes_.address()),
                               .scales = at<std::uint8_t>(scales_.address()),
                               .code_bytes = experts * shape_.code_bytes(),
                               .scale_bytes = experts * shape_.scale_bytes(),
                               .seed = seed,
                               .mxfp4 = shape_.format == Format::kMxfp4};
    return launch(kernel, shape_of_launch(), stream_, params);
  }

  // Staged experts, the first of which is `first`, to or from their tiles.
  Result<> convert(const char* kernel_name, const TiledWeights& weights, std::int64_t first,
                   std::int64_t experts) {
    NIBBLE_ASSIGN_OR_RETURN(const cuda::Kernel kernel, module_.kernel(kernel_name));
    const auto tile_begin = static_cast<std::uint64_t>(first * shape_.layout().expert_bytes());
    const auto shift_begin = static_cast<std::uint64_t>(first) * sizeof(int);
    const Prepack params{.codes = at<std::uint8_t>(codes_.address()),
                         .scales = at<std::uint8_t>(scales_.address()),
                         .tiles = at<std::uint8_t>(weights.tiles_.address() + tile_begin),
                         .shifts = at<int>(weights.shifts_.address() + shift_begin),
                         .rows = shape_.rows,
                         .columns = shape_.columns,
                         .experts = experts,
                         .order = shape_.order,
                         .mxfp4 = shape_.format == Format::kMxfp4};
    NIBBLE_RETURN_IF_ERROR(launch(kernel, shape_of_launch(), stream_, params));
    return stream_.synchronize();
  }

  Result<TiledWeights::Canonical> download() const {
    TiledWeights::Canonical canonical;
    NIBBLE_ASSIGN_OR_RETURN(canonical.codes, codes_.read<std::uint8_t>());
    NIBBLE_ASSIGN_OR_RETURN(canonical.scales, scales_.read<std::uint8_t>());
    return canonical;
  }

 private:
  TilePacker(const cuda::Device& device, const TiledShape& shape, cuda::Module module,
             cuda::Stream stream, cuda::DeviceBuffer codes, cuda::DeviceBuffer scales)
      : sms_(device.info().sms),
        shape_(shape),
        module_(std::move(module)),
        stream_(std::move(stream)),
        codes_(std::move(codes)),
        scales_(std::move(scales)) {}

  template <class T>
  static T* at(cuda::DevicePointer address) {
    return reinterpret_cast<T*>(address);
  }
  // Sixteen blocks of four warps fill an SM.
  cuda::Launch shape_of_launch() const {
    return {.grid = {static_cast<unsigned>(16 * sms_)}, .block = {kPrepackThreads}};
  }

  int sms_;
  TiledShape shape_;
  cuda::Module module_;
  cuda::Stream stream_;
  cuda::DeviceBuffer codes_;
  cuda::DeviceBuffer scales_;
};

Result<TiledWeights> TiledWeights::pack(const cuda::Device& device,
                                        std::span<const QuantizedMatrix> experts, RowOrder order) {
  NIBBLE_ASSIGN_OR_RETURN(const TiledShape shape, tiled_shape(experts, order));
  NIBBLE_ASSIGN_OR_RETURN(TiledFactors factors, tiled_factors(experts, order));
  const std::int64_t staged = TilePacker::staged(shape);
  NIBBLE_ASSIGN_OR_RETURN(TilePacker packer, TilePacker::make(device, shape, staged));
  NIBBLE_ASSIGN_OR_RETURN(TiledWeights weights, TilePacker::unset(shape, std::move(factors)));
  for (std::int64_t first = 0; first < shape.experts; first += staged) {
    const std::int64_t count = std::min(staged, shape.experts - first);
    for (std::int64_t place = 0; place < count; ++place) {
      NIBBLE_RETURN_IF_ERROR(
          packer.upload(experts[static_cast<std::size_t>(first + place)], place));
    }
    NIBBLE_RETURN_IF_ERROR(packer.convert("w4a16_prepack", weights, first, count));
  }
  return weights;
}

Result<TiledWeights> TiledWeights::random(const cuda::Device& device, const TiledShape& shape,
                                          float factor, std::uint64_t seed) {
  NIBBLE_RETURN_IF_ERROR(check_shape(shape));
  const bool mxfp4 = shape.format == Format::kMxfp4;
  // The largest of MXFP4's random scales is 128.
  const int shift = mxfp4 ? kMxfp4LargestScale - 128 : 0;
  const float alpha = std::ldexp(factor * (mxfp4 ? kMxfp4Lift : kNvfp4Lift), -shift);
  if (!std::isfinite(alpha)) return input_error("the factor {} is too large", factor);
  const auto experts = static_cast<std::size_t>(shape.experts);
  TiledFactors factors{.alpha = std::vector<float>(2 * experts, alpha),
                       .shifts = std::vector<int>(experts, shift)};
  const std::int64_t staged = TilePacker::staged(shape);
  NIBBLE_ASSIGN_OR_RETURN(TilePacker packer, TilePacker::make(device, shape, staged));
  NIBBLE_ASSIGN_OR_RETURN(TiledWeights weights, TilePacker::unset(shape, std::move(factors)));
  for (std::int64_t first = 0; first < shape.experts; first += staged) {
    const std::int64_t count = std::min(staged, shape.experts - first);
    // Numbers apart by more than a batch has words.
    const std::uint64_t part = seed + (static_cast<std::uint64_t>(first) << 40);
    NIBBLE_RETURN_IF_ERROR(packer.fill_randomly(count, part));
    NIBBLE_RETURN_IF_ERROR(packer.convert("w4a16_prepack", weights, first, count));
  }
  return weights;
}

Result<TiledWeights::Canonical> TiledWeights::unpack(const cuda::Device& device,
                                                     std::int64_t expert) const {
  if (expert < 0 || expert >= shape_.experts) {
    return input_error("there is no expert {} among {}", expert, shape_.experts);
  }
  NIBBLE_ASSIGN_OR_RETURN(TilePacker packer, TilePacker::make(device, shape_, 1));
  NIBBLE_RETURN_IF_ERROR(packer.convert("w4a16_unpack", *this, expert, 1));
  return packer.download();
}

}  // namespace nibble
