#include "models/weights/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/models/weights/files.h"
#include "tests/runtime/support.h"

namespace tilewright::weights {
namespace {

using test::error_of;
using test::GgufFile;
using test::raw;
using testing::HasSubstr;

constexpr uint32_t kU32 = 4, kF32Value = 6, kBool = 7, kString = 8, kArray = 9;
constexpr uint32_t kF32 = 0, kF16 = 1, kQ4_0 = 2, kBf16 = 30;

std::string refusal_gguf(const std::string& bytes) {
  return error_of<FileError>([&] { TensorFile::parse(bytes, "m.gguf"); });
}

GgufFile small_gguf() {
  return GgufFile()
      .set("general.architecture", kString, GgufFile::string("llama"))
      .set("llama.rope.freq_base", kF32Value, raw(0.5f))
      .set("tokenizer.ggml.tokens", kArray,
           raw(kString) + raw(uint64_t{2}) + GgufFile::string("a") + GgufFile::string("\xff"))
      .set("flag", kBool, "\1")
      .add("norm", kF32, {3}, raw(std::vector<float>{1, 2, 3}))
      .add("w", kF16, {2, 3}, raw(std::vector<uint16_t>{0x3c00, 0x4000, 0, 0, 0, 0xbc00}))
      .add("bf", kBf16, {1}, raw(uint16_t{0xc000}));
}

TEST(Gguf, ReadsMetadataShapesAndValues) {
  for (uint32_t version : {2u, 3u}) {
    std::string bytes = small_gguf().bytes(version);
    TensorFile file = TensorFile::parse(bytes, "m.gguf");
    EXPECT_EQ(to_string(file.format()), "gguf");
    EXPECT_EQ(file.metadata().at("general.architecture"), "llama");
    EXPECT_EQ(file.metadata().at("llama.rope.freq_base"), "0.5");
    EXPECT_EQ(file.metadata().at("tokenizer.ggml.tokens"), "[2 string]");
    EXPECT_EQ(file.metadata().at("flag"), "true");
    const StoredTensor& w = *file.find("w");
    EXPECT_EQ(w.shape, (std::vector<int64_t>{3, 2})) << "row-major, the fastest extent last";
    EXPECT_EQ(w.offset % 32, 0u);
    EXPECT_EQ(file.view(w).get(1), 2);
    EXPECT_EQ(file.view(w).get(5), -1);
    EXPECT_EQ(file.view(*file.find("bf")).get(0), -2);
    EXPECT_EQ(file.view(*file.find("norm")).get(2), 3);
  }
}

TEST(Gguf, AFileWithoutTensorsEndsWithItsHeader) {
  std::string bytes = "GGUF" + raw(uint32_t{3}) + raw(uint64_t{0}) + raw(uint64_t{0});
  EXPECT_TRUE(TensorFile::parse(bytes, "m").tensors().empty());
}

TEST(Gguf, AnotherAlignmentHolds) {
  std::string entry = GgufFile::string("general.alignment") + raw(kU32) + raw(uint32_t{8});
  std::string tensor = GgufFile::string("a") + raw(uint32_t{1}) + raw(uint64_t{1}) + raw(kF32);
  auto bytes = [&](uint64_t offset) {
    std::string file = "GGUF" + raw(uint32_t{3}) + raw(uint64_t{1}) + raw(uint64_t{1}) + entry +
                       tensor + raw(offset);
    file.append((8 - file.size() % 8) % 8, '\0');
    return file + std::string(8, '\0') + raw(7.0f);
  };
  const std::string aligned = bytes(8);  // the file's views look into it
  TensorFile file = TensorFile::parse(aligned, "m");
  EXPECT_EQ(file.view(*file.find("a")).get(0), 7);
  EXPECT_EQ(refusal_gguf(bytes(4)),
            "m.gguf: byte 82: expected a multiple of 8 for the offset of 'a', found 4");
}

TEST(Gguf, AWrongAlignmentIsRefused) {
  auto with = [](uint32_t type, const std::string& value) {
    return refusal_gguf(GgufFile().set("general.alignment", type, value).bytes());
  };
  EXPECT_EQ(with(kU32, raw(uint32_t{24})),
            "m.gguf: byte 53: expected a u32 power of two for general.alignment, found u32 24");
  EXPECT_THAT(with(kU32, raw(uint32_t{0})), HasSubstr("found u32 0"));
  EXPECT_THAT(with(kString, GgufFile::string("32")), HasSubstr("found string 32"));
}

TEST(Gguf, OtherVersionsAreRefused) {
  EXPECT_EQ(refusal_gguf(small_gguf().bytes(1)),
            "m.gguf: byte 4: expected version 2 or 3, found 1");
  EXPECT_EQ(refusal_gguf(small_gguf().bytes(3u << 24)),
            "m.gguf: byte 4: expected a little-endian file, found a big-endian one");
  EXPECT_EQ(refusal_gguf("GGUF"),
            "m.gguf: byte 4: expected the version of 4 bytes, found the end of the "
            "file 0 bytes on");
}

TEST(Gguf, CountsThatDoNotFitAreRefused) {
  std::string start = "GGUF" + raw(uint32_t{3});
  EXPECT_EQ(refusal_gguf(start + raw(uint64_t{1} << 60) + raw(uint64_t{0})),
            "m.gguf: byte 8: expected a number of tensors that fits into the file, found "
            "1152921504606846976");
  EXPECT_THAT(refusal_gguf(start + raw(uint64_t{0}) + raw(uint64_t{1})),
              HasSubstr("byte 16: expected a number of metadata entries that fits"));
  std::string array = raw(kU32) + raw(~uint64_t{0});
  EXPECT_THAT(refusal_gguf(GgufFile().set("x", kArray, array).bytes()),
              HasSubstr("byte 41: expected a number of elements of 'x' that fits"));
  std::string text = raw(uint64_t{1000});
  EXPECT_THAT(refusal_gguf(GgufFile().set("x", kString, text).bytes()),
              HasSubstr("expected the value of 'x' of 1000 bytes, found the end of the file"));
}

TEST(Gguf, UnknownTypesAndShapesAreRefused) {
  EXPECT_EQ(refusal_gguf(GgufFile().set("x", 13, std::string(8, '\0')).bytes()),
            "m.gguf: byte 33: expected a value type of 'x' from 0 to 12, found 13");
  std::string data(64, '\0');
  EXPECT_THAT(refusal_gguf(GgufFile().add("a", 99, {1}, data).bytes()),
              HasSubstr("byte 45: unknown type 99 of tensor 'a'"));
  EXPECT_THAT(refusal_gguf(GgufFile().add("a", 4, {1}, data).bytes()), HasSubstr("unknown type 4"));
  EXPECT_THAT(refusal_gguf(GgufFile().add("a", kF32, {1, 1, 1, 1, 1}, data).bytes()),
              HasSubstr("byte 33: expected at most 4 axes of 'a', found 5"));
  EXPECT_THAT(refusal_gguf(GgufFile().add("a", kF32, {1ull << 40, 1ull << 40}, data).bytes()),
              HasSubstr("byte 45: the shape of 'a' overflows"));
  EXPECT_THAT(refusal_gguf(GgufFile().add("a", kQ4_0, {16, 2}, data).bytes()),
              HasSubstr("expected rows of a multiple of 32 elements for Q4_0; 'a' has rows of 16"));
}

TEST(Gguf, ArraysOfArraysAreReadToALimit) {
  auto nested = [](int depth) {
    std::string value;
    for (int i = 0; i < depth; ++i) value += raw(kArray) + raw(uint64_t{1});
    return GgufFile().set("x", kArray, value + raw(kU32) + raw(uint64_t{0})).bytes();
  };
  EXPECT_EQ(refusal_gguf(nested(3)), "");
  EXPECT_THAT(refusal_gguf(nested(4)), HasSubstr("expected arrays nested at most 4 deep"));
}

TEST(Gguf, NamesThatStandTwiceOrAreNoTextAreRefused) {
  std::string data(4, '\0');
  EXPECT_THAT(refusal_gguf(GgufFile().add("a", kF32, {1}, data).add("a", kF32, {1}, data).bytes()),
              HasSubstr("byte 57: tensor 'a' stands twice"));
  EXPECT_THAT(refusal_gguf(GgufFile().set("k", kBool, "\1").set("k", kBool, "\1").bytes()),
              HasSubstr("byte 38: 'k' stands twice"));
  EXPECT_THAT(refusal_gguf(GgufFile().add("\xff", kF32, {1}, data).bytes()),
              HasSubstr("byte 32: expected a tensor name in UTF-8"));
}

TEST(Gguf, DataHasToLieInsideTheFileOnce) {
  std::string bytes = small_gguf().bytes();
  EXPECT_THAT(refusal_gguf(bytes.substr(0, bytes.size() - 1)),
              HasSubstr("tensor 'bf' has 2 bytes at 64 of the data; expected it to end within 65"));
  std::string two =
      GgufFile().add("a", kF32, {1}, raw(1.0f)).add("b", kF32, {1}, raw(2.0f)).bytes();
  ASSERT_EQ(refusal_gguf(two), "");
  two[82] = 0;  // b's offset
  EXPECT_EQ(refusal_gguf(two),
            "m.gguf: byte 57: tensor 'b' begins at 0 of the data, within another one "
            "that ends at 4");
}

}  // namespace
}  // namespace tilewright::weights
