#include "checkpoint/safetensors.h"

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/test_files.h"

namespace nibble {
namespace {

std::string entry(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return fmt::format(R"({{"dtype":"{}","shape":{},"data_offsets":{}}})", dtype, shape, offsets);
}

// What parse_safetensors_header says of a header; "" when it takes it.
std::string fault_of(const std::string& header) {
  const Result<SafetensorsHeader> parsed = parse_safetensors_header(header, "file");
  if (parsed.ok()) return "";
  EXPECT_EQ(parsed.error().kind, ErrorKind::kInput);
  EXPECT_TRUE(parsed.error().message.starts_with("file: ")) << parsed.error().message;
  return parsed.error().message;
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(SafetensorsHeader, ReadsTensorsInTheOrderOfTheirData) {
  const std::string header = R"({"__metadata__":{"format":"pt"},"b":)" +
                             entry("F32", "[2]", "[4,12]") +
                             ",\"a\":" + entry("BF16", "[2,1]", "[0,4]") +
                             ",\"scalar\":" + entry("U8", "[]", "[12,13]") + "}   ";
  const Result<SafetensorsHeader> parsed = parse_safetensors_header(header, "file");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  ASSERT_EQ(parsed->tensors.size(), 3U);
  EXPECT_EQ(parsed->tensors[0].name, "a");
  EXPECT_EQ(parsed->tensors[0].dtype, Dtype::kBf16);
  EXPECT_EQ(parsed->tensors[0].shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(parsed->tensors[1].name, "b");
  EXPECT_EQ(parsed->tensors[1].bytes(), 8U);
  EXPECT_EQ(parsed->tensors[2].elements(), 1U);
  EXPECT_EQ(parsed->data_bytes, 13U);
}

TEST(SafetensorsHeader, AnEmptyModelAndAnEmptyTensorAreAllowed) {
  EXPECT_EQ(fault_of("{}"), "");
  EXPECT_EQ(fault_of("{\"a\":" + entry("F32", "[0,4]", "[0,0]") +
                     ",\"b\":" + entry("U8", "[1]", "[0,1]") + "}"),
            "");
}

TEST(SafetensorsHeader, RefusesWhatIsNoHeader) {
  EXPECT_TRUE(mentions(fault_of(""), "does not begin with"));
  EXPECT_TRUE(mentions(fault_of(" {}"), "does not begin with"));
  EXPECT_TRUE(mentions(fault_of("[]"), "does not begin with"));
  EXPECT_TRUE(mentions(fault_of("{"), "not valid JSON"));
  EXPECT_TRUE(mentions(fault_of("{} x"), "not valid JSON"));
  const std::string one = entry("U8", "[1]", "[0,1]");
  EXPECT_TRUE(mentions(fault_of("{\"a\":" + one + ",\"a\":" + one + "}"), "appears twice"));
}

TEST(SafetensorsHeader, RefusesMetadataThatIsNoText) {
  EXPECT_TRUE(mentions(fault_of(R"({"__metadata__":[]})"), "must be an object"));
  EXPECT_TRUE(mentions(fault_of(R"({"__metadata__":{"n":1}})"), "only strings"));
}

TEST(SafetensorsHeader, RefusesEntriesThatLackSomething) {
  EXPECT_TRUE(mentions(fault_of(R"({"a":1})"), "must be an object"));
  EXPECT_TRUE(mentions(fault_of(R"({"a":{"shape":[],"data_offsets":[0,1]}})"), "no \"dtype\""));
  EXPECT_TRUE(mentions(fault_of("{\"a\":" + entry("F3", "[1]", "[0,1]") + "}"), "\"F3\""));
  // What is there in the wrong type is not said to be absent.
  EXPECT_TRUE(mentions(fault_of(R"({"a":{"dtype":3,"shape":[],"data_offsets":[0,1]}})"),
                       "\"dtype\" that must be a string"));
  EXPECT_TRUE(mentions(fault_of(R"({"a":{"dtype":"U8","shape":3,"data_offsets":[0,1]}})"),
                       "\"shape\" that must be a list"));
  EXPECT_TRUE(mentions(fault_of(R"({"a":{"dtype":"U8","shape":[],"data_offsets":{}}})"),
                       "\"data_offsets\" that must be a list"));
  EXPECT_TRUE(mentions(fault_of(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})"), "\"shape\""));
  EXPECT_TRUE(mentions(fault_of(R"({"a":{"dtype":"U8","shape":[1]}})"), "\"data_offsets\""));
  for (const char* shape : {"[-1]", "[1.0]", "[\"1\"]", "[1e3]", "[18446744073709551616]"}) {
    EXPECT_TRUE(mentions(fault_of("{\"a\":" + entry("U8", shape, "[0,1]") + "}"), "whole numbers"))
        << shape;
  }
  EXPECT_TRUE(mentions(fault_of("{\"a\":" + entry("U8", "[1]", "[0]") + "}"), "two are needed"));
  const std::string many = "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]";  // 17
  EXPECT_TRUE(mentions(fault_of("{\"a\":" + entry("U8", many, "[0,1]") + "}"), "17 dimensions"));
}

TEST(SafetensorsHeader, RefusesOffsetsThatDoNotFitShapeAndType) {
  EXPECT_TRUE(mentions(fault_of("{\"a\":" + entry("BF16", "[3]", "[0,5]") + "}"), "6 bytes"));
  EXPECT_TRUE(
      mentions(fault_of("{\"a\":" + entry("U8", "[1]", "[2,1]") + "}"), "before it begins"));
  // 2^62 * 4 bytes wraps to 0 in 64 bits.
  EXPECT_TRUE(mentions(fault_of("{\"a\":" + entry("F32", "[4611686018427387904]", "[0,0]") + "}"),
                       "no file holds"));
  EXPECT_TRUE(mentions(fault_of("{\"a\":" + entry("U8", "[4294967296,4294967296]", "[0,0]") + "}"),
                       "no file holds"));
  EXPECT_TRUE(
      mentions(fault_of("{\"a\":" + entry("U8", "[0,4611686018427387904,16]", "[0,0]") + "}"),
               "no file holds"));
  EXPECT_TRUE(mentions(fault_of("{\"a\":" + entry("F4", "[3]", "[0,1]") + "}"), "no file holds"));
}

TEST(SafetensorsHeader, RefusesOverlapAndGap) {
  const auto two = [](std::string_view first, std::string_view second) {
    return "{\"a\":" + entry("U8", "[4]", first) + ",\"b\":" + entry("U8", "[4]", second) + "}";
  };
  EXPECT_EQ(fault_of(two("[4,8]", "[0,4]")), "");
  EXPECT_TRUE(mentions(fault_of(two("[0,4]", "[3,7]")), "overlap at byte 3"));
  EXPECT_TRUE(mentions(fault_of(two("[0,4]", "[0,4]")), "overlap at byte 0"));
  EXPECT_TRUE(mentions(fault_of(two("[0,4]", "[5,9]")), "bytes 4 to 5"));
  EXPECT_TRUE(mentions(fault_of(two("[1,5]", "[5,9]")), "bytes 0 to 1"));
}

TEST(SafetensorsLength, IsLittleEndianAndWithinTheFile) {
  const auto length_of = [](const std::string& prefix, std::uint64_t file_size) {
    return parse_header_length(std::as_bytes(std::span(prefix)), file_size, "file");
  };
  ASSERT_TRUE(length_of(length_prefix(0x0102), 8 + 0x0102).ok());
  EXPECT_EQ(*length_of(length_prefix(0x0102), 8 + 0x0102), 0x0102U);
  const Result<std::uint64_t> beyond = length_of(length_prefix(3), 10);
  ASSERT_FALSE(beyond.ok());
  EXPECT_TRUE(says_truncated(beyond.error())) << beyond.error().message;
  const Result<std::uint64_t> short_file = length_of("1234567", 7);
  ASSERT_FALSE(short_file.ok());
  EXPECT_TRUE(says_truncated(short_file.error()));
  for (const std::uint64_t length :
       {kMaxHeaderBytes + 1, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    const Result<std::uint64_t> too_long = length_of(length_prefix(length), std::uint64_t{1} << 62);
    ASSERT_FALSE(too_long.ok()) << length;
    EXPECT_FALSE(says_truncated(too_long.error()));
    EXPECT_TRUE(mentions(too_long.error().message, "no safetensors file"));
  }
}

class SafetensorsFileTest : public testing::Test {
 protected:
  Result<SafetensorsFile> open(const std::string& bytes) {
    write(folder_.path() / "a.safetensors", bytes);
    return SafetensorsFile::open(folder_.path() / "a.safetensors");
  }
  const TemporaryFolder folder_;
};

TEST_F(SafetensorsFileTest, GivesTheBytesOfEachTensor) {
  const Result<SafetensorsFile> file =
      open(safetensors_bytes({{"a", "U8", {3}, "abc"}, {"b", "U8", {2}, "de"}}));
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto text = [&](std::size_t index) {
    const std::span<const std::byte> bytes = file->data(file->tensors()[index]);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  EXPECT_EQ(text(0), "abc");
  EXPECT_EQ(text(1), "de");
  EXPECT_EQ(file->file_bytes(), file->header_bytes() + 5);
}

TEST_F(SafetensorsFileTest, OneByteLessIsTruncatedAndOneMoreIsRefused) {
  const std::string whole = safetensors_bytes({{"a", "U8", {3}, "abc"}});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Result<SafetensorsFile> file = open(whole.substr(0, size));
    ASSERT_FALSE(file.ok()) << size;
    EXPECT_TRUE(says_truncated(file.error())) << size << ": " << file.error().message;
  }
  const Result<SafetensorsFile> longer = open(whole + "x");
  ASSERT_FALSE(longer.ok());
  EXPECT_TRUE(mentions(longer.error().message, "1 bytes follow the last tensor"));
}

TEST_F(SafetensorsFileTest, SaysHowManyBytesAreMissing) {
  const std::string whole = safetensors_bytes({{"a", "U8", {3}, "abc"}});
  const Result<SafetensorsFile> file = open(whole.substr(0, whole.size() - 2));
  ASSERT_FALSE(file.ok());
  EXPECT_TRUE(mentions(file.error().message, ", 2 fewer")) << file.error().message;
}

TEST_F(SafetensorsFileTest, ReadsWhatIsThereAndNoticesWhatIsNoLonger) {
  const std::string whole = safetensors_bytes({{"a", "U8", {3}, "abc"}, {"b", "U8", {2}, "de"}});
  const Result<SafetensorsFile> file = open(whole);
  ASSERT_TRUE(file.ok()) << file.error().message;
  std::string two(2, '\0');
  const auto read = [&](std::size_t tensor, std::uint64_t offset) {
    return file->read(file->tensors()[tensor], offset, std::as_writable_bytes(std::span(two)));
  };
  ASSERT_TRUE(read(0, 1).ok());
  EXPECT_EQ(two, "bc");
  EXPECT_TRUE(file->check_length().ok());
  std::filesystem::resize_file(folder_.path() / "a.safetensors", whole.size() - 1);
  EXPECT_TRUE(read(0, 1).ok());  // still there
  const Result<> gone = read(1, 0);
  ASSERT_FALSE(gone.ok());
  EXPECT_TRUE(says_truncated(gone.error())) << gone.error().message;
  ASSERT_FALSE(file->check_length().ok());
  EXPECT_TRUE(says_truncated(file->check_length().error()));
}

TEST_F(SafetensorsFileTest, RefusesWhatIsNoFile) {
  EXPECT_FALSE(SafetensorsFile::open(folder_.path()).ok());
  EXPECT_FALSE(SafetensorsFile::open(folder_.path() / "absent.safetensors").ok());
}

// tests/golden/safetensors: a file by the safetensors package and, apart from it, what is in it.
TEST(Safetensors, ReadsAFileOfTheRealPackage) {
  const std::filesystem::path folder =
      std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests/golden/safetensors";
  const Result<SafetensorsFile> file = SafetensorsFile::open(folder / "tiny.safetensors");
  ASSERT_TRUE(file.ok()) << file.error().message;
  const Result<std::string> text = read_file(folder / "tiny.json", 1 << 20);
  ASSERT_TRUE(text.ok());
  const Result<Json> expected = Json::parse(*text, "tiny.json");
  ASSERT_TRUE(expected.ok());
  const Json& tensors = *expected->find("tensors");
  ASSERT_FALSE(tensors.as_object().empty());
  EXPECT_EQ(file->tensors().size(), tensors.as_object().size());
  for (const TensorInfo& tensor : file->tensors()) {
    const Json* known = tensors.find(tensor.name);
    ASSERT_NE(known, nullptr) << tensor.name;
    EXPECT_EQ(to_string(tensor.dtype), known->find("dtype")->as_string());
    std::vector<std::int64_t> shape;
    for (const Json& size : known->find("shape")->as_array()) shape.push_back(size.as_integer());
    EXPECT_EQ(tensor.shape, shape);
    std::string hex;
    for (const std::byte byte : file->data(tensor)) {
      hex += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
    }
    EXPECT_EQ(hex, known->find("bytes")->as_string()) << tensor.name;
  }
}

TEST(Dtype, NamesAndSizesAreThoseOfTheFormat) {
  for (const auto& [name, bits] : {std::pair{"BOOL", 8},
                                   {"F4", 4},
                                   {"F6_E2M3", 6},
                                   {"U8", 8},
                                   {"F8_E4M3", 8},
                                   {"F8_E8M0", 8},
                                   {"BF16", 16},
                                   {"F16", 16},
                                   {"F32", 32},
                                   {"I64", 64},
                                   {"C64", 64},
                                   {"F64", 64}}) {
    const std::optional<Dtype> dtype = dtype_from_string(name);
    ASSERT_TRUE(dtype) << name;
    EXPECT_EQ(to_string(*dtype), name);
    EXPECT_EQ(dtype_bits(*dtype), bits) << name;
  }
  EXPECT_FALSE(dtype_from_string("bf16"));
}

TEST(Dtype, BytesOfATensorNeverOverflow) {
  EXPECT_EQ(tensor_bytes(Dtype::kBf16, std::vector<std::int64_t>{128, 2048}), 524288U);
  EXPECT_EQ(tensor_bytes(Dtype::kF32, std::vector<std::int64_t>{}), 4U);
  EXPECT_EQ(tensor_bytes(Dtype::kF4, std::vector<std::int64_t>{6}), 3U);
  EXPECT_EQ(tensor_bytes(Dtype::kF32, std::vector<std::int64_t>{0, 7}), 0U);
  EXPECT_FALSE(tensor_bytes(Dtype::kF32, std::vector<std::int64_t>{-1}));
  EXPECT_FALSE(tensor_bytes(Dtype::kF4, std::vector<std::int64_t>{5}));
  EXPECT_FALSE(tensor_bytes(Dtype::kU8, std::vector<std::int64_t>{INT64_MAX, INT64_MAX}));
}

}  // namespace
}  // namespace nibble
