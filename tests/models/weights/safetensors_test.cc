#include "models/weights/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "runtime/error.h"
#include "tests/models/weights/files.h"
#include "tests/runtime/support.h"

namespace tilewright::weights {
namespace {

using test::error_of;
using test::raw;
using test::SafetensorsFile;
using testing::HasSubstr;

std::string refusal_safetensors(const std::string& bytes) {
  return error_of<FileError>([&] { TensorFile::parse(bytes, "m.safetensors"); });
}

SafetensorsFile small_safetensors() {
  return SafetensorsFile()
      .add("a", "F32", {2, 3}, raw(std::vector<float>{1, 2, 3, 4, 5, 6}))
      .add("b.bias", "BF16", {2}, raw(std::vector<uint16_t>{0x3f80, 0xc000}))
      .add("none", "I64", {0, 4}, "")
      .add("one", "I8", {}, "\xfe");
}

TEST(Safetensors, ReadsNamesShapesAndValues) {
  std::string bytes = small_safetensors().bytes();
  TensorFile file = TensorFile::parse(bytes, "m.safetensors");
  EXPECT_EQ(to_string(file.format()), "safetensors");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  ASSERT_EQ(file.tensors().size(), 4u);
  const StoredTensor& a = *file.find("a");
  EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(a.bytes, 24u);
  EXPECT_EQ(a.offset, bytes.size() - 24 - 4 - 1);
  TensorView view = file.view(a);
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(view.get(i), static_cast<double>(i + 1));
  EXPECT_EQ(file.view(*file.find("b.bias")).get(1), -2);
  EXPECT_EQ(file.find("none")->count, 0);
  EXPECT_EQ(file.view(*file.find("one")).get(0), -2);
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST(Safetensors, EveryPlainTypeIsReadAsItLies) {
  struct Case {
    const char* dtype;
    std::string bytes;
    double value;
  };
  for (const Case& c : std::vector<Case>{{"F64", raw(-0.375), -0.375},
                                         {"F32", raw(-0.375f), -0.375},
                                         {"F16", raw(uint16_t{0xb600}), -0.375},
                                         {"BF16", raw(uint16_t{0xbec0}), -0.375},
                                         {"F8_E4M3", "\xac", -0.375},
                                         {"F8_E5M2", "\xb6", -0.375},
                                         {"F8_E8M0", "\x7b", 0.0625},
                                         {"I64", raw(int64_t{-5}), -5},
                                         {"I32", raw(int32_t{-5}), -5},
                                         {"I16", raw(int16_t{-5}), -5},
                                         {"I8", "\xfb", -5},
                                         {"U64", raw(uint64_t{250}), 250},
                                         {"U32", raw(uint32_t{250}), 250},
                                         {"U16", raw(uint16_t{250}), 250},
                                         {"U8", "\xfa", 250},
                                         {"BOOL", "\1", 1}}) {
    std::string bytes = SafetensorsFile().add("x", c.dtype, {1}, c.bytes).bytes();
    TensorFile file = TensorFile::parse(bytes, "m");
    EXPECT_EQ(file.view(*file.find("x")).get(0), c.value) << c.dtype;
  }
}

TEST(Safetensors, AMappedFileIsReadInPlace) {
  test::TempDir dir;
  std::string path = dir.path("m.safetensors");
  std::ofstream(path, std::ios::binary) << small_safetensors().bytes();
  TensorFile opened = TensorFile::open(path);
  TensorFile file = std::move(opened);
  EXPECT_EQ(file.path(), path);
  EXPECT_EQ(file.view(*file.find("a")).get(5), 6);
}

TEST(Safetensors, TypesWithoutOneOfOursAreListedAndNotRead) {
  std::string bytes = SafetensorsFile().add("x", "C64", {1}, std::string(8, '\0')).bytes();
  TensorFile file = TensorFile::parse(bytes, "m");
  EXPECT_EQ(error_of<FileError>([&] { file.view(*file.find("x")); }),
            "m: tensor 'x' is of type C64, which cannot be read here");
}

TEST(Safetensors, FilesThatCannotBeMappedAreNamed) {
  EXPECT_EQ(error_of<FileError>([] { TensorFile::open("/no/such"); }),
            "/no/such: cannot be read: No such file or directory");
  test::TempDir dir;
  EXPECT_EQ(error_of<FileError>([&] { TensorFile::open(dir.path()); }),
            dir.path() + ": cannot be read: no plain file");
  std::string empty = dir.path("empty");
  std::ofstream{empty};
  EXPECT_THAT(error_of<FileError>([&] { TensorFile::open(empty); }),
              HasSubstr("byte 0: the file ends; expected the 8 bytes of a header's length"));
}

TEST(Safetensors, TheLengthOfTheHeaderHasToFit) {
  std::string bytes = small_safetensors().bytes();
  bytes[6] = 1;
  EXPECT_THAT(refusal_safetensors(bytes),
              HasSubstr("m.safetensors: byte 0: expected the length of a "
                        "safetensors header, at most"));
  EXPECT_THAT(refusal_safetensors(raw(uint64_t{2}) + "[]"), HasSubstr("byte 8: expected '{'"));
  EXPECT_THAT(refusal_safetensors(raw(uint64_t{0}) + "{}"), HasSubstr("byte 8: expected '{'"));
}

// Refusals of what a header says. The message tells the byte at which what is wrong ends.
void expect_refused(const std::string& header, uint64_t byte, const std::string& message) {
  EXPECT_EQ(refusal_safetensors(raw(static_cast<uint64_t>(header.size())) + header + "0123"),
            "m.safetensors: byte " + std::to_string(8 + byte) + ": " + message)
      << header;
}

TEST(Safetensors, AHeaderOfAnotherFormIsRefusedWithItsPlace) {
  expect_refused(R"({"a":1})", 7, "expected an object for 'a', found 1");
  expect_refused(R"({"a":[]})", 6, "expected an object for 'a', found a list");
  expect_refused(R"({"__metadata__":{"x":{}}})", 22, "expected a string for 'x', found an object");
  expect_refused(R"({"a":{"shape":[[)", 16, "expected an extent for 'shape', found a list");
  expect_refused(R"({"a":{"shape":[-1]}})", 18, "expected an extent for 'shape', found -1");
  expect_refused(R"({"a":{"shape":[1.5]}})", 19, "expected an extent for 'shape', found 1.5");
  expect_refused(R"({"a":{"shape":[99999999999999999999]}})", 36,
                 "expected an extent for 'shape', found 99999999999999999999");
  expect_refused(R"({"a":{"shape":[4294967296,4294967296]}})", 37,
                 "the shape of tensor 'a' overflows");
  expect_refused(R"({"a":{"data_offsets":[0,4,8]}})", 28,
                 "expected two offsets for 'data_offsets', found 8");
  expect_refused(R"({"a":{"dtype":null}})", 18, "expected a string for 'dtype', found null");
  expect_refused(R"({"a":{"size":3}})", 12,
                 "unknown key 'size' of tensor 'a'; expected dtype, shape or data_offsets");
  expect_refused(R"({"a":{"dtype":"F32","dtype":"F32"}})", 27, "'dtype' stands twice");
  expect_refused(R"({"a":{"dtype":"F32","shape":[1]}})", 32, "tensor 'a' lacks data_offsets");
  EXPECT_THAT(refusal_safetensors(raw(uint64_t{6}) + "{\"a\":}0123"),
              HasSubstr("byte 14: the header is no JSON: syntax error"));
}

TEST(Safetensors, UnknownTypesAreRefusedWithThoseThatAreKnown) {
  std::string header = R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})";
  EXPECT_THAT(refusal_safetensors(raw(static_cast<uint64_t>(header.size())) + header + "0123"),
              HasSubstr("byte 27: unknown type 'F31' of tensor 'a'; expected one of BOOL, F4"));
}

TEST(Safetensors, TensorsHaveToCoverTheDataOnce) {
  auto with = [](const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + a +
           R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + b + "}}";
  };
  auto refused = [&](const std::string& a, const std::string& b, const std::string& message) {
    std::string header = with(a, b);
    EXPECT_THAT(refusal_safetensors(raw(static_cast<uint64_t>(header.size())) + header + "0123"),
                HasSubstr(message));
  };
  refused("[0,2]", "[2,4]", "");
  refused("[0,2]", "[1,3]",
          "byte 64: the data of tensor 'b' is at 1 to 3; expected it to begin at 2");
  refused("[0,2]", "[3,5]", "the data of tensor 'b' is at 3 to 5; expected it to begin at 2");
  refused("[2,4]", "[4,6]", "the data of tensor 'a' is at 2 to 4; expected it to begin at 0");
  refused("[0,2]", "[0,2]", "the data of tensor 'b' is at 0 to 2");
  refused("[2,0]", "[2,4]", "data_offsets of tensor 'a' are [2, 0]; expected a begin and an end");
  refused("[0,3]", "[3,4]", "tensor 'a' has 3 bytes of data; U8 [2] needs 2");
  refused("[0]", "[2,4]", "data_offsets of tensor 'a' are [0]");
  std::string one = R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})";
  EXPECT_THAT(refusal_safetensors(raw(static_cast<uint64_t>(one.size())) + one + "0123"),
              HasSubstr("byte 64: expected the end of the file, found 1 bytes"));
  std::string half = R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})";
  EXPECT_THAT(refusal_safetensors(raw(static_cast<uint64_t>(half.size())) + half + "0"),
              HasSubstr("tensor 'a' has 1 bytes of data; F4 [3] needs no whole number of them"));
}

TEST(Safetensors, ATensorThatStandsTwiceIsRefused) {
  std::string x(4, 'x');
  EXPECT_THAT(refusal_safetensors(
                  SafetensorsFile().add("a", "F32", {1}, x).add("a", "F32", {1}, x).bytes()),
              HasSubstr("'a' stands twice"));
}

}  // namespace
}  // namespace tilewright::weights
