// Reads JSON text from front to back without building a tree: what a stream of 100,000 events a
// second needs. Strict about grammar; lenient where servers are careless and nothing is lost by it:
// broken UTF-8 and lone surrogates in strings become U+FFFD, and a key may appear twice.
//
//   JsonScanner scan(data);
//   for (scan.open_object(); scan.next_member();) {
//     if (scan.key() == "text") scan.read_string(text); else scan.skip();
//   }
//   if (!scan.finish()) return scan.fault();
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nibble::api {

class JsonScanner {
 public:
  enum class Kind : std::uint8_t {
    kObject,
    kArray,
    kString,
    kNumber,
    kBoolean,
    kNull,
    kNone,  // no value begins here; finish() will say so
  };

  // The text must outlive the scanner.
  explicit JsonScanner(std::string_view text)
      : begin_(text.data()), at_(text.data()), end_(text.data() + text.size()) {}

  Kind peek();

  // Containers are walked to their end: after open_object() call next_member() until it is false
  // and read or skip exactly one value after each true; likewise arrays. All of these are false
  // after a fault, so that loops end. A value of another kind is a fault.
  bool open_object();
  bool next_member();
  std::string_view key() const { return key_; }  // until the next call that reads
  bool open_array();
  bool next_item();

  // Reads one value. A value of another kind is skipped: nullopt or false, and no fault.
  bool read_string(std::string& out);          // replaces `out`; it keeps its memory
  std::optional<std::int64_t> read_integer();  // 8 and 8.0, not 8.5
  std::optional<double> read_number();         // not what no finite double holds
  std::optional<bool> read_boolean();
  // Any value, checked; false after a fault.
  bool skip();
  // The text of any value, checked; empty after a fault.
  std::string_view read_raw();

  // Whether the text held one valid value and white space only. Nothing else says so: readers may
  // return before the end of a broken document.
  bool finish();
  bool failed() const { return fault_ != nullptr; }
  // "byte 17: no value begins here"; empty without a fault.
  std::string fault() const;
  // Whether a string held broken UTF-8 or a lone surrogate.
  bool repaired() const { return repaired_; }

 private:
  void skip_space();
  bool fail(const char* what);
  bool take_literal(std::string_view literal);
  bool scan_number(bool& integral);
  // The opening quote is behind; ends behind the closing one. Appends to `out` unless null.
  bool scan_string(std::string* out);
  bool scan_escape(std::string* out);
  bool scan_unicode_escape(std::string* out);
  std::optional<std::uint32_t> scan_hex4();
  void scan_multibyte(std::string* out);
  bool skip_scalar();
  bool open(char bracket);
  bool next(char closing);

  const char* begin_;
  const char* at_;
  const char* end_;
  const char* fault_ = nullptr;
  const char* fault_at_ = nullptr;
  bool first_ = false;  // directly behind an opening bracket
  bool repaired_ = false;
  std::string_view key_;
  std::string key_buffer_;  // of a key with escapes
};

// Length of the valid UTF-8 sequence that begins the text (1 to 4), or 0.
std::size_t utf8_length(std::string_view text);

// How much of the text's front stands for itself in a JSON string: ASCII without quotes,
// backslashes and control characters.
std::size_t plain_json_length(std::string_view text);

}  // namespace nibble::api
