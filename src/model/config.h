// Hugging Face configuration files -> ModelSpec, and the catalog of models built into the program.
//
//   load_model("deepseek-r1");          a catalog name
//   load_model("/data/GLM-5-NVFP4");    a checkpoint folder (config.json, hf_quant_config.json)
//   load_model("config.json");          a file
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/spec.h"

namespace nibble {

// `config`: config.json. `hf_quant_config`: may be null. `name`: what to call the model. `where`
// and `hf_where`: the two files as messages name them. Missing or contradictory fields are input
// errors that name the field.
Result<ModelSpec> parse_model(const Json& config, const Json* hf_quant_config, std::string name,
                              std::string_view where = "config.json",
                              std::string_view hf_where = "hf_quant_config.json");

// A catalog name, a config.json, or a folder; unknown names are answered with the nearest ones.
Result<ModelSpec> load_model(std::string_view name_or_path);

struct CatalogModel {
  std::string name;   // "glm-5-nvfp4"
  std::string title;  // "GLM-5-NVFP4"
  std::string source;
};
std::vector<CatalogModel> model_catalog();  // sorted by name

}  // namespace nibble
