#include "runtime/tensor/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/files.h"
#include "runtime/tensor/element.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

using test::error_of;
using testing::HasSubstr;

// A file as NumPy writes it, with any header and data.
std::string npy(const std::string& header, const std::string& data, char major = 1) {
  std::string file = "\x93NUMPY";
  file += {major, '\0', static_cast<char>(header.size()), static_cast<char>(header.size() >> 8)};
  if (major > 1) file += {'\0', '\0'};
  return file + header + data;
}

std::string refusal_npy(const std::string& file) {
  return error_of<FileError>([&] { parse_npy(file, "a.npy"); });
}

const std::string kGood = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";

TEST(Npy, ReadsWhatNumpyWrites) {
  // numpy.save of numpy.array([[1, 2, 3], [4, 5, 6]], dtype='<i2')
  std::string header = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }";
  header.append(117 - header.size(), ' ');
  NpyArray a = parse_npy(npy(header + "\n", std::string("\1\0\2\0\3\0\4\0\5\0\6\0", 12)), "a.npy");
  EXPECT_EQ(a.elem, ElemType::i16);
  EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 3}));
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(a.get(i), static_cast<double>(i + 1));
}

TEST(Npy, EveryVersionAndShape) {
  std::string data(24, '\0');
  for (char version : {1, 2, 3}) EXPECT_EQ(parse_npy(npy(kGood, data, version), "a").count(), 6);
  EXPECT_EQ(
      parse_npy(npy("{'descr': '<f8', 'fortran_order': False, 'shape': ()}", data.substr(16)), "a")
          .count(),
      1);
  EXPECT_EQ(parse_npy(npy("{\"shape\":(6,),'fortran_order':True,'descr':'<f4'}", data), "a").shape,
            std::vector<int64_t>{6})
      << "one axis has no order";
}

class NpyTypes : public testing::TestWithParam<ElemType> {};

TEST_P(NpyTypes, SurviveAFile) {
  test::TempDir dir;
  HostArray array("A", GetParam(), {3, 5});
  array.fill(SeededValues(1, "A", GetParam()));
  write_npy(dir.path("a.npy"), array);
  NpyArray read = read_npy(dir.path("a.npy"));
  EXPECT_EQ(read.shape, array.shape());
  HostArray back("A", GetParam(), {3, 5});
  assign(&back, read, "a.npy");
  for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(back.get(i), array.get(i)) << i;
  std::string bytes = *read_file(dir.path("a.npy"));
  EXPECT_EQ((bytes.size() - read.bytes.size()) % 64, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, NpyTypes,
                         testing::Values(ElemType::f64, ElemType::f32, ElemType::f16,
                                         ElemType::bf16, ElemType::f8e4m3, ElemType::nf4,
                                         ElemType::i64, ElemType::i32, ElemType::i16, ElemType::i8,
                                         ElemType::i4, ElemType::i1, ElemType::u64, ElemType::u32,
                                         ElemType::u16, ElemType::u8, ElemType::u4,
                                         ElemType::boolean),
                         [](const auto& test) { return to_string(test.param); });

TEST(Npy, RefusesWhatItCannotRead) {
  std::string data(24, '\0');
  EXPECT_EQ(refusal_npy(npy(kGood, data)), "");
  EXPECT_EQ(refusal_npy("PK\3\4"), "a.npy: not a .npy file");
  EXPECT_EQ(refusal_npy(""), "a.npy: not a .npy file");
  EXPECT_THAT(refusal_npy(npy(kGood, data, 4)), HasSubstr("version 4.0; versions 1.0 to 3.0"));
  EXPECT_THAT(refusal_npy(npy(kGood, data).substr(0, 9)), HasSubstr("ends within its header"));
  EXPECT_THAT(refusal_npy(npy(kGood, data).substr(0, 30)), HasSubstr("ends within its header"));
  EXPECT_EQ(refusal_npy(npy(kGood, data.substr(1))),
            "a.npy: holds 23 bytes of data; f32 [2, 3] needs 24");
  EXPECT_THAT(refusal_npy(npy(kGood, data + "x")), HasSubstr("holds 25 bytes"));
  auto with = [&](const std::string& from, const std::string& to) {
    std::string header = kGood;
    header.replace(header.find(from), from.size(), to);
    return refusal_npy(npy(header, data));
  };
  EXPECT_THAT(with("False", "True"), HasSubstr("Fortran order; convert with numpy.ascontiguous"));
  EXPECT_THAT(with("<f4", ">f4"), HasSubstr("big-endian type '>f4'; convert with"));
  EXPECT_THAT(with("<f4", "<c8"), HasSubstr("type '<c8' is not supported; supported: f8, f4"));
  EXPECT_THAT(with("'<f4'", "[('x', '<f4')]"), HasSubstr("structured types"));
  EXPECT_THAT(with("'shape'", "'form'"), HasSubstr("unknown key 'form'"));
  EXPECT_THAT(with("(2, 3)", "(2, -3)"), HasSubstr("expected an extent"));
  EXPECT_THAT(with("(2, 3)", "(4294967296, 4294967296)"), HasSubstr("overflows"));
  EXPECT_THAT(with("(2, 3), }", ""), HasSubstr("damaged header"));
  EXPECT_THAT(with("'shape': (2, 3), ", ""), HasSubstr("'shape' is missing"));
  EXPECT_THAT(with("False", "maybe"), HasSubstr("expected True or False"));
}

TEST(Npy, NamesTheFileThatIsNotThere) {
  EXPECT_EQ(error_of<FileError>([] { read_npy("/no/such.npy"); }),
            "/no/such.npy: cannot be read: No such file or directory");
  HostArray array("A", ElemType::f32, {1});
  EXPECT_EQ(error_of<FileError>([&] { write_npy("/no/such/dir.npy", array); }),
            "/no/such/dir.npy: cannot be written");
}

NpyArray floats(std::vector<int64_t> shape, const std::vector<float>& values) {
  NpyArray a{ElemType::f32, std::move(shape), std::string(values.size() * 4, '\0')};
  for (size_t i = 0; i < values.size(); ++i) {
    store_element(ElemType::f32, a.bytes.data(), static_cast<int64_t>(i), values[i]);
  }
  return a;
}

TEST(NpyAssign, RoundsFloatsToNearestEven) {
  HostArray array("A", ElemType::bf16, {2});
  assign(&array, floats({2}, {1.00390625f, 1.01171875f}), "a.npy");
  EXPECT_EQ(array.get(0), 1.0);
  EXPECT_EQ(array.get(1), 1.015625);
}

TEST(NpyAssign, LeadingOnesMayBeLeftOut) {
  HostArray array("A", ElemType::f32, {1, 1, 2});
  assign(&array, floats({2}, {3, 4}), "a.npy");
  EXPECT_EQ(array.get(1), 4);
}

TEST(NpyAssign, RefusesWhatDoesNotFit) {
  HostArray array("B", ElemType::u4, {2});
  auto refusal_of = [&](const NpyArray& values) {
    return error_of<FileError>([&] { assign(&array, values, "b.npy"); });
  };
  EXPECT_EQ(refusal_of(floats({3}, {1, 2, 3})),
            "b.npy: shape [3] does not fit operand 'B', which is u4[2]");
  EXPECT_EQ(refusal_of(floats({2}, {1, 2})),
            "b.npy: f32 does not fit operand 'B', which is u4[2]; convert it to integers");
  EXPECT_EQ(refusal_of({ElemType::i8, {2}, "\x0f\x10"}),
            "b.npy: element 1 is 16, which u4 cannot hold");
  EXPECT_EQ(refusal_of({ElemType::i8, {2}, "\x0f\x01"}), "");
}

}  // namespace
}  // namespace tilewright
