#include "serve/model_folder.h"

#include <cmath>
#include <limits>

#include "base/file.h"
#include "base/text.h"
#include "serve/sampling_fields.h"

namespace nibble::serve {
namespace {

constexpr std::size_t kMostConfigBytes = std::size_t{16} << 20;
constexpr std::int64_t kMostIds = std::numeric_limits<engine::TokenId>::max();

// An empty object where there is no such file.
Result<Json> config_of(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return Json::object();
  NIBBLE_ASSIGN_OR_RETURN(const std::string text, read_file(file, kMostConfigBytes));
  return Json::parse(text, printable(file.string()));
}

// eos_token_id: a number, or a list of them.
std::vector<engine::TokenId> read_end_ids(ObjectReader& reader) {
  std::vector<engine::TokenId> ids;
  const auto values =
      reader.numbers("eos_token_id", {.min = 0, .max = static_cast<double>(kMostIds)});
  for (const double value : values.value_or(std::vector<double>())) {
    if (std::floor(value) != value) reader.fault_at("eos_token_id", "must hold whole numbers");
    ids.push_back(static_cast<engine::TokenId>(value));
  }
  return ids;
}

// How answers end, and how tokens are chosen where a request does not say.
Result<> read_generation_config(const std::filesystem::path& folder, GenerationConfig wanted,
                                ServedModel& model) {
  const std::filesystem::path file = folder / "generation_config.json";
  NIBBLE_ASSIGN_OR_RETURN(const Json json, config_of(file));
  ObjectReader reader(json, printable(file.string()));
  model.end_ids = read_end_ids(reader);
  if (wanted == GenerationConfig::kAuto) read_distribution(reader, kMostIds, model.defaults);
  model.generation_config = wanted == GenerationConfig::kAuto ? "auto" : "none";
  return reader.finish_lenient();
}

// Where generation_config.json is silent, config.json says which tokens end an answer; the
// tokenizer's own end of text is one in any case.
Result<> add_end_ids(const std::filesystem::path& folder, ServedModel& model) {
  if (model.end_ids.empty()) {
    const std::filesystem::path file = folder / "config.json";
    NIBBLE_ASSIGN_OR_RETURN(const Json json, config_of(file));
    ObjectReader reader(json, printable(file.string()));
    model.end_ids = read_end_ids(reader);
    NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  }
  if (!model.chat_template) return {};
  const text::SpecialTokens& tokens = model.chat_template->tokens();
  const auto end = tokens.find("eos_token");
  if (end == tokens.end()) return {};
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<engine::TokenId> own,
                          model.tokenizer.encode(end->second, {.add_special = false}));
  if (own.size() == 1) model.end_ids.push_back(own.front());
  return {};
}

}  // namespace

Result<ServedModel> load_served_model(const std::filesystem::path& folder,
                                      GenerationConfig generation_config) {
  std::error_code ignored;
  if (!std::filesystem::exists(folder / "tokenizer.json", ignored)) {
    return input_error(
        "{} has no tokenizer.json; a server needs the checkpoint's tokenizer.json beside the "
        "weights",
        printable(folder.string(), 400));
  }
  NIBBLE_ASSIGN_OR_RETURN(text::Tokenizer tokenizer, text::load_tokenizer(folder));
  const std::filesystem::path whole = std::filesystem::absolute(folder).lexically_normal();
  const std::filesystem::path last = whole.has_filename() ? whole : whole.parent_path();
  ServedModel model{.name = printable(last.filename().string()),
                    .path = printable(whole.string(), 400),
                    .tokenizer = std::move(tokenizer)};
  NIBBLE_ASSIGN_OR_RETURN(model.chat_template, text::load_chat_template(folder));
  NIBBLE_RETURN_IF_ERROR(read_generation_config(folder, generation_config, model));
  NIBBLE_RETURN_IF_ERROR(add_end_ids(folder, model));
  return model;
}

}  // namespace nibble::serve
