#include "cuda/ptx.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace nibble::cuda {
namespace {

// PTX ISA 4 (syntax), 5.4 (parameters), 11.1 and 11.4 (.version, .target, .entry, .maxntid). A
// kernel's parameters take 32,764 bytes at most, and a block has 1,024 threads.
constexpr int kMostNumber = 1 << 16;
constexpr std::string_view kPunctuation = ",;(){}[]<>:=\"";

Error damaged_ptx(std::string_view what) {
  return run_error("the PTX is damaged: {}; compile it again", what);
}

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// The words and signs of a text; comments are left out, and a string is one token with its quotes.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : rest_(text) {}

  // "" at the end, and for ever after.
  std::string_view next() {
    skip_blank();
    if (rest_.empty()) return {};
    std::size_t size = 1;
    if (rest_.front() == '"') {
      size = string_size();
    } else if (kPunctuation.find(rest_.front()) == std::string_view::npos) {
      while (size < rest_.size() && is_word(size)) ++size;
    }
    const std::string_view token = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return token;
  }

 private:
  bool is_word(std::size_t at) const {
    const std::string_view two = rest_.substr(at, 2);
    return !is_space(rest_[at]) && kPunctuation.find(rest_[at]) == std::string_view::npos &&
           two != "//" && two != "/*";
  }

  std::size_t string_size() const {
    std::size_t at = 1;
    while (at < rest_.size() && rest_[at] != '"') at += rest_[at] == '\\' ? 2 : 1;
    return std::min(at + 1, rest_.size());
  }

  void skip_blank() {
    while (!rest_.empty()) {
      if (is_space(rest_.front())) {
        rest_.remove_prefix(1);
      } else if (rest_.starts_with("//")) {
        rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      } else if (rest_.starts_with("/*")) {
        const std::size_t end = rest_.find("*/", 2);
        rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 2);
      } else {
        return;
      }
    }
  }

  std::string_view rest_;
};

std::optional<int> number_of(std::string_view token) {
  int value = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (token.empty() || error != std::errc() || end != token.data() + token.size() || value < 0 ||
      value > kMostNumber) {
    return std::nullopt;
  }
  return value;
}

// Bytes of ".u32"; 0 for what is no fundamental type (PTX ISA 5.2.1).
int type_bytes(std::string_view token) {
  constexpr std::array<std::pair<std::string_view, int>, 6> kBits = {
      {{"8", 1}, {"16", 2}, {"32", 4}, {"64", 8}, {"128", 16}, {"16x2", 4}}};
  if (token.size() < 3 || token[0] != '.') return 0;
  if (std::string_view("busf").find(token[1]) == std::string_view::npos) return 0;
  for (const auto& [bits, bytes] : kBits) {
    if (token.substr(2) == bits) return bytes;
  }
  return 0;
}

bool is_name(std::string_view token) {
  if (token.empty()) return false;
  const char first = token.front();
  return (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') || first == '_' ||
         first == '$' || first == '%';
}

class PtxReader {
 public:
  PtxReader(std::string_view text, const Arch& arch) : tokens_(text), arch_(arch) {}

  Result<std::vector<KernelResources>> read() {
    for (std::string_view token = tokens_.next(); !token.empty(); token = tokens_.next()) {
      if (token == ".version") {
        versioned_ = true;
      } else if (token == ".target") {
        NIBBLE_RETURN_IF_ERROR(read_target());
      } else if (token == ".entry") {
        NIBBLE_RETURN_IF_ERROR(read_entry());
      } else if (token == "{") {
        NIBBLE_RETURN_IF_ERROR(skip_block());
      } else if (token == "}") {
        return damaged_ptx("a brace is closed that was not opened");
      }
    }
    if (!versioned_ || !targeted_) return damaged_ptx("it has no .version and .target");
    return std::move(kernels_);
  }

 private:
  Result<> read_target() {
    const std::string_view target = tokens_.next();
    if (target != arch_.target()) {
      return damaged_ptx(fmt::format("it is for {}, and {} was asked for",
                                     target.empty() ? "nothing" : printable(target), arch_.name()));
    }
    targeted_ = true;
    return {};
  }

  // Up to the brace that closes the one before.
  Result<> skip_block() {
    for (int depth = 1; depth > 0;) {
      const std::string_view token = tokens_.next();
      if (token.empty()) return damaged_ptx("a block is cut off");
      if (token == "{") ++depth;
      if (token == "}") --depth;
    }
    return {};
  }

  Result<> read_entry() {
    KernelResources kernel;
    const std::string_view name = tokens_.next();
    if (!is_name(name)) return damaged_ptx("a kernel has no name");
    if (!versioned_ || !targeted_)
      return damaged_ptx("a kernel stands before .version and .target");
    kernel.name = name;
    std::string_view token = tokens_.next();
    if (token == "(") {
      NIBBLE_RETURN_IF_ERROR(read_parameters(kernel));
      token = tokens_.next();
    }
    while (token != "{") {
      if (token == ";") return {};  // declared alone
      if (token.empty() || token == ".entry" || token == "}" || token == "(") {
        return damaged_ptx(fmt::format("{} has no body", printable(name)));
      }
      if (token == ".maxntid" || token == ".reqntid") {
        NIBBLE_ASSIGN_OR_RETURN(token, read_threads(kernel));
        continue;
      }
      if (token == ".pragma") {
        while (!token.empty() && token != ";") token = tokens_.next();
      }
      token = tokens_.next();
    }
    NIBBLE_RETURN_IF_ERROR(skip_block());
    kernels_.push_back(std::move(kernel));
    return {};
  }

  // "128, 1, 1"; gives the token after it.
  Result<std::string_view> read_threads(KernelResources& kernel) {
    std::int64_t threads = 1;
    std::string_view token;
    for (int dimension = 0; dimension < 3; ++dimension) {
      const std::optional<int> size = number_of(tokens_.next());
      if (!size)
        return damaged_ptx(fmt::format("the launch bounds of {} are no numbers", kernel.name));
      threads = std::min<std::int64_t>(threads * *size, kMostNumber);
      token = tokens_.next();
      if (token != ",") break;
    }
    kernel.max_threads = static_cast<int>(threads);
    return token;
  }

  // After "(", up to ")".
  Result<> read_parameters(KernelResources& kernel) {
    std::string_view token = tokens_.next();
    while (token != ")") {
      if (token != ".param") {
        return damaged_ptx(fmt::format("the parameters of {} are cut off", kernel.name));
      }
      NIBBLE_ASSIGN_OR_RETURN(const int bytes, read_parameter(kernel, token));
      kernel.parameter_bytes.push_back(bytes);
      if (token == ",") token = tokens_.next();
    }
    return {};
  }

  // ".align 8 .b8 large_param_7[16]", ".u64 .ptr .global .align 16 p"; `end` is what follows.
  Result<int> read_parameter(const KernelResources& kernel, std::string_view& end) {
    int unit = 0;
    int count = 1;
    for (end = tokens_.next(); end != "," && end != ")"; end = tokens_.next()) {
      const bool sized = end == ".align" || end == "[";
      const std::optional<int> number = sized ? number_of(tokens_.next()) : std::nullopt;
      if (end.empty() || end == ".param" || (sized && !number)) unit = -1;
      if (end == "[") count = number.value_or(0);
      if (unit == 0) unit = type_bytes(end);
      if (unit < 0) break;
    }
    if (unit <= 0 || count <= 0) {
      return damaged_ptx(fmt::format("parameter {} of {} has no size that is known",
                                     kernel.parameter_bytes.size(), kernel.name));
    }
    return unit * count;
  }

  Tokens tokens_;
  const Arch& arch_;
  bool versioned_ = false;
  bool targeted_ = false;
  std::vector<KernelResources> kernels_;
};

}  // namespace

Result<> check_ptx_text(std::span<const std::byte> image) {
  const auto zero = std::find(image.begin(), image.end(), std::byte{0});
  if (image.empty() || zero != image.end() - 1) {
    return damaged_ptx("it is not a text that ends in its only zero byte");
  }
  return {};
}

Result<std::vector<KernelResources>> read_ptx_kernels(std::span<const std::byte> image,
                                                      const Arch& arch) {
  NIBBLE_RETURN_IF_ERROR(check_ptx_text(image));
  const std::string_view text(reinterpret_cast<const char*>(image.data()), image.size() - 1);
  return PtxReader(text, arch).read();
}

}  // namespace nibble::cuda
