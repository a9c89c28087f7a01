#include "serve/model_folder.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/text.h"

namespace nibble::serve {
namespace {

constexpr std::size_t kMostConfigBytes = std::size_t{16} << 20;
constexpr double kMostIds = 2147483647;

// eos_token_id of a file: a number, or a list of them; none where there is no such file or field.
Result<std::vector<engine::TokenId>> end_ids_of(const std::filesystem::path& file) {
  std::vector<engine::TokenId> ids;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return ids;
  NIBBLE_ASSIGN_OR_RETURN(const std::string text, read_file(file, kMostConfigBytes));
  NIBBLE_ASSIGN_OR_RETURN(const Json json, Json::parse(text, printable(file.string())));
  ObjectReader reader(json, printable(file.string()));
  const auto values = reader.numbers("eos_token_id", {.min = 0, .max = kMostIds});
  for (const double value : values.value_or(std::vector<double>())) {
    if (std::floor(value) != value) reader.fault_at("eos_token_id", "must hold whole numbers");
    ids.push_back(static_cast<engine::TokenId>(value));
  }
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  return ids;
}

// generation_config.json says which tokens end an answer, config.json where that is silent; the
// tokenizer's own end of text is one in any case.
Result<std::vector<engine::TokenId>> end_ids(const std::filesystem::path& folder,
                                             const ServedModel& model) {
  NIBBLE_ASSIGN_OR_RETURN(std::vector<engine::TokenId> ids,
                          end_ids_of(folder / "generation_config.json"));
  if (ids.empty()) {
    NIBBLE_ASSIGN_OR_RETURN(ids, end_ids_of(folder / "config.json"));
  }
  if (model.chat_template) {
    const text::SpecialTokens& tokens = model.chat_template->tokens();
    const auto end = tokens.find("eos_token");
    if (end != tokens.end()) {
      NIBBLE_ASSIGN_OR_RETURN(const std::vector<engine::TokenId> own,
                              model.tokenizer.encode(end->second, {.add_special = false}));
      if (own.size() == 1) ids.push_back(own.front());
    }
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace

Result<ServedModel> load_served_model(const std::filesystem::path& folder) {
  NIBBLE_ASSIGN_OR_RETURN(text::Tokenizer tokenizer, text::load_tokenizer(folder));
  const std::filesystem::path whole = std::filesystem::absolute(folder).lexically_normal();
  const std::filesystem::path last = whole.has_filename() ? whole : whole.parent_path();
  ServedModel model{.name = printable(last.filename().string()),
                    .path = printable(whole.string(), 400),
                    .tokenizer = std::move(tokenizer)};
  NIBBLE_ASSIGN_OR_RETURN(model.chat_template, text::load_chat_template(folder));
  NIBBLE_ASSIGN_OR_RETURN(model.end_ids, end_ids(folder, model));
  return model;
}

}  // namespace nibble::serve
