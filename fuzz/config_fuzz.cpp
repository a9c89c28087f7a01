// parse_model on any bytes: no crash and no hang, and a model that parses has finite counts.
//
// The first byte says how the rest is cut: '0' is config.json alone; with any other byte all up to
// the first NUL is config.json and the rest hf_quant_config.json, and without a NUL the byte modulo
// 10 tenths are.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "model/config.h"

namespace {

struct Cut {
  std::string_view config;
  std::string_view hf_quant_config;
};

Cut cut(std::string_view bytes) {
  if (bytes.empty()) return {};
  const char how = bytes.front();
  bytes.remove_prefix(1);
  if (how == '0') return {bytes, {}};
  const std::size_t nul = bytes.find('\0');
  if (nul != std::string_view::npos) return {bytes.substr(0, nul), bytes.substr(nul + 1)};
  const std::size_t at = bytes.size() * (static_cast<unsigned char>(how) % 10) / 10;
  return {bytes.substr(0, at), bytes.substr(at)};
}

void check_count(double value) {
  NIBBLE_CHECK(std::isfinite(value) && value >= 0);
}

void check_weights(const std::vector<nibble::Weight>& weights) {
  for (const nibble::Weight& weight : weights) {
    NIBBLE_CHECK(weight.rows >= 0 && weight.columns >= 0 && weight.copies >= 0);
    check_count(weight.parameters());
    NIBBLE_CHECK(!weight.module.empty());
  }
}

void check_model(const nibble::ModelSpec& model) {
  for (std::size_t layer = 0; layer < model.layers.size() && layer < 8; ++layer) {
    check_weights(nibble::layer_weights(model, layer));
    check_count(model.layers[layer].span.tokens_read(4096));
  }
  check_weights(nibble::outer_weights(model));
  const nibble::ParameterCount count = nibble::count_parameters(model);
  for (const double value : {count.total, count.active, count.embedding, count.mtp})
    check_count(value);
  check_count(nibble::checkpoint_bytes(model));
  NIBBLE_CHECK(count.active <= count.total * (1 + 1e-9));
  NIBBLE_CHECK(!model.quantization.summary().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Cut bytes = cut({reinterpret_cast<const char*>(data), size});
  const nibble::Result<nibble::Json> config = nibble::Json::parse(bytes.config, "config.json");
  if (!config.ok()) return 0;
  const nibble::Result<nibble::Json> quantization =
      nibble::Json::parse(bytes.hf_quant_config, "hf_quant_config.json");
  const nibble::Result<nibble::ModelSpec> model =
      nibble::parse_model(*config, quantization.ok() ? &*quantization : nullptr, "fuzz");
  if (model.ok()) {
    check_model(*model);
  } else {
    NIBBLE_CHECK(!model.error().message.empty());
  }
  return 0;
}
