#include "report/escape.h"

#include <gtest/gtest.h>
#include <string>

#include "base/json.h"

namespace nibble {
namespace {

TEST(Escape, HtmlEscapesTheFiveCharacters) {
  EXPECT_EQ(html_escape("a < b && c > \"d\" 'e'"),
            "a &lt; b &amp;&amp; c &gt; &quot;d&quot; &#39;e&#39;");
  EXPECT_EQ(html_escape("&lt;"), "&amp;lt;");  // text that looks escaped already is text
  EXPECT_EQ(html_escape("80 °C µs"), "80 °C µs");
  EXPECT_EQ(html_escape(""), "");
}

TEST(Escape, ScriptJsonHoldsNothingThatHtmlReadsAndReadsBackTheSame) {
  const Json json = Json::object({{"</script>", "<!-- & -->"}, {"b", Json::array({1, 2.5})}});
  const std::string text = script_json(json);
  EXPECT_EQ(text.find_first_of("<>&"), std::string::npos) << text;
  const Result<Json> again = Json::parse(text, "test");
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(*again, json);
}

TEST(Escape, MarkdownShowsMarkupAsText) {
  EXPECT_EQ(markdown_escape("2*M*N <b> [x] `y` a|b"), "2\\*M\\*N \\<b\\> \\[x\\] \\`y\\` a\\|b");
  EXPECT_EQ(markdown_escape("moe.gate_up"), "moe.gate_up");  // inside a word it is no emphasis
  EXPECT_EQ(markdown_escape("_x_ &lt; &#60; a & b"), "\\_x\\_ \\&lt; \\&#60; a & b");
  EXPECT_EQ(markdown_escape("two\nlines\r\nmore"), "two lines  more");
}

TEST(Escape, MarkdownMarkersAtTheStartOfALineAreText) {
  EXPECT_EQ(markdown_escape("# one"), "\\# one");
  EXPECT_EQ(markdown_escape("- one"), "\\- one");
  EXPECT_EQ(markdown_escape("12. one"), "12\\. one");
  EXPECT_EQ(markdown_escape("12)"), "12\\)");
  EXPECT_EQ(markdown_escape("  ---"), "  --\\-");  // no longer a rule
  EXPECT_EQ(markdown_escape("12.5 ms"), "12.5 ms");
  EXPECT_EQ(markdown_escape("-0.83"), "-0.83");
  EXPECT_EQ(markdown_escape("16x2048x6144"), "16x2048x6144");
  EXPECT_EQ(markdown_escape("   "), "   ");
}

TEST(Escape, MarkdownCodeHoldsBackquotes) {
  EXPECT_EQ(markdown_code("m*n"), "`m*n`");
  EXPECT_EQ(markdown_code("a`b``c"), "``` a`b``c ```");
  EXPECT_EQ(markdown_code("two\nlines"), "`two lines`");
}

}  // namespace
}  // namespace nibble
