// Operators of com.microsoft in whole models, and refusals that name where a size begins to be unknown.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/imports.h"

namespace tilewright::graph {
namespace {

using test::OnnxFile;
using test::whole;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kNibbles = 2;  // ONNX's number of u8, whose elements hold two

// Two columns of four codes in groups of two, with or without zero points.
OnnxFile product_of_nibbles(bool shifted) {
  OnnxFile file;
  file.input("x", {1, 4})
      .constant("w", kNibbles, {2, 2, 1}, byte_text({0x98, 0x0f, 0x8a, 0x19}))
      .floats("s", {4}, {1, 2, 10, 20})
      .constant("z", kNibbles, {2, 1}, byte_text({0x51, 0x08}))
      .node("MatMulNBits",
            shifted ? std::vector<std::string>{"x", "w", "s", "z"}
                    : std::vector<std::string>{"x", "w", "s"},
            {"y"}, {whole("K", 4), whole("N", 2), whole("bits", 4), whole("block_size", 2)},
            "com.microsoft")
      .output("y");
  return file;
}

TEST(ImportContrib, CodesOfFourBitsStay) {
  // Columns less 8: (0, 1, 7, -8) and (2, 0, 1, -7).
  const OnnxFile file = product_of_nibbles(false);
  EXPECT_THAT(run(file, {{"x", elements({1, 10, 100, 1000})}}),
              ElementsAre(10 + 2 * (700 - 8000), 20 + 20 * (100 - 7000)));
  EXPECT_THAT(imported(file).nodes[0].spec, HasSubstr("w.dtype=i4,w.group=2"));
}

TEST(ImportContrib, ZeroPointsArePackedByColumns) {
  // Columns (8, 9, 15, 0) less 1 and 5, and (10, 8, 9, 1) less 8 and 0.
  const OnnxFile file = product_of_nibbles(true);
  EXPECT_THAT(run(file, {{"x", elements({1, 10, 100, 1000})}}),
              ElementsAre(7 + 80 + 2 * (1000 - 5000), 20 + 20 * (900 + 1000)));
  EXPECT_THAT(imported(file).nodes[0].spec, HasSubstr("w.dtype=u4,w.group=2"));
}

TEST(ImportContrib, ReorderedRowsAreRefused) {
  OnnxFile file;
  file.input("x", {1, 4})
      .constant("w", kNibbles, {1, 2, 1}, byte_text({0, 0}))
      .floats("s", {2}, {1, 2})
      .constant("g", 6, {4}, test::raw_text(std::vector<int32_t>{0, 1, 0, 1}))
      .node("MatMulNBits", {"x", "w", "s", "", "g"}, {"y"},
            {whole("K", 4), whole("N", 1), whole("bits", 4), whole("block_size", 2)},
            "com.microsoft")
      .output("y");
  EXPECT_THAT(import_refusal(file), HasSubstr("(g_idx); expected groups of neighbours"));
}

TEST(ImportContrib, ShapesThatAreNotKnownAreNamedWhereTheyBegin) {
  OnnxFile file;
  file.input("x", {"n", 4})
      .input("k", {1}, test::kInt64)
      .node("TopK", {"x", "k"}, {"most", "places"}, {whole("axis", 0)})
      .node("Transpose", {"places"}, {"turned"})
      .node("Cast", {"turned"}, {"y"}, {whole("to", 1)})
      .output("y");
  EXPECT_THAT(import_refusal(file, {{"n", {1, 8}}}),
              HasSubstr("it begins at 'make_most' (TopK): the run calculates the size 'k[0]', and "
                        "nothing says its most"));
}

}  // namespace
}  // namespace tilewright::graph
