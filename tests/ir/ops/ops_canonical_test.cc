// Canonical text, the inline form, and the examples of the table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/ops/operator.h"
#include "ir/ops/spec.h"

namespace tilewright {
namespace {

TEST(Canonical, IsSortedCompleteAndWithoutName) {
  EXPECT_EQ(canonical_text(parse_spec("matmul:n=3072,m=512,k=768,name=x")),
            R"({"acc":"f32","batch":1,"dtype":"f32","epilogue":[],"k":768,"m":512,"n":3072,)"
            R"("op":"matmul","out":"f32","trans_a":false,"trans_b":false})");
  EXPECT_EQ(canonical_text(parse_spec("conv1d:n=1,l=4..64,ci=4,co=8,kernel=3,dtype=i8")),
            R"({"acc":"i32","ci":4,"co":8,"dilation":1,"dtype":"i8","epilogue":[],"groups":1,)"
            R"("kernel":3,"l":"4..64","layout":"nhwc","n":1,"op":"conv1d","out":"i32","pad":0,)"
            R"("stride":1})");
  EXPECT_EQ(canonical_text(parse_spec("rms_norm:m=4,n=8,dtype=bf16")),
            R"({"acc":"f32","affine":false,"dtype":"bf16","eps":1e-05,"m":4,"n":8,)"
            R"("op":"rms_norm","out":"bf16"})");
}

TEST(Canonical, EqualMeaningsHaveOneText) {
  auto same = [](const std::string& a, const std::string& b) {
    EXPECT_EQ(canonical_text(parse_spec(a)), canonical_text(parse_spec(b))) << a << " " << b;
  };
  same("matmul:m=4,n=4,k=4", "matmul:m=4..4,n=4,k=4,batch=1,acc=f32,out=f32");
  same("matmul:m=4,n=4,k=4", "matmul:m=4,n=4,k=4,w.sparse=none,w.vector=1");
  same("matmul:m=1,n=8,k=8,dtype=i8,out=f32,w.dtype=i4,w.scale=f16",
       "matmul:m=1,n=8,k=8,dtype=i8,acc=f32,out=f32,w.dtype=i4,w.scale=f16");
  same("conv2d:n=1,h=8,w=8,ci=4,co=4,kernel=3,pad=1",
       "conv2d:n=1,h=8,w=8,ci=4,co=4,kernel=3x3,pad=[1,1]");
  same("reduce:shape=[2,3,4],axes=[-1,0],kind=sum", "reduce:shape=2x3x4,axes=0+2,kind=sum");
}

TEST(Canonical, DifferentMeaningsDiffer) {
  EXPECT_NE(canonical_text(parse_spec("matmul:m=4,n=4,k=4,epilogue=[bias,relu]")),
            canonical_text(parse_spec("matmul:m=4,n=4,k=4,epilogue=[relu,bias]")));
  EXPECT_NE(canonical_text(parse_spec("conv2d:n=1,h=8,w=8,ci=4,co=4,kernel=3x1")),
            canonical_text(parse_spec("conv2d:n=1,h=8,w=8,ci=4,co=4,kernel=1x3")));
}

TEST(Canonical, AtSizesFixesTheRangesThatItNames) {
  auto sized = [](const std::string& spec, const std::map<std::string, int64_t>& sizes) {
    Workload w = at_sizes(parse_workload(spec), sizes);
    return spec_to_inline(parse_spec(w.canonical));
  };
  EXPECT_EQ(sized("matmul:m=1..64,n=8,k=8", {{"m", 5}}), "matmul:m=5,n=8,k=8");
  EXPECT_EQ(sized("matmul:m=1..64,n=8,k=1..9", {{"k", 9}}), "matmul:m=1..64,n=8,k=9");
  EXPECT_EQ(sized("matmul:m=1..64,n=8,k=8", {{"n", 5}}), "matmul:m=1..64,n=8,k=8");
  EXPECT_EQ(sized("elementwise:shape=[4,1..9],fn=relu", {{"d1", 3}}),
            "elementwise:shape=[4,3],fn=relu");
  EXPECT_EQ(
      sized("expr:expr=\"C[i, j] += A[i, k] * B[k, j]\",dims.i=1..4,dims.j=8,dims.k=2", {{"i", 2}}),
      "expr:expr=\"C[i, j] += A[i, k] * B[k, j]\",dims.i=2,dims.j=8,dims.k=2");
  EXPECT_EQ(at_sizes(parse_workload("matmul:m=1..64,n=8,k=8,name=x"), {{"m", 5}}).label, "x");
}

std::vector<std::string> round_trip_specs() {
  std::vector<std::string> specs;
  for (const Operator& op : operators()) specs.push_back(op.example);
  specs.insert(specs.end(),
               {"matmul:m=16..4096,n=64,k=64,batch=2..8,dtype=bf16,out=f32,trans_a=true",
                "matmul:m=1,n=64,k=64,dtype=bf16,out=f32,w.dtype=nf4,w.group=64,w.scale=f16",
                "matmul:m=1,n=64,k=64,w.sparse=2:4,w.vector=16",
                "matmul:m=1,n=64,k=64,dtype=i8,out=f32,w.dtype=i4,w.scale=f16",
                "matmul:m=1,n=64,k=64,dtype=bf16,a.dtype=i8,w.dtype=i4,w.group=32",
                "matmul:m=1,n=64,k=64,dtype=i4", "matmul:m=1,n=64,k=64,dtype=u4,w.dtype=i2",
                "conv2d:n=1,h=8,w=8,ci=4,co=4,kernel=3x1,stride=2x1,layout=nchw,w.dtype=i8",
                "elementwise:shape=[4,1..9],fn=add,dtype=f16,acc=f32",
                "attention:batch=2,heads=8,kv_heads=2,m=1..4,n=16,d=64,causal=true,lengths=both",
                "layer_norm:m=4,n=8,eps=1e-12", "reduce:shape=[7],axes=[0],kind=max,dtype=u8"});
  return specs;
}

TEST(Canonical, RoundTripsThroughItselfAndTheInlineForm) {
  for (const std::string& text : round_trip_specs()) {
    SCOPED_TRACE(text);
    Spec spec = parse_spec(text);
    std::string canonical = canonical_text(spec);
    EXPECT_EQ(canonical_text(parse_spec(canonical)), canonical);
    std::string inline_text = spec_to_inline(spec);
    EXPECT_EQ(canonical_text(parse_spec(inline_text)), canonical) << inline_text;
  }
}

TEST(Inline, LeavesDefaultsOut) {
  EXPECT_EQ(spec_to_inline(parse_spec("matmul:k=3,m=1,n=2,out=f32,batch=1")), "matmul:m=1,n=2,k=3");
  EXPECT_EQ(spec_to_inline(parse_spec("matmul:k=3,m=1,n=2,dtype=bf16,out=f32")),
            "matmul:m=1,n=2,k=3,dtype=bf16,out=f32");
}

// Includes keys that follow from other keys, one or several at a time.
TEST(Inline, LeavesOutWhatFollowsFromOtherKeys) {
  auto inline_of = [](const std::string& spec) { return spec_to_inline(parse_spec(spec)); };
  EXPECT_EQ(inline_of("attention:heads=8,m=4,n=4,d=64"), "attention:m=4,n=4,d=64,heads=8");
  EXPECT_EQ(inline_of("attention:heads=8,m=4,n=4,d=64,kv_heads=2,dv=32,scale=0.25"),
            "attention:m=4,n=4,d=64,heads=8,kv_heads=2,dv=32,scale=0.25");
  EXPECT_EQ(inline_of("attention:m=4,n=4,d=64,dv=64,scale=0.125"), "attention:m=4,n=4,d=64");
  EXPECT_EQ(inline_of("matmul:m=1,n=64,k=64,w.dtype=i4"), "matmul:m=1,n=64,k=64,w.dtype=i4");
  EXPECT_EQ(inline_of("matmul:m=1,n=64,k=64,w.dtype=i4,w.group=32,w.scale=f32"),
            "matmul:m=1,n=64,k=64,w.dtype=i4,w.group=32");
  EXPECT_EQ(inline_of("matmul:m=1,n=64,k=64,dtype=i8,out=f32,w.dtype=i4,w.scale=f16"),
            "matmul:m=1,n=64,k=64,dtype=i8,out=f32,w.dtype=i4,w.scale=f16");
}

TEST(Operators, HaveDocumentedKeysAndExamplesThatBuild) {
  for (const Operator& op : operators()) {
    SCOPED_TRACE(op.name);
    EXPECT_FALSE(op.summary.empty());
    EXPECT_FALSE(op.operands.empty());
    for (const KeyDef& key : op.keys) EXPECT_FALSE(key.doc.empty()) << key.name;
    EXPECT_EQ(make_workload(parse_spec(op.example)).op, op.name);
  }
}

TEST(Canonical, FillsInHowAWeightIsStored) {
  EXPECT_THAT(canonical_text(parse_spec("matmul:m=1,n=64,k=64,w.dtype=i4")),
              testing::HasSubstr(R"("w":{"dtype":"i4","group":-1,"scale":"f32","sparse":"none",)"
                                 R"("vector":1,"zero":"none"})"));
  // Integers accumulate exactly, without scales.
  EXPECT_THAT(canonical_text(parse_spec("matmul:m=1,n=64,k=64,dtype=i8,w.dtype=i4")),
              testing::HasSubstr(R"("scale":"none")"));
}

TEST(WorkloadHash, IsSixteenHexDigitsOfTheCanonicalText) {
  Workload a = make_workload(parse_spec("matmul:m=1,n=2,k=3,name=a"));
  Workload b = make_workload(parse_spec("matmul:n=2,m=1,k=3,name=b"));
  Workload c = make_workload(parse_spec("matmul:n=2,m=1,k=4"));
  EXPECT_EQ(a.hash(), b.hash());
  EXPECT_NE(a.hash(), c.hash());
  EXPECT_EQ(a.hash().size(), 16u);
  EXPECT_EQ(a.hash().find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(a.label, "a");
  EXPECT_EQ(parse_workload(a.canonical).hash(), a.hash());
}

}  // namespace
}  // namespace tilewright
