// The sentence in an error body: of JSON in the shapes of OpenAI, vLLM, SGLang, llama.cpp and
// FastAPI, of HTML, of plain text.
//
//   error_text(R"({"error":{"message":"model not found","code":404}})")   // "model not found"
#pragma once

#include <string>
#include <string_view>

namespace nibble::api {

// One printable line of at most 300 columns; "an empty body" where there is nothing.
std::string error_text(std::string_view body);

}  // namespace nibble::api
