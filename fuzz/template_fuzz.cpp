// The interpreter of chat templates on any template and any conversation: no crash, no hang, and
// what it renders is valid UTF-8.
//
// The input is a template, then a NUL byte, then the messages as JSON; without them there are two.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/utf8.h"
#include "text/chat_template.h"
#include "text/stop_buffer.h"

namespace {

constexpr std::string_view kMessages =
    R"([{"role": "user", "content": "Grüße"}, {"role": "assistant", "content": null,
        "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5, true]}}}]}])";

// What a stop buffer gives out is the text up to the stop string, however the text is cut.
void check_stops(std::string_view text, std::string_view stop) {
  nibble::text::StopBuffer whole({std::string(stop)});
  nibble::text::StopBuffer bytes({std::string(stop)});
  std::string expected = whole.feed(text);
  expected += whole.finish();
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) out += bytes.feed(text.substr(at, 1));
  out += bytes.finish();
  NIBBLE_CHECK(out == expected);
  NIBBLE_CHECK(stop.empty() || expected == text.substr(0, text.find(stop)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t nul = input.find('\0');
  const std::string_view source = input.substr(0, nul);
  const std::string_view json = nul == std::string_view::npos ? kMessages : input.substr(nul + 1);
  check_stops(input, input.substr(size / 2, 3));
  const auto made = nibble::text::ChatTemplate::parse(source, "fuzz", {{"bos_token", "<s>"}});
  if (!made.ok()) {
    NIBBLE_CHECK(!made.error().message.empty());
    return 0;
  }
  const auto messages = nibble::Json::parse(json, "messages");
  if (!messages.ok()) return 0;
  nibble::text::ChatInput chat;
  chat.messages = *messages;
  chat.max_steps = 20'000;
  const auto text = made->render(chat);
  NIBBLE_CHECK(text.ok() ? nibble::is_valid_utf8(*text) : !text.error().message.empty());
  return 0;
}
