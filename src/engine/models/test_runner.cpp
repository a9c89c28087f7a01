#include "engine/models/test_runner.h"

#include <cstring>

#include "checkpoint/safetensors.h"

namespace nibble::engine {
namespace {

template <class T>
std::vector<T> golden_tensor(const SafetensorsFile& file, std::string_view name) {
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.name != name) continue;
    std::vector<T> values(tensor.elements());
    EXPECT_EQ(file.data(tensor).size(), values.size() * sizeof(T));
    std::memcpy(values.data(), file.data(tensor).data(), values.size() * sizeof(T));
    return values;
  }
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

}  // namespace

std::filesystem::path golden_folder(const std::string& name) {
  return std::filesystem::path(NIBBLE_SOURCE_DIR "/tests/golden/qwen3_moe") / name;
}

Golden read_golden(const std::string& name) {
  const Result<SafetensorsFile> file = SafetensorsFile::open(golden_folder(name + ".safetensors"));
  EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message);
  NIBBLE_CHECK(file.ok());
  return {.prompt = golden_tensor<text::TokenId>(*file, "prompt"),
          .greedy = golden_tensor<text::TokenId>(*file, "greedy"),
          .prompt_logits = golden_tensor<float>(*file, "prompt_logits"),
          .greedy_logits = golden_tensor<float>(*file, "greedy_logits")};
}

}  // namespace nibble::engine
