// tilewright.QuantizedLinear: stored weights of the backend of torch.compile in whole models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/graph/imports.h"

namespace tilewright::graph {
namespace {

using test::OnnxFile;
using test::whole;
using test::words;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kHalfCarrier = 5;  // ONNX's number of i16

// Rows (0, 1), (2, 3), (4, 5), (6, 15) of codes in two groups.
OnnxFile stored_product(const std::string& keys, const std::vector<std::string>& more,
                        std::vector<std::string> sizes = {whole("K", 4), whole("N", 2)}) {
  std::vector<std::string> inputs = {"x", "w"};
  inputs.insert(inputs.end(), more.begin(), more.end());
  sizes.push_back(words("keys", keys));
  return OnnxFile()
      .input("x", {1, 4})
      .constant("w", test::kUint8, {4, 1}, byte_text({0x10, 0x32, 0x54, 0xf6}))
      .floats("s", {2, 2}, {1, 2, 10, 20})
      .constant("z", test::kUint8, {2, 1}, byte_text({0x21, 0x08}))
      .constant("half", kHalfCarrier, {2, 2},
                test::raw_text(std::vector<int16_t>{0x3800, 0, 0, 0x3c00}))
      .floats("b", {2}, {1000, 2000})
      .node("QuantizedLinear", inputs, {"y"}, sizes, "tilewright")
      .output("y");
}

const std::map<std::string, Bytes> kRowOfPowers = {{"x", elements({1, 10, 100, 1000})}};

TEST(ImportQuantizedLinear, CodesAreRowsOfK) {
  const OnnxFile file =
      stored_product("w.dtype=u4,w.group=2,w.zero=u4,w.scale=f32", {"s", "z", "b"});
  EXPECT_THAT(run(file, kRowOfPowers), ElementsAre(1000 + (-1 + 10) + 10 * (-400 - 2000),
                                                   2000 + 2 * (-1 + 10) + 20 * (500 + 15000)));
  EXPECT_THAT(imported(file).nodes[0].spec,
              HasSubstr("matmul:m=1,n=2,k=4,epilogue=[bias],w.dtype=u4,w.group=2,w.zero=u4"));
}

TEST(ImportQuantizedLinear, SignedCodesAndOneGroupOfAColumn) {
  OnnxFile file = stored_product("w.dtype=i4", {"column"});
  file.floats("column", {1, 2}, {1, 2});
  EXPECT_THAT(run(file, kRowOfPowers), ElementsAre(20 + 400 + 6000, 2 * (1 + 30 + 500 - 1000)));
}

TEST(ImportQuantizedLinear, IntegersMayCarryHalves) {
  const OnnxFile file = stored_product("w.dtype=u4,w.group=2,w.zero=f16", {"s", "half"});
  EXPECT_THAT(run(file, kRowOfPowers),
              ElementsAre((-0.5 + 15) + 10 * (400 + 6000), 2 * (1 + 30) + 20 * (400 + 14000)));
}

TEST(ImportQuantizedLinear, APatternOfFloats) {
  OnnxFile file;
  file.input("x", {1, 4})
      .floats("w", {4, 2}, {1, 0, 0, 2, 0, 3, 4, 0})
      .node("QuantizedLinear", {"x", "w"}, {"y"},
            {whole("K", 4), whole("N", 2), words("keys", "w.sparse=2:4")}, "tilewright")
      .output("y");
  EXPECT_THAT(run(file, kRowOfPowers), ElementsAre(4001, 320));
  EXPECT_THAT(imported(file).nodes[0].spec, HasSubstr("w.sparse=2:4"));
}

TEST(ImportQuantizedLinear, Refusals) {
  const auto refusal = [](const std::string& keys, const std::vector<std::string>& more,
                          const std::vector<std::string>& sizes = {whole("K", 4), whole("N", 2)}) {
    return import_refusal(stored_product(keys, more, sizes));
  };
  EXPECT_THAT(refusal("w.dtype=u8", {"s"}),
              HasSubstr("its codes are 4 bytes; expected 8, 4x2 of u8"));
  EXPECT_THAT(refusal("w.dtype=u4,w.group=4", {"s"}),
              HasSubstr("its scales are 16 bytes; expected 8, 1x2 of f32"));
  EXPECT_THAT(refusal("w.dtype=u4,w.group=2,w.zero=u9", {"s", "z"}),
              HasSubstr("its zero points are of the unknown type 'u9'"));
  EXPECT_THAT(refusal("w.dtype=u4,m=7", {"s"}),
              HasSubstr("its key 'm=7' says nothing of a weight; expected a.dtype, w.dtype"));
  EXPECT_THAT(refusal("w.dtype", {"s"}), HasSubstr("its key 'w.dtype' says nothing"));
  EXPECT_THAT(refusal("w.dtype=u4,w.group=0", {"s"}),
              HasSubstr("its w.group is '0'; expected a number"));
  EXPECT_THAT(refusal("w.dtype=u4,w.group=2", {"x"}), HasSubstr("its scales are calculated"));
  EXPECT_THAT(refusal("w.dtype=u4", {"s"}, {whole("K", 3), whole("N", 2)}),
              HasSubstr("its rows and columns do not meet"));
  EXPECT_THAT(refusal("w.dtype=u4", {"s"}, {whole("K", 4)}),
              HasSubstr("K=4, N=0; expected numbers from 1 to 268435456"));
  EXPECT_THAT(refusal("w.dtype=u4", {"s"}, {whole("K", 4), whole("N", INT64_MAX)}),
              HasSubstr("expected numbers from 1 to"));
}

}  // namespace
}  // namespace tilewright::graph
