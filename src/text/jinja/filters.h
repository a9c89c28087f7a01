// The filters and tests of jinja2, and the tojson of transformers.
//
//   if (const Filter* filter = find_filter("trim")) apply(machine, *filter, value, arguments);
//   if (const Test* test = find_test("defined")) holds(machine, *test, value, arguments);
#pragma once

#include <span>
#include <string_view>

#include "text/jinja/arguments.h"

namespace nibble::text::jinja {

// The first parameter of each is the value that the filter stands behind.
struct Filter {
  Signature signature;
  Value (*apply)(Machine& machine, const Value& input, const Bound& arguments);
};

const Filter* find_filter(std::string_view name);
Value apply(Machine& machine, const Filter& filter, const Value& input, const Arguments& arguments);

struct Test {
  std::string_view name;
  std::size_t arguments = 0;
  bool (*holds)(Machine& machine, const Value& value, const Value& argument);
};

const Test* find_test(std::string_view name);
bool holds(Machine& machine, const Test& test, const Value& value, const Arguments& arguments);

// The parts of the table, each in a file of its own.
std::span<const Filter> text_filters();
std::span<const Filter> list_filters();
std::span<const Filter> number_filters();
std::span<const Filter> choosing_filters();  // map, select, reject and their like

// "a.b.0" of a value, as filters take attributes.
Value attribute_path(Machine& machine, const Value& value, const Value& path);
// What filters sort and compare by: an attribute, in small letters unless cases count.
Value sort_key(Machine& machine, const Value& value, const Value* path, bool case_sensitive);

}  // namespace nibble::text::jinja
