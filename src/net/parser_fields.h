// What the parsers of requests and of responses ask of the fields that Beast has read.
//
//   if (!encoding_is_known(parser.get())) refuse(501);
//   Headers headers = copy_fields(parser.get());
#pragma once

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/fields.hpp>

#include "net/headers.h"

namespace nibble::net {

inline Headers copy_fields(const boost::beast::http::fields& fields) {
  Headers headers;
  for (const auto& field : fields) {
    headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  return headers;
}

// Beast undoes "chunked" alone and hands on the bytes of "gzip, chunked" as if they were the body.
inline bool encoding_is_known(const boost::beast::http::fields& fields) {
  const auto [first, end] = fields.equal_range(boost::beast::http::field::transfer_encoding);
  if (first == end) return true;
  return std::next(first) == end && boost::beast::iequals(first->value(), "chunked");
}

}  // namespace nibble::net
