#include "cli/tactics_products.h"

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "bench/model_shapes.h"
#include "ledger/layout.h"
#include "ledger/step.h"
#include "model/config.h"

namespace nibble::cli {
namespace {

constexpr std::int64_t kMostTacticRanks = 65536;
constexpr std::int64_t kMostTacticSide = 1 << 24;
constexpr std::int64_t kMostTacticExperts = 4096;

// GLM-5's experts on one of eight ranks: 2,048 / 8 rows of gate and of up, 6,144 columns.
constexpr std::int64_t kGlmExperts = 256, kGlmInner = 256, kGlmHidden = 6144;
constexpr const char* kGlm = "glm-5-nvfp4";
constexpr std::int64_t kGlmRanks = 8;

bool is_grouped_op(const Op& op) {
  return op.name == "moe.gate_up" || op.name == "moe.down";
}

bool is_four_bit(Format format) {
  return format == Format::kNvfp4 || format == Format::kMxfp4;
}

bool is_same_product(const TacticProduct& one, const TacticProduct& other) {
  return one.n == other.n && one.k == other.k && one.format == other.format &&
         one.epilogue == other.epilogue;
}

// The ledger's shapes do not depend on the machine.
Result<Deployment> tactics_deployment(const Arguments& arguments) {
  const std::optional<std::string> model = arguments.text("--model");
  Deployment deployment;
  NIBBLE_ASSIGN_OR_RETURN(deployment.model, load_model(model.value_or(kGlm)));
  NIBBLE_ASSIGN_OR_RETURN(deployment.machine, load_machine("b200"));
  deployment.link = LinkSpeed{1, 1};
  struct Flag {
    const char* name;
    std::int64_t* target;
  };
  ParallelLayout& layout = deployment.layout;
  if (!model) layout.tp = kGlmRanks;
  for (const Flag& flag :
       {Flag{"--tp", &layout.tp}, Flag{"--ep", &layout.ep}, Flag{"--dp", &layout.dp}}) {
    NIBBLE_ASSIGN_OR_RETURN(const auto value, arguments.integer(flag.name, 1, kMostTacticRanks));
    if (value) *flag.target = *value;
  }
  layout.dp_attention = arguments.has("--dp-attention");
  return deployment;
}

// A layout that does not divide, with the sizes of --tp that do beside the same --ep and --dp.
Result<> check_layout(const Deployment& deployment) {
  constexpr std::int64_t kMostShown = 64;
  const Result<> checked = validate(deployment.layout, deployment.model);
  if (checked.ok()) return checked;
  std::vector<std::string> sizes;
  ParallelLayout other = deployment.layout;
  for (other.tp = 1; other.tp <= kMostShown; ++other.tp) {
    if (validate(other, deployment.model).ok()) sizes.push_back(fmt::format("{}", other.tp));
  }
  Error error = checked.error();
  if (!sizes.empty()) error.message += fmt::format("; --tp {} can be had", join(sizes, ", "));
  return error;
}

// Only gpt-oss has biases in its experts, and its activation is the clamped one.
Epilogue epilogue_of(const Op& op, const ModelSpec& model) {
  if (!op.name.ends_with("gate_up")) return Epilogue::kPlain;
  return is_grouped_op(op) && model.moe->expert_bias ? Epilogue::kClampedSwiGlu : Epilogue::kSwiGlu;
}

TacticProduct product_of(const Op& op, Format format, const Deployment& deployment) {
  TacticProduct product{.op = op.name,
                        .n = static_cast<std::int64_t>(op.shape.n),
                        .k = static_cast<std::int64_t>(op.shape.k),
                        .format = format,
                        .epilogue = epilogue_of(op, deployment.model)};
  if (is_grouped_op(op)) {
    const std::int64_t ranks = deployment.layout.moe_ep();
    product.experts = (deployment.model.moe->experts + ranks - 1) / ranks;
    product.bias = deployment.model.moe->expert_bias;
  }
  return product;
}

Result<TacticsSubject> subject_of_model(const Arguments& arguments, bool grouped) {
  NIBBLE_ASSIGN_OR_RETURN(const Deployment deployment, tactics_deployment(arguments));
  NIBBLE_RETURN_IF_ERROR(check_layout(deployment));
  NIBBLE_ASSIGN_OR_RETURN(const Step step, decode_step(deployment, 1));
  TacticsSubject subject{
      .title = fmt::format("{}, {}", deployment.model.title, deployment.layout.describe()),
      .products = {},
      .notes = {}};
  std::vector<std::string> others;
  for (const Op& op : step.ops) {
    const std::optional<FormatPair> pair = parse_format_pair(op.format);
    if (!pair || op.shape.n < 1 || op.shape.k < 1 || is_grouped_op(op) != grouped) continue;
    if (!is_four_bit(pair->weights)) {
      others.push_back(fmt::format("{} ({})", op.name, to_string(pair->weights)));
      continue;
    }
    TacticProduct product = product_of(op, pair->weights, deployment);
    const bool known =
        std::any_of(subject.products.begin(), subject.products.end(),
                    [&](const auto& other) { return is_same_product(product, other); });
    if (known) continue;
    // Layers of another kind have an operation of the same name with other sizes.
    const auto same =
        std::count_if(subject.products.begin(), subject.products.end(), [&](const auto& other) {
          return other.op == op.name || other.op.starts_with(op.name + ".");
        });
    if (same > 0) product.op = fmt::format("{}.{}", op.name, same + 1);
    subject.products.push_back(std::move(product));
  }
  if (subject.products.empty()) {
    return input_error("{} has no {} with 4-bit weights, which these kernels take{}{}",
                       deployment.model.title, grouped ? "experts" : "matrices",
                       others.empty() ? "" : "; it has ", join(others, ", "));
  }
  if (!others.empty()) {
    subject.notes.push_back(fmt::format("no 4-bit weights: {}", join(others, ", ")));
  }
  return subject;
}

Result<TacticsSubject> subject_of_sizes(const Arguments& arguments, bool grouped) {
  const auto number = [&](const char* name, std::int64_t most,
                          std::int64_t otherwise) -> Result<std::int64_t> {
    NIBBLE_ASSIGN_OR_RETURN(const auto value, arguments.integer(name, 1, most));
    return value.value_or(otherwise);
  };
  NIBBLE_ASSIGN_OR_RETURN(const std::int64_t n,
                          number("--n", kMostTacticSide, grouped ? kGlmInner : kGlmHidden));
  NIBBLE_ASSIGN_OR_RETURN(const std::int64_t k, number("--k", kMostTacticSide, kGlmHidden));
  NIBBLE_ASSIGN_OR_RETURN(
      const std::int64_t experts,
      number("--experts", kMostTacticExperts, grouped ? kGlmExperts : std::int64_t{1}));
  const Format format = format_from_string(arguments.text("--format").value_or("nvfp4")).value();
  TacticsSubject subject{.title = "given sizes", .products = {}, .notes = {}};
  if (!grouped) {
    subject.products = {
        {.op = "gemm", .experts = experts, .n = n, .k = k, .format = format, .given = true}};
    return subject;
  }
  subject.products = {
      {.op = "moe.gate_up",
       .experts = experts,
       .n = 2 * n,
       .k = k,
       .format = format,
       .epilogue = Epilogue::kSwiGlu,
       .given = true},
      {.op = "moe.down", .experts = experts, .n = k, .k = n, .format = format, .given = true}};
  return subject;
}

}  // namespace

std::vector<OptionDef> tactics_product_options() {
  const auto number = [](std::string name, std::string help, std::string value) {
    return OptionDef{.name = std::move(name),
                     .value = "N",
                     .kind = ValueKind::kInteger,
                     .help = std::move(help),
                     .default_text = std::move(value)};
  };
  return {{.name = "--op",
           .value = "OP",
           .kind = ValueKind::kChoice,
           .help = "the layer of experts, or the other matrices",
           .default_text = "moe",
           .choices = {"moe", "gemm"}},
          {.name = "--model",
           .value = "NAME|FILE|DIR",
           .kind = ValueKind::kModel,
           .help = "the model's own matrices on one rank",
           .default_text = "glm-5-nvfp4 with --tp 8"},
          number("--tp", "tensor-parallel GPUs", "1"),
          number("--ep", "ranks that experts are split over; divides tp x dp", "1"),
          number("--dp", "data-parallel attention groups of tp GPUs each", "1"),
          {.name = "--dp-attention", .help = "split sequences, not heads, over the tp group"},
          number("--n", "output features of a matrix; of a layer, the intermediate size", "256"),
          number("--k", "input features of a matrix; of a layer, the hidden size", "6144"),
          number("--experts", "experts of this rank", "256; of gemm 1"),
          {.name = "--format",
           .value = "FORMAT",
           .kind = ValueKind::kChoice,
           .help = "number format of the weights",
           .default_text = "nvfp4",
           .choices = {"nvfp4", "mxfp4"}}};
}

Result<TacticsSubject> tactics_subject(const Arguments& arguments) {
  const bool grouped = arguments.text("--op").value_or("moe") == "moe";
  const char* size = nullptr;
  for (const char* flag : {"--format", "--n", "--k", "--experts"}) {
    if (arguments.has(flag)) size = flag;
  }
  if (size != nullptr && arguments.has("--model")) {
    return usage_error("{} cannot stand beside --model: the model names it", size);
  }
  for (const char* flag : {"--tp", "--ep", "--dp", "--dp-attention"}) {
    if (arguments.has(flag) && !arguments.has("--model")) {
      return usage_error("{} needs --model, whose matrices it cuts", flag);
    }
  }
  // Without a model, --op gemm is about one matrix.
  const bool of_sizes = size != nullptr || (!grouped && !arguments.has("--model"));
  return of_sizes ? subject_of_sizes(arguments, grouped) : subject_of_model(arguments, grouped);
}

}  // namespace nibble::cli
