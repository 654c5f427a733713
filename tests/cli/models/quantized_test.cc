// Quantized products of models, and attention in one node, as specs.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/cli/models/extracted.h"

namespace tilewright::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A product with a weight of `bits` in blocks of 16 along k = 64; its inputs behind the scales.
OnnxFile nbits(int64_t bits, const std::vector<std::string>& more,
               std::vector<std::string> attributes = {}) {
  attributes.insert(attributes.end(),
                    {whole("K", 64), whole("N", 24), whole("bits", bits), whole("block_size", 16)});
  std::vector<std::string> inputs = {"x", "w", "scales"};
  inputs.insert(inputs.end(), more.begin(), more.end());
  const int64_t blob = 16 * bits / 8;
  OnnxFile file;
  file.input("x", {2, "seq", 64}).output("y");
  file.constant("w", kUint8, {24, 4, blob}, std::string(static_cast<size_t>(24 * 4 * blob), '\1'));
  file.weight("scales", {96}).weight("bias", {24});
  file.constant("zeros", kUint8, {24, 2}, std::string(48, '\1'));
  file.constant("halves", kFloat16, {24, 4}, std::string(192, '\0')).weight("floats", {24, 4});
  return file.node("MatMulNBits", inputs, {"y"}, attributes, kMicrosoft);
}

const Dims kSeq = {{"seq", {1, 8}}};

TEST(OnnxQuantized, WeightsOfFewBits) {
  EXPECT_THAT(specs(nbits(4, {}), kSeq),
              ElementsAre("1 matmul:m=2..16,n=24,k=64,w.dtype=i4,w.group=16"));
  EXPECT_THAT(specs(nbits(8, {"", "", "bias"}), kSeq),
              ElementsAre("1 matmul:m=2..16,n=24,k=64,epilogue=[bias],w.dtype=i8,w.group=16"));
  EXPECT_THAT(specs(nbits(4, {"zeros"}), kSeq),
              ElementsAre("1 matmul:m=2..16,n=24,k=64,w.dtype=u4,w.group=16,w.zero=u4"));
  EXPECT_THAT(specs(nbits(2, {"halves"}), kSeq),
              ElementsAre("1 matmul:m=2..16,n=24,k=64,w.dtype=u2,w.group=16,w.zero=f16"));
  EXPECT_THAT(specs(nbits(4, {}, {whole("accuracy_level", 4)}), kSeq),
              ElementsAre("1 matmul:m=2..16,n=24,k=64,a.dtype=i8,w.dtype=i4,w.group=16"));
  EXPECT_THAT(specs(nbits(4, {}, {whole("accuracy_level", 1)}), kSeq),
              ElementsAre("1 matmul:m=2..16,n=24,k=64,w.dtype=i4,w.group=16"));
}

TEST(OnnxQuantized, WeightsOfFewBitsThatFitNoSpec) {
  EXPECT_EQ(reason(nbits(3, {}), kSeq), "its weights have 3 bits; expected 2, 4 or 8");
  EXPECT_EQ(reason(nbits(4, {"floats"}), kSeq),
            "its zero points are f32; expected packed integers or f16");
  EXPECT_EQ(reason(nbits(4, {"", "zeros"}), kSeq), "its rows of weights are reordered (g_idx)");
  EXPECT_EQ(reason(OnnxFile()
                       .input("x", {2, 64})
                       .weight("s", {8})
                       .node("MatMulNBits", {"x", "s", "s"}, {"y"}, {}, kMicrosoft)),
            "K=0, N=0, block_size=0; expected numbers of 1 or more");
}

TEST(OnnxQuantized, DequantizedWeightsStayStored) {
  OnnxFile file(21);
  file.input("x", {4, 32}).output("z");
  file.constant("q", kInt8, {32, 16}, std::string(512, '\3')).weight("by_column", {16});
  file.constant("p", 21, {16, 32}, std::string(256, '\3')).weight("by_block", {16, 4});
  file.constant("five", 21, {16, 4}, std::string(32, '\x55'));
  file.node("DequantizeLinear", {"q", "by_column"}, {"w"}, {whole("axis", 1)});
  file.node("MatMul", {"x", "w"}, {"y"});
  file.node("DequantizeLinear", {"p", "by_block", "five"}, {"v"},
            {whole("axis", 1), whole("block_size", 8)});
  file.node("Gemm", {"x", "v"}, {"z"}, {whole("transB", 1)});
  cli::ModelWorkloads all = extracted(file);
  EXPECT_THAT(specs_of(all),
              ElementsAre("1 matmul:m=4,n=16,k=32,w.dtype=i8",
                          "1 matmul:m=4,n=16,k=32,trans_b=true,w.dtype=u4,w.group=8,w.zero=u4"));
  EXPECT_THAT(all.left_out, IsEmpty());
}

TEST(OnnxQuantized, IntegerProductsSayWhatIsOutside) {
  OnnxFile file;
  file.input("x", {4, 32}, kUint8).input("image", {1, 8, 6, 6}, kUint8);
  file.constant("w", kInt8, {32, 16}, std::string(512, '\3')).constant("zx", kUint8, {}, "\x80");
  file.constant("zero", kInt8, {}, std::string(1, '\0')).number("s", 0.5f);
  file.constant("k", kInt8, {4, 8, 1, 1}, std::string(32, '\1'));
  file.node("MatMulInteger", {"x", "w", "zx"}, {"a"});
  file.node("QLinearMatMul", {"x", "s", "zx", "w", "s", "zero", "s", "zx"}, {"b"});
  file.node("QLinearConv", {"image", "s", "zx", "k", "s", "zero", "s", "zx"}, {"c"});
  file.node("DynamicQuantizeLinear", {"f"}, {"q", "qs", "qz"});
  cli::ModelWorkloads all = extracted(file);
  EXPECT_THAT(specs_of(all), ElementsAre("2 matmul:m=4,n=16,k=32,dtype=u8,w.dtype=i8",
                                         "1 conv2d:n=1,h=6,w=6,ci=8,co=4,kernel=1,layout=nchw,"
                                         "dtype=u8,w.dtype=i8"));
  EXPECT_THAT(all.workloads[0].notes,
              ElementsAre("zero points are taken into account outside",
                          "zero points and the scaling to integers are applied outside"));
  ASSERT_EQ(all.left_out.size(), 1u);
  EXPECT_EQ(all.left_out[0].op, "DynamicQuantizeLinear");
  EXPECT_EQ(all.left_out[0].reason, "it quantizes for no product");
}

// x -> codes, which two products share; the first one has a bias.
OnnxFile dynamically_quantized(bool scaled_by_constants = true) {
  OnnxFile file;
  file.input("x", {4, 32}).input("other", {16}).output("y").output("z");
  file.constant("w", kInt8, {32, 16}, std::string(512, '\3')).weight("ws", {16});
  file.constant("v", kUint8, {32, 8}, std::string(256, '\3')).number("vs", 0.5f).weight("b", {16});
  file.constant("vz", kUint8, {}, "\x80");
  file.node("DynamicQuantizeLinear", {"x"}, {"q", "s", "zero"});
  file.node("Mul", {"s", scaled_by_constants ? "ws" : "other"}, {"sws"});
  file.node("Mul", {"vs", "s"}, {"svs"});
  file.node("MatMulInteger", {"q", "w", "zero"}, {"sums"});
  file.node("Cast", {"sums"}, {"floats"}, {whole("to", kFloat)});
  file.node("Mul", {"floats", "sws"}, {"scaled"}).node("Add", {"scaled", "b"}, {"y"});
  file.node("MatMulInteger", {"q", "v", "zero", "vz"}, {"sums2"});
  file.node("Cast", {"sums2"}, {"floats2"}, {whole("to", kFloat)});
  file.node("Mul", {"svs", "floats2"}, {"z"});
  return file;
}

TEST(OnnxQuantized, WhatIsQuantizedAsTheModelRunsIsQuantizedInTheKernel) {
  cli::ModelWorkloads all = extracted(dynamically_quantized());
  EXPECT_THAT(specs_of(all),
              ElementsAre("1 matmul:m=4,n=16,k=32,epilogue=[bias],a.dtype=i8,w.dtype=i8",
                          "1 matmul:m=4,n=8,k=32,a.dtype=i8,w.dtype=u8,w.zero=u8"));
  EXPECT_THAT(all.left_out, IsEmpty());
  ASSERT_EQ(all.workloads[0].notes.size(), 1u);
  EXPECT_THAT(all.workloads[0].notes[0],
              testing::StartsWith("each row of A is quantized by itself"));
}

TEST(OnnxQuantized, ProductsThatAreScaledOtherwiseStayInteger) {
  cli::ModelWorkloads all = extracted(dynamically_quantized(false));
  EXPECT_THAT(specs_of(all), testing::Contains(testing::HasSubstr("dtype=u8,w.dtype=i8")));
  EXPECT_THAT(specs_of(all), testing::Not(testing::Contains(testing::HasSubstr("a.dtype"))));
  const auto quantize =
      std::find_if(all.left_out.begin(), all.left_out.end(),
                   [](const cli::ModelLeftOut& l) { return l.op == "DynamicQuantizeLinear"; });
  ASSERT_NE(quantize, all.left_out.end());
  EXPECT_EQ(quantize->reason,
            "it quantizes for 'make_sums', which is no product with a constant that is scaled back "
            "by constants");
}

TEST(OnnxAttention, OneNodeIsTwoProductsAndASoftmax) {
  OnnxFile file(23);
  file.input("q", {2, 5, 64}).input("k", {2, 7, 32}).input("past", {2, 2, "past", 16});
  file.weight("w", {64, 192}).weight("b", {192});
  file.node("GroupQueryAttention", {"q", "k", "k", "past", "past"}, {"y", "pk", "pv"},
            {whole("num_heads", 4), whole("kv_num_heads", 2)}, kMicrosoft);
  file.node("Attention", {"q", "w", "b"}, {"z"}, {whole("num_heads", 4)}, kMicrosoft);
  EXPECT_THAT(
      specs(file, {{"past", {0 + 1, 11}}}),
      ElementsAre("1 matmul:m=10,n=6..16,k=16,batch=4,trans_b=true", "1 softmax:m=40,n=6..16",
                  "1 matmul:m=10,n=16,k=6..16,batch=4", "1 matmul:m=10,n=192,k=64,epilogue=[bias]",
                  "1 matmul:m=5,n=5,k=16,batch=8,trans_b=true", "1 softmax:m=40,n=5",
                  "1 matmul:m=5,n=16,k=5,batch=8"));
}

// Shapes that a model calculates, of sizes that are known only at launch.
TEST(OnnxShapes, CalculatedShapesKeepTheirRanges) {
  OnnxFile file;
  file.input("x", {"batch", "seq", 64}).weight("w", {64, 64}).output("y");
  file.integers("zero", {0}).integers("one", {1}).integers("four", {4}).integers("sixteen", {16});
  file.node("Shape", {"x"}, {"s"}).node("Gather", {"s", "zero"}, {"b"});
  file.node("Gather", {"s", "one"}, {"n"});
  file.node("Concat", {"b", "n", "four", "sixteen"}, {"heads"}, {whole("axis", 0)});
  file.node("MatMul", {"x", "w"}, {"p"}).node("Reshape", {"p", "heads"}, {"h"});
  file.node("Transpose", {"h"}, {"q"}, {wholes("perm", {0, 2, 1, 3})});
  file.node("Transpose", {"h"}, {"k"}, {wholes("perm", {0, 2, 3, 1})});
  file.node("MatMul", {"q", "k"}, {"scores"}).node("Softmax", {"scores"}, {"rows"});
  file.node("Mul", {"n", "four"}, {"all"})
      .node("Concat", {"b", "all", "zero"}, {"back"}, {whole("axis", 0)});
  file.node("Relu", {"rows"}, {"y"});
  cli::ModelWorkloads all = extracted(file, {{"batch", {1, 1}}, {"seq", {1, 512}}});
  EXPECT_THAT(
      specs_of(all),
      ElementsAre("1 matmul:m=1..512,n=64,k=64", "1 matmul:m=1..512,n=1..512,k=16,batch=4",
                  "1 softmax:m=4..2048,n=1..512", "1 elementwise:shape=[4..2048,1..512],fn=relu"));
  ASSERT_EQ(all.left_out.size(), 2u);
  EXPECT_EQ(all.left_out[0].node, "make_q");
  EXPECT_EQ(all.left_out[0].reason, "it moves elements and computes nothing");
}

TEST(OnnxShapes, WhatIsNotInferredIsTakenFromTheModelsNotes) {
  OnnxFile file;
  file.input("x", {2, "n"}).node("Unheard", {"x"}, {"y"}).note("y", {"n", 8}).weight("w", {8, 4});
  file.node("MatMul", {"y", "w"}, {"z"}).output("z");
  cli::ModelWorkloads all = extracted(file, {{"n", {3, 3}}});
  EXPECT_THAT(specs_of(all), ElementsAre("1 matmul:m=3,n=4,k=8"));
  EXPECT_EQ(all.left_out[0].reason, "there is no spec for this operator");
  OnnxFile without;
  without.input("x", {2, 3}).node("Unheard", {"x"}, {"y"}).weight("w", {8, 4});
  without.node("MatMul", {"y", "w"}, {"z"});
  EXPECT_THAT(reason(without), HasSubstr("there is no spec"));
}

TEST(OnnxShapes, SizesAreAskedForAndChecked) {
  OnnxFile file;
  file.input("x", {"batch", ""}).weight("w", {8, 4}).node("Relu", {"x"}, {"y"}).output("y");
  auto refused = [&](const Dims& dims) {
    try {
      extracted(file, dims);
    } catch (const UsageError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused({}),
            "m.onnx: the inputs have dimensions without sizes: batch (x, axis 0), x.1 (x, axis 1); "
            "give each a size, such as --dim 'batch=1', or a range, such as --dim "
            "'batch=1..512'");
  EXPECT_EQ(
      refused({{"batch", {1, 1}}, {"seq", {1, 8}}}),
      "--dim seq=1..8: the inputs of m.onnx have no dimension of that name; they have: batch, "
      "x.1");
  EXPECT_THAT(specs(file, {{"batch", {2, 2}}, {"x.1", {1, 8}}}),
              ElementsAre("1 elementwise:shape=[2,1..8],fn=relu"));
}

TEST(OnnxLayers, WhatFitsNoSpecHasAReason) {
  auto one = [](const std::string& op, const std::vector<std::string>& inputs,
                const std::vector<std::string>& attributes = {}) {
    OnnxFile file;
    file.input("x", {2, 3, 8}).input("z", {5, 3, 8}).input("image", {1, 4, 6, 6});
    file.input("one", {1, 3, 8}).input("bits", {2, 3}, 9).weight("w", {4, 4, 3, 3});
    file.weight("c", {3, 1}).weight("square", {8, 8}).input("rows", {3, 8});
    return file.node(op, inputs, {"y"}, attributes);
  };
  EXPECT_EQ(reason(one("Softmax", {"x"}, {whole("axis", 1)})),
            "its rows lie across axis 1, not along the last one");
  EXPECT_EQ(reason(one("MatMul", {"one", "x"})), "rows of 8 meet columns of 3");
  EXPECT_EQ(reason(one("Gemm", {"rows", "square", "c"})),
            "C is neither a constant row nor of the shape of the result");
  EXPECT_EQ(reason(one("Gelu", {"x"}, {words("approximate", "tanh")})),
            "its gelu is an approximation; that of specs is exact");
  EXPECT_EQ(reason(one("Gather", {"x", "x"}, {whole("axis", 1)})),
            "it takes elements along another axis than the first");
  EXPECT_EQ(reason(one("Cast", {"bits"}, {whole("to", 1)})),
            "'bits' is of bool, which no operand has");
  EXPECT_EQ(reason(one("ConvTranspose", {"image", "w"}, {wholes("output_padding", {1, 1})})),
            "its output is padded");
  EXPECT_EQ(reason(one("Conv", {"image", "w"}, {wholes("pads", {-1, 0, 0, 0})})),
            "its kernel, strides, dilations and pads are not such as were expected");
  EXPECT_EQ(reason(one("Pow", {"x", "z"})), "its exponent is no constant number");
  EXPECT_EQ(reason(one("Max", {"x", "x", "x"})), "it combines 3 tensors; expected 2");
  EXPECT_EQ(reason(one("MatMul", {"x"})), "it lacks an input, or an input lacks an axis");
  EXPECT_EQ(reason(one("Transpose", {"x"})), "it moves elements and computes nothing");
  EXPECT_EQ(reason(one("If", {"bits"}, {WireText().bytes(1, "then_branch").bytes(6, "").text()})),
            "it runs one of its branches, whose nodes count for themselves");
  EXPECT_EQ(reason(one("Loop", {"unknown"})), "there is no spec for this operator");
  EXPECT_EQ(reason(one("Relu", {"unknown"})), "the shape of 'unknown' is not known");
}

}  // namespace
}  // namespace tilewright::test
