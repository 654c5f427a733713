// From the nodes of a model to specs.
#include <gmock/gmock.h>

#include "tests/cli/models/extracted.h"

namespace tilewright::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(OnnxLayers, EqualWorkIsCounted) {
  OnnxFile file;
  file.input("x", {2, 3, 8}).weight("w", {8, 8}).weight("v", {8, 8}).output("z");
  file.node("MatMul", {"x", "w"}, {"y"}).node("MatMul", {"y", "v"}, {"z"});
  cli::ModelWorkloads all = extracted(file);
  EXPECT_THAT(specs_of(all), ElementsAre("2 matmul:m=6,n=8,k=8"));
  EXPECT_THAT(all.workloads[0].nodes, ElementsAre("make_y", "make_z"));
  EXPECT_EQ(all.workloads[0].spec,
            R"({"op":"matmul","m":6,"n":8,"k":8,"name":"make_y","count":2})");
}

TEST(OnnxLayers, ProductsOfEveryKind) {
  OnnxFile file;
  file.input("x", {2, 4, 3, 8}).input("k", {2, 4, 5, 8}).input("a", {8, 3}).weight("w", {7, 8});
  file.weight("c", {7}).weight("column", {8});
  file.node("Transpose", {"k"}, {"kt"}, {wholes("perm", {0, 1, 3, 2})});
  file.node("MatMul", {"x", "kt"}, {"scores"});
  file.node("Gemm", {"a", "w", "c"}, {"g"}, {whole("transA", 1), whole("transB", 1)});
  file.node("MatMul", {"x", "column"}, {"v"});
  file.node("FusedMatMul", {"x", "k"}, {"f"}, {whole("transB", 1), real("alpha", 0.5f)},
            kMicrosoft);
  cli::ModelWorkloads all = extracted(file);
  EXPECT_THAT(specs_of(all),
              ElementsAre("2 matmul:m=3,n=5,k=8,batch=8,trans_b=true",
                          "1 matmul:m=3,n=7,k=8,trans_a=true,trans_b=true,epilogue=[bias]",
                          "1 matmul:m=24,n=1,k=8"));
  EXPECT_THAT(all.left_out, IsEmpty()) << "the product transposes by itself";
  EXPECT_THAT(
      all.workloads[0].notes,
      ElementsAre("B is calculated: it is packed in each run",
                  "B is calculated: it is packed in each run; A is multiplied by alpha = 0.5 "
                  "before"));
}

TEST(OnnxLayers, WhatFollowsBecomesTheEpilogue) {
  OnnxFile file;
  file.input("x", {4, 8}).input("d", {4, 6}).weight("w", {8, 6}).weight("b", {6}).output("y");
  file.node("MatMul", {"x", "w"}, {"a"}).node("Add", {"b", "a"}, {"s"}).node("Relu", {"s"}, {"r"});
  file.node("Add", {"r", "d"}, {"y"});
  EXPECT_THAT(specs(file), ElementsAre("1 matmul:m=4,n=6,k=8,epilogue=[bias,relu,add]"));
}

TEST(OnnxLayers, FunctionsInSeveralNodesAreOne) {
  // x sigmoid(x), and gelu with its half in each of three places.
  OnnxFile silu;
  silu.input("x", {4, 8}).weight("w", {8, 6}).node("MatMul", {"x", "w"}, {"a"});
  silu.node("Sigmoid", {"a"}, {"s"}).node("Mul", {"a", "s"}, {"y"}).output("y");
  EXPECT_THAT(specs(silu), ElementsAre("1 matmul:m=4,n=6,k=8,epilogue=[silu]"));
  for (int half : {0, 1, 2}) {
    OnnxFile gelu;
    gelu.input("x", {4, 8}).number("root", 1.41421356f).number("one", 1).number("half", 0.5f);
    gelu.weight("w", {8, 6}).node("MatMul", {"x", "w"}, {"a"});
    if (half == 0) gelu.node("Mul", {"half", "a"}, {"h"});
    gelu.node("Div", {"a", "root"}, {"d"})
        .node("Erf", {"d"}, {"e"})
        .node("Add", {"e", "one"}, {"o"});
    if (half == 0) gelu.node("Mul", {"h", "o"}, {"y"});
    if (half == 1) gelu.node("Mul", {"o", "half"}, {"h"}).node("Mul", {"a", "h"}, {"y"});
    if (half == 2) gelu.node("Mul", {"a", "o"}, {"h"}).node("Mul", {"h", "half"}, {"y"});
    gelu.output("y");
    EXPECT_THAT(specs(gelu), ElementsAre("1 matmul:m=4,n=6,k=8,epilogue=[gelu]")) << half;
  }
}

TEST(OnnxLayers, AFunctionWhoseInsideIsUsedIsNotFused) {
  OnnxFile file;
  file.input("x", {4, 8}).weight("w", {8, 6}).node("MatMul", {"x", "w"}, {"a"});
  file.node("Relu", {"a"}, {"y"}).output("y").output("a");
  EXPECT_THAT(specs(file),
              ElementsAre("1 matmul:m=4,n=6,k=8", "1 elementwise:shape=[4,6],fn=relu"));
}

TEST(OnnxLayers, NormalizationsInSeveralNodesAreOne) {
  OnnxFile file;
  file.input("x", {2, 3, 8})
      .number("two", 2)
      .number("eps", 1e-6f)
      .weight("g", {8})
      .weight("b", {8});
  file.node("Pow", {"x", "two"}, {"p"}).node("ReduceMean", {"p"}, {"m"}, {wholes("axes", {-1})});
  file.node("Add", {"m", "eps"}, {"e"}).node("Sqrt", {"e"}, {"r"}).node("Div", {"x", "r"}, {"d"});
  file.node("Mul", {"g", "d"}, {"y"});
  file.node("ReduceMean", {"y"}, {"m2"}, {wholes("axes", {2})}).node("Sub", {"y", "m2"}, {"s2"});
  file.node("Mul", {"s2", "s2"}, {"p2"}).node("ReduceMean", {"p2"}, {"v2"}, {wholes("axes", {-1})});
  file.node("Add", {"v2", "eps"}, {"e2"}).node("Sqrt", {"e2"}, {"r2"});
  file.node("Reciprocal", {"r2"}, {"i2"}).node("Mul", {"s2", "i2"}, {"n2"});
  file.node("Mul", {"n2", "g"}, {"g2"}).node("Add", {"g2", "b"}, {"z"}).output("z");
  cli::ModelWorkloads all = extracted(file);
  ASSERT_EQ(all.workloads.size(), 2u);
  EXPECT_THAT(specs_of(all)[0], HasSubstr("1 rms_norm:m=6,n=8,eps="));
  EXPECT_THAT(specs_of(all)[0], HasSubstr("affine=true"));
  EXPECT_THAT(specs_of(all)[1], HasSubstr("1 layer_norm:m=6,n=8,eps="));
}

TEST(OnnxLayers, ConvolutionsOfEveryKind) {
  OnnxFile file;
  file.input("x", {1, 8, 10, 12}).input("line", {1, 4, 20});
  file.weight("w", {16, 8, 3, 3}).weight("b", {16}).weight("depth", {16, 1, 3, 3});
  file.weight("grouped", {6, 8, 1, 1}).weight("back", {16, 5, 4, 4}).weight("w1", {6, 4, 5});
  file.weight("wide", {8, 8, 3, 5});
  file.node("Conv", {"x", "w", "b"}, {"c"},
            {wholes("pads", {1, 1, 1, 1}), wholes("strides", {2, 2}), whole("group", 1)});
  file.node("Relu", {"c"}, {"r"});
  file.node("Conv", {"r", "depth"}, {"d"}, {whole("group", 16), words("auto_pad", "SAME_UPPER")});
  file.node("Conv", {"d", "grouped"}, {"g"}, {whole("group", 2)});
  file.node("ConvTranspose", {"r", "back"}, {"t"},
            {wholes("strides", {2, 2}), wholes("pads", {1, 1, 1, 1})});
  file.node("Conv", {"line", "w1"}, {"l"}, {wholes("dilations", {2})});
  file.node("Conv", {"x", "wide"}, {"o"}, {wholes("pads", {0, 2, 1, 2})});
  file.output("r").output("d");
  cli::ModelWorkloads all = extracted(file);
  EXPECT_THAT(specs_of(all),
              ElementsAre("1 conv2d:n=1,h=10,w=12,ci=8,co=16,kernel=3,stride=2,pad=1,layout=nchw,"
                          "epilogue=[bias,relu]",
                          "1 conv2d:n=1,h=5,w=6,ci=16,co=16,kernel=3,pad=1,groups=16,layout=nchw",
                          "1 conv2d:n=1,h=5,w=6,ci=16,co=6,kernel=1,groups=2,layout=nchw",
                          "1 conv2d_transpose:n=1,h=5,w=6,ci=16,co=5,kernel=4,stride=2,pad=1",
                          "1 conv1d:n=1,l=20,ci=4,co=6,kernel=5,dilation=2,layout=nchw",
                          "1 conv2d:n=1,h=11,w=12,ci=8,co=8,kernel=[3,5],pad=[0,2],layout=nchw"));
  EXPECT_THAT(all.workloads[5].notes, ElementsAre("X has 1 zeros behind along axis 2"));
  EXPECT_THAT(specs(file, {}, {.channels_last = true})[1],
              HasSubstr("1 depthwise_conv2d:n=1,h=5,w=6,c=16,kernel=3,pad=1"));
}

TEST(OnnxLayers, AFixedBatchNormalizationGoesIntoTheConvolution) {
  OnnxFile file;
  file.input("x", {1, 4, 5, 5}).weight("w", {6, 4, 1, 1}).weight("s", {6}).weight("b", {6});
  file.weight("mean", {6}).weight("var", {6}).node("Conv", {"x", "w"}, {"c"});
  file.node("BatchNormalization", {"c", "s", "b", "mean", "var"}, {"n"});
  file.node("Relu", {"n"}, {"y"}).output("y");
  cli::ModelWorkloads all = extracted(file);
  EXPECT_THAT(specs_of(all), ElementsAre("1 conv2d:n=1,h=5,w=5,ci=4,co=6,kernel=1,layout=nchw,"
                                         "epilogue=[bias,relu]"));
  EXPECT_THAT(all.workloads[0].notes,
              ElementsAre("W and bias take in BatchNormalization 'make_n'"));
}

TEST(OnnxLayers, RowsAndReductions) {
  OnnxFile file;
  file.input("x", {2, 3, 8}).weight("g", {8}).weight("b", {8}).weight("table", {11, 8});
  file.input("ids", {2, 3}, kInt64).input("image", {1, 4, 5, 5});
  file.node("Softmax", {"x"}, {"s"});
  file.node("LayerNormalization", {"x", "g", "b"}, {"n"}, {real("epsilon", 0.5f)});
  file.node("SimplifiedLayerNormalization", {"x", "g"}, {"r"}, {real("epsilon", 0.25f)});
  file.node("SkipLayerNormalization", {"x", "n", "g", "b"}, {"k", "", "", "sum"},
            {real("epsilon", 0.5f)}, kMicrosoft);
  file.node("ReduceMax", {"x"}, {"m"}, {wholes("axes", {1}), whole("keepdims", 0)});
  file.node("ReduceL2", {"x"}, {"l2"}, {wholes("axes", {-1, -2})});
  file.node("GlobalAveragePool", {"image"}, {"p"});
  file.node("Gather", {"table", "ids"}, {"e"});
  EXPECT_THAT(
      specs(file),
      ElementsAre("1 softmax:m=6,n=8", "2 layer_norm:m=6,n=8,eps=0.5,affine=true",
                  "1 rms_norm:m=6,n=8,eps=0.25,affine=true", "1 elementwise:shape=[6,8],fn=add",
                  "1 reduce:shape=[2,3,8],axes=[1],kind=max", "1 norm:b=2,m=3,n=8",
                  "1 reduce:shape=[1,4,5,5],axes=[2,3],kind=mean",
                  "1 gather:rows=11,cols=8,index=6"));
}

// Old versions of operators take as attributes what new ones take as inputs, and flatten rows.
TEST(OnnxLayers, OldAndNewOperatorSetsSayTheSame) {
  OnnxFile old(11), fresh(18);
  old.input("x", {2, 3, 8}).node("ReduceSum", {"x"}, {"a"}, {wholes("axes", {2})});
  old.node("Unsqueeze", {"a"}, {"u"}, {wholes("axes", {0})}).node("Relu", {"u"}, {"y"});
  old.node("Softmax", {"x"}, {"s"});
  fresh.input("x", {2, 3, 8}).integers("two", {2}).integers("zero", {0});
  fresh.node("ReduceSum", {"x", "two"}, {"a"}).node("Unsqueeze", {"a", "zero"}, {"u"});
  fresh.node("Relu", {"u"}, {"y"}).node("Softmax", {"x"}, {"s"});
  EXPECT_THAT(specs(old), ElementsAre("1 reduce:shape=[2,3,8],axes=[2],kind=sum",
                                      "1 elementwise:shape=[6,1],fn=relu", "1 softmax:m=2,n=24"));
  EXPECT_THAT(specs(fresh), ElementsAre("1 reduce:shape=[2,3,8],axes=[2],kind=sum",
                                        "1 elementwise:shape=[6,1],fn=relu", "1 softmax:m=6,n=8"));
}

// Both branches name a value "t" and a constant "w"; the result of If goes on into a product.
TEST(OnnxLayers, BranchesAreEntered) {
  OnnxFile yes, no, file;
  yes.weight("w", {8, 16}).node("MatMul", {"x", "w"}, {"t"}).node("Relu", {"t"}, {"y"}).output("y");
  no.weight("w", {8, 16}).node("Tanh", {"x"}, {"t"}).node("MatMul", {"t", "w"}, {"y"}).output("y");
  file.input("x", {"n", 8}).input("which", {}, 9).weight("v", {16, 4}).output("out");
  file.node("If", {"which"}, {"y"},
            {yes.as_attribute("then_branch"), no.as_attribute("else_branch")});
  file.node("MatMul", {"y", "v"}, {"out"});
  cli::ModelWorkloads all = extracted(file, {{"n", {1, 32}}});
  EXPECT_THAT(specs_of(all), testing::UnorderedElementsAre(
                                 "1 matmul:m=1..32,n=16,k=8,epilogue=[relu]",
                                 "1 elementwise:shape=[1..32,8],fn=tanh",
                                 "1 matmul:m=1..32,n=16,k=8", "1 matmul:m=1..32,n=4,k=16"));
  for (const cli::ModelWorkload& w : all.workloads) {
    const bool outside = w.nodes[0] == "make_out";
    EXPECT_EQ(w.notes.size(), outside ? 0u : 1u) << w.nodes[0];
    if (outside) continue;
    EXPECT_EQ(w.notes[0], "in a branch of If 'make_y', which may not run");
    EXPECT_EQ(w.nodes[0].rfind("make_y/", 0), 0u) << w.nodes[0];
  }
  ASSERT_EQ(all.left_out.size(), 1u);
  EXPECT_EQ(all.left_out[0].reason,
            "it runs one of its branches, whose nodes count for themselves");
}

// A body's inputs have the shapes that the model declares; a body within a body is entered, too.
TEST(OnnxLayers, BodiesOfLoopsAreEntered) {
  OnnxFile inner, body, file;
  inner.node("MatMul", {"state", "w"}, {"r"}).output("r");
  body.input("i", {}, kInt64)
      .input("go", {}, 9)
      .input("state", {"n", 8})
      .input("loose", {"other", 8});
  body.node("If", {"go"}, {"next"},
            {inner.as_attribute("then_branch"), inner.as_attribute("else_branch")});
  body.node("Softmax", {"loose"}, {"s"}).output("go").output("next").output("s");
  file.input("x", {"n", 8}).weight("w", {8, 8}).integers("times", {4}).output("y");
  file.node("Loop", {"times", "", "x", "x"}, {"y", "z"}, {body.as_attribute("body")});
  cli::ModelWorkloads all = extracted(file, {{"n", {1, 32}}});
  // A carried value has the shape of its first one, whatever the body calls its sizes.
  EXPECT_THAT(specs_of(all), ElementsAre("2 matmul:m=1..32,n=8,k=8", "1 softmax:m=1..32,n=8"));
  EXPECT_EQ(all.workloads[0].notes[0],
            "in the body of Loop 'make_y', which may run any number of times; in a branch of If "
            "'make_next', which may not run");
  std::vector<std::string> reasons;
  for (const cli::ModelLeftOut& l : all.left_out) reasons.push_back(l.op + ": " + l.reason);
  EXPECT_THAT(reasons, testing::UnorderedElementsAre(
                           "If: it runs one of its branches, whose nodes count for themselves",
                           "Loop: it repeats its body, whose nodes count once each"));
}

TEST(OnnxLayers, FunctionsOfElements) {
  OnnxFile file;
  file.input("x", {2, 3, 8})
      .input("row", {8})
      .input("mask", {2, 1, 8})
      .input("h", {2, 3}, kFloat16);
  file.number("scale", 0.125f).number("six", 6).number("zero", 0);
  file.node("Add", {"x", "x"}, {"a"}).node("Mul", {"x", "row"}, {"m"});
  file.node("Sub", {"mask", "x"}, {"s"}).node("Mul", {"scale", "x"}, {"c"});
  file.node("Clip", {"x", "zero", "six"}, {"l"}).node("Cast", {"h"}, {"f"}, {whole("to", 1)});
  EXPECT_THAT(specs(file),
              ElementsAre("1 elementwise:shape=[6,8],fn=add",
                          "1 expr:expr=\"Y[i0, i1] = X[i0, i1] * Z[i1]\",dims.i0=6,dims.i1=8",
                          "1 expr:expr=\"Y[i0, i1, i2] = X[i0, i2] - Z[i0, i1, i2]\",dims.i0=2,"
                          "dims.i1=3,dims.i2=8",
                          "1 expr:expr=\"Y[i0] = 0.125 * X[i0]\",dims.i0=48",
                          "1 expr:expr=\"Y[i0] = min(max(X[i0], 0), 6)\",dims.i0=48",
                          "1 elementwise:shape=[2,3],fn=copy,dtype=f16,out=f32"));
}

}  // namespace
}  // namespace tilewright::test
