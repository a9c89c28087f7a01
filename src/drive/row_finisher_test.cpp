#include "drive/row_finisher.h"

#include "base/file.h"
#include "drive/test_drive.h"
#include "load/test_rows.h"

namespace nibble::drive {
namespace {

using load::make_row;

TEST(RowFinisher, WritesWhatIsPushedBeforeItEnds) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "rows.jsonl";
  auto writer = load::RowWriter::create(path);
  ASSERT_TRUE(writer.ok());
  {
    RowFinisher finisher(*writer, std::nullopt);
    for (int i = 0; i < 100; ++i) {
      finisher.push(make_row({.sent = 1, .events = {1, 2}, .end = 3, .output = 2}), "a b");
    }
    finisher.drain();
    EXPECT_EQ(finisher.written(), 100);
    EXPECT_EQ(rows_of(path).size(), 100U);  // in the system's hands
    finisher.push(make_row({.sent = 1, .events = {1, 2}, .end = 3, .output = 2}), "");
  }
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_EQ(rows_of(path).size(), 101U);
}

TEST(RowFinisher, AnAnswerThatRepeatsItselfIsMarked) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "rows.jsonl";
  auto writer = load::RowWriter::create(path);
  ASSERT_TRUE(writer.ok());
  std::string noise;
  for (int i = 0; i < 64; ++i) noise += " word" + std::to_string(i * i);
  {
    RowFinisher finisher(*writer, std::nullopt);
    const auto row = make_row({.sent = 1, .events = {1, 2}, .end = 3, .output = 64});
    const auto few = make_row({.sent = 1, .events = {1, 2}, .end = 3, .output = 8});
    finisher.push(row, std::string(64, '!'));
    finisher.push(row, noise);
    finisher.push(few, std::string(8, '!'));  // too short to tell
  }
  ASSERT_TRUE(writer->finish().ok());
  const auto rows = rows_of(path);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_TRUE(rows[0].degenerate);
  EXPECT_FALSE(rows[1].degenerate);
  EXPECT_FALSE(rows[2].degenerate);
}

// What counts here is where the count goes; that it is right is tested in src/text.
TEST(RowFinisher, TokensAreCountedBesideTheServersCount) {
  const auto text =
      read_file(std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests/golden/tokenizers/complete.json",
                std::size_t{1} << 20);
  ASSERT_TRUE(text.ok());
  const auto tokenizer = text::parse_tokenizer(*text, "complete.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const auto ids = tokenizer->encode("hello there", {.add_special = false});
  ASSERT_TRUE(ids.ok());
  const TemporaryFolder folder;
  const auto path = folder.path() / "rows.jsonl";
  auto writer = load::RowWriter::create(path);
  ASSERT_TRUE(writer.ok());
  {
    RowFinisher finisher(*writer, *tokenizer);
    auto without = make_row({.sent = 1, .events = {1, 2}, .end = 3});
    without.token_source = load::TokenSource::kEvents;
    finisher.push(without, "hello there");
    finisher.push(make_row({.sent = 1, .events = {1, 2}, .end = 3, .output = 2}), "hello there");
  }
  ASSERT_TRUE(writer->finish().ok());
  const auto rows = rows_of(path);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].counted_tokens, static_cast<std::int64_t>(ids->size()));
  EXPECT_EQ(rows[0].token_source, load::TokenSource::kTokenizer);
  EXPECT_EQ(rows[1].counted_tokens, static_cast<std::int64_t>(ids->size()));
  EXPECT_EQ(rows[1].token_source, load::TokenSource::kUsage);
}

TEST(RowFinisher, AFullDiskIsAFaultThatStays) {
  auto writer = load::RowWriter::create("/dev/full");
  if (!writer.ok()) GTEST_SKIP() << "/dev/full cannot be replaced here";
  RowFinisher finisher(*writer, std::nullopt);
  finisher.push(make_row({.sent = 1, .events = {1, 2}, .end = 3, .output = 2}), "");
  finisher.drain();
  ASSERT_TRUE(finisher.fault().has_value());
}

}  // namespace
}  // namespace nibble::drive
