#include "text/jinja/printing.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja/unicode.h"

namespace nibble::text::jinja {
namespace {

void append_represented(Machine& machine, std::string& out, const Value& value);

// One character in the quotes of repr().
void append_quoted(std::string& out, char32_t character, char quote) {
  if (character == static_cast<char32_t>(quote) || character == '\\') {
    out += '\\';
    out += static_cast<char>(character);
  } else if (character == '\n') {
    out += "\\n";
  } else if (character == '\r') {
    out += "\\r";
  } else if (character == '\t') {
    out += "\\t";
  } else if (is_printable(character)) {
    append_character(out, character);
  } else if (character < 0x100) {
    out += fmt::format("\\x{:02x}", static_cast<unsigned>(character));
  } else if (character < 0x10000) {
    out += fmt::format("\\u{:04x}", static_cast<unsigned>(character));
  } else {
    out += fmt::format("\\U{:08x}", static_cast<unsigned>(character));
  }
}

void append_text(std::string& out, const Text& text) {
  const bool single = text.bytes.find('\'') == std::string::npos;
  const char quote = single || text.bytes.find('"') != std::string::npos ? '\'' : '"';
  if (text.markup) out += "Markup(";
  out += quote;
  for (std::size_t at = 0; at < text.bytes.size();) {
    append_quoted(out, next_character(text.bytes, at), quote);
  }
  out += quote;
  if (text.markup) out += ')';
}

void append_items(Machine& machine, std::string& out, const std::vector<Value>& items) {
  bool first = true;
  for (const Value& item : items) {
    if (!first) out += ", ";
    first = false;
    append_represented(machine, out, item);
    if (!machine.can_make(out.size())) return;
  }
}

void append_sequence(Machine& machine, std::string& out, const Sequence& sequence) {
  switch (sequence.kind) {
    case SequenceKind::kList:
      out += '[';
      append_items(machine, out, sequence.items);
      out += ']';
      return;
    case SequenceKind::kTuple:
      out += '(';
      append_items(machine, out, sequence.items);
      out += sequence.items.size() == 1 ? ",)" : ")";
      return;
    case SequenceKind::kRange:
      machine.fail("a range cannot be printed; put |list behind it");
      return;
    default:
      out += fmt::format(
          "{}([", Value(std::make_shared<const Sequence>(Sequence{sequence.kind, {}})).type_name());
      append_items(machine, out, sequence.items);
      out += "])";
  }
}

void append_mapping(Machine& machine, std::string& out, const Mapping& mapping) {
  out += '{';
  bool first = true;
  for (const auto& [key, value] : mapping.members) {
    if (!first) out += ", ";
    first = false;
    append_represented(machine, out, key);
    out += ": ";
    append_represented(machine, out, value);
    if (!machine.can_make(out.size())) return;
  }
  out += '}';
}

void append_represented(Machine& machine, std::string& out, const Value& value) {
  Machine::Level level(machine);
  if (!machine.step() || !level.ok()) return;
  if (value.is_undefined()) {
    out += "Undefined";
  } else if (value.is_none()) {
    out += "None";
  } else if (value.is_boolean()) {
    out += value.boolean() ? "True" : "False";
  } else if (value.is_float()) {
    out += represent_float(value.number());
  } else if (value.is_number()) {
    out += std::to_string(value.integer());
  } else if (const Text* text = value.text()) {
    append_text(out, *text);
  } else if (const Sequence* sequence = value.sequence()) {
    append_sequence(machine, out, *sequence);
  } else if (const Mapping* mapping = value.mapping()) {
    append_mapping(machine, out, *mapping);
  } else {
    machine.fail("a value of type {} cannot be printed", value.type_name());
  }
}

class JsonWriter {
 public:
  JsonWriter(Machine& machine, const JsonStyle& style) : machine_(machine), style_(style) {}

  void write(const Value& value) {
    Machine::Level level(machine_);
    if (!machine_.step() || !level.ok() || !machine_.can_make(out_.size())) return;
    if (value.is_none()) {
      out_ += "null";
    } else if (value.is_boolean()) {
      out_ += value.boolean() ? "true" : "false";
    } else if (value.is_float()) {
      write_float(value.number());
    } else if (value.is_number()) {
      out_ += std::to_string(value.integer());
    } else if (const Text* text = value.text()) {
      write_text(text->bytes);
    } else if (const Mapping* mapping = value.mapping()) {
      write_mapping(*mapping);
    } else if (is_list(value)) {
      write_list(*value.sequence());
    } else if (value.is_undefined()) {
      machine_.fail("a value for tojson is undefined: {}", value.undefined_reason());
    } else {
      machine_.fail("a value of type {} has no JSON", value.type_name());
    }
  }

  std::string take() { return std::move(out_); }

 private:
  static bool is_list(const Value& value) {
    const Sequence* sequence = value.sequence();
    return sequence != nullptr &&
           (sequence->kind == SequenceKind::kList || sequence->kind == SequenceKind::kTuple);
  }

  void write_float(double value) {
    if (std::isnan(value)) {
      out_ += "NaN";
    } else if (std::isinf(value)) {
      out_ += value < 0 ? "-Infinity" : "Infinity";
    } else {
      out_ += represent_float(value);
    }
  }

  void write_unit(unsigned unit) { out_ += fmt::format("\\u{:04x}", unit); }

  void write_character(char32_t character) {
    const auto value = static_cast<unsigned>(character);
    if (value < 0x10000) return write_unit(value);
    write_unit(0xD800 + ((value - 0x10000) >> 10));
    write_unit(0xDC00 + ((value - 0x10000) & 0x3FF));
  }

  void write_text(const std::string& text) {
    static constexpr std::string_view kNamed = "\"\\\n\r\t\f\b";
    static constexpr std::string_view kLetters = "\"\\nrtfb";
    out_ += '"';
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t start = at;
      const char32_t character = next_character(text, at);
      const std::size_t named =
          character < 0x80 ? kNamed.find(static_cast<char>(character)) : std::string_view::npos;
      if (named != std::string_view::npos) {
        out_ += '\\';
        out_ += kLetters[named];
      } else if (character < 0x20 || (style_.ensure_ascii && character > 0x7F)) {
        write_character(character);
      } else {
        out_.append(text, start, at - start);
      }
    }
    out_ += '"';
  }

  void start_line() {
    if (!style_.indent) return;
    out_ += '\n';
    for (int level = 0; level < level_; ++level) out_ += *style_.indent;
  }

  void write_list(const Sequence& list) {
    if (list.items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    ++level_;
    bool first = true;
    for (const Value& item : list.items) {
      if (!first) out_ += style_.item_separator;
      first = false;
      start_line();
      write(item);
      if (machine_.failed()) return;
    }
    --level_;
    start_line();
    out_ += ']';
  }

  void write_key(const Value& key) {
    if (key.is_text()) return write_text(key.bytes());
    if (key.is_none() || key.is_number()) {
      out_ += '"';
      write(key);
      out_ += '"';
      return;
    }
    machine_.fail("a key of type {} has no JSON", key.type_name());
  }

  std::vector<const std::pair<Value, Value>*> ordered(const Mapping& mapping) {
    std::vector<const std::pair<Value, Value>*> members;
    members.reserve(mapping.members.size());
    for (const auto& member : mapping.members) members.push_back(&member);
    if (!style_.sort_keys) return members;
    if (mapping.by_text.size() != members.size()) {
      machine_.fail("only keys that are text can be sorted");
      return members;
    }
    std::sort(members.begin(), members.end(),
              [](const auto* a, const auto* b) { return a->first.bytes() < b->first.bytes(); });
    return members;
  }

  void write_mapping(const Mapping& mapping) {
    if (mapping.members.empty()) {
      out_ += "{}";
      return;
    }
    out_ += '{';
    ++level_;
    bool first = true;
    for (const auto* member : ordered(mapping)) {
      if (!first) out_ += style_.item_separator;
      first = false;
      start_line();
      write_key(member->first);
      out_ += style_.key_separator;
      write(member->second);
      if (machine_.failed()) return;
    }
    --level_;
    start_line();
    out_ += '}';
  }

  Machine& machine_;
  const JsonStyle& style_;
  std::string out_;
  int level_ = 0;
};

}  // namespace

std::string represent_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string represent(Machine& machine, const Value& value) {
  std::string out;
  append_represented(machine, out, value);
  return out;
}

std::string print(Machine& machine, const Value& value) {
  if (value.is_undefined()) return "";
  if (value.is_text()) return value.bytes();
  return represent(machine, value);
}

Value to_text(Machine& machine, const Value& value) {
  if (value.is_text()) return value;
  return machine.text(print(machine, value));
}

std::string to_json(Machine& machine, const Value& value, const JsonStyle& style) {
  JsonWriter writer(machine, style);
  writer.write(value);
  return writer.take();
}

}  // namespace nibble::text::jinja
