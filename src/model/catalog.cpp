#include <algorithm>
#include <filesystem>
#include <fmt/core.h>
#include <span>

#include "base/embedded.h"
#include "base/file.h"
#include "base/text.h"
#include "model/config.h"

namespace nibble::embedded {
std::span<const EmbeddedFile> models();
}

namespace nibble {
namespace {

namespace fs = std::filesystem;

// A MIXED_PRECISION config lists each module of a checkpoint: 124,000 of them are 12 MB.
constexpr std::size_t kMaxConfigBytes = 32 << 20;

struct CatalogFile {
  CatalogModel model;
  Json config;
  std::optional<Json> hf_quant_config;
};

Result<CatalogFile> read_catalog_file(const Json& json, const std::string& origin) {
  ObjectReader reader(json, origin);
  CatalogFile file;
  file.model.name = reader.require_string("name");
  file.model.title = reader.require_string("title");
  file.model.source = reader.require_string("source");
  const Json* config = reader.object("config");
  const Json* quantization = reader.object("hf_quant_config");
  if (config == nullptr) reader.fault_at("config", "is missing");
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  file.config = *config;
  if (quantization != nullptr) file.hf_quant_config = *quantization;
  return file;
}

Result<ModelSpec> parse_catalog_file(const Json& json, const std::string& origin) {
  NIBBLE_ASSIGN_OR_RETURN(const CatalogFile file, read_catalog_file(json, origin));
  NIBBLE_ASSIGN_OR_RETURN(
      ModelSpec model,
      parse_model(file.config, file.hf_quant_config ? &*file.hf_quant_config : nullptr,
                  file.model.name, origin + ": config", origin + ": hf_quant_config"));
  model.title = file.model.title;
  model.source = file.model.source;
  return model;
}

std::string_view stem(const EmbeddedFile& file) {
  return file.name.substr(0, file.name.rfind(".json"));
}

Result<Json> read_json(const fs::path& path) {
  NIBBLE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxConfigBytes));
  return Json::parse(text, path.string());
}

// What a file is called: the folder of a config.json, else the file itself.
std::string name_of(const fs::path& path) {
  const fs::path full = fs::absolute(path).lexically_normal();
  if (full.filename() != "config.json") return full.stem().string();
  const std::string folder = full.parent_path().filename().string();
  return folder.empty() ? "config" : folder;
}

Result<ModelSpec> load_file(const fs::path& path) {
  if (to_lower(path.extension().string()) != ".json") {
    return input_error("{} is not a config.json; give one, or a checkpoint's folder",
                       path.string());
  }
  NIBBLE_ASSIGN_OR_RETURN(const Json config, read_json(path));
  if (config.find("config") != nullptr && config.find("name") != nullptr) {
    return parse_catalog_file(config, path.string());
  }
  std::optional<Json> quantization;
  const fs::path beside = path.parent_path() / "hf_quant_config.json";
  std::error_code ignored;
  if (path.filename() == "config.json" && fs::exists(beside, ignored)) {
    NIBBLE_ASSIGN_OR_RETURN(quantization, read_json(beside));
  }
  return parse_model(config, quantization ? &*quantization : nullptr, name_of(path), path.string(),
                     beside.string());
}

Result<ModelSpec> load_folder(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    return input_error("{} has no config.json; give the folder of a Hugging Face checkpoint",
                       folder.string());
  }
  return load_file(path);
}

}  // namespace

Result<ModelSpec> load_model(std::string_view name_or_path) {
  const std::string name = to_lower(name_or_path);
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded::models()) {
    if (name == stem(file)) {
      const std::string origin(file.name);
      NIBBLE_ASSIGN_OR_RETURN(const Json json, Json::parse(file.text, origin));
      return parse_catalog_file(json, origin);
    }
    names.emplace_back(stem(file));
  }
  const fs::path path(name_or_path);
  if (name.ends_with(".gguf")) {
    return input_error(
        "{} is a GGUF file, which nibble does not read; give the config.json of the "
        "Hugging Face checkpoint, or its folder",
        name_or_path);
  }
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return load_folder(path);
  if (fs::exists(path, ignored)) return load_file(path);
  // "zai-org/GLM-5" is a name of the hub: look for what stands behind the slash.
  const std::size_t slash = name.find_last_of('/');
  const std::string bare = slash == std::string::npos ? name : name.substr(slash + 1);
  return input_error("\"{}\" is neither a model of the catalog nor a file or folder{}",
                     name_or_path, did_you_mean(bare, names));
}

std::vector<CatalogModel> model_catalog() {
  std::vector<CatalogModel> models;
  for (const EmbeddedFile& file : embedded::models()) {
    const std::string origin(file.name);
    const Result<Json> json = Json::parse(file.text, origin);
    NIBBLE_CHECK(json.ok());  // our own files; the tests load each of them
    const Result<CatalogFile> entry = read_catalog_file(*json, origin);
    NIBBLE_CHECK(entry.ok());
    models.push_back(entry->model);
  }
  std::sort(models.begin(), models.end(),
            [](const CatalogModel& a, const CatalogModel& b) { return a.name < b.name; });
  return models;
}

}  // namespace nibble
