// Specs as text: accepted forms, and the error message for each mistake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "ir/ops/operator.h"
#include "ir/ops/spec.h"
#include "tests/golden.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

std::string refusal_ops_parse(const std::string& argument) {
  try {
    parse_specs(argument);
  } catch (const SpecError& e) {
    return e.what();
  }
  return "no error";
}

std::string file_refusal(const std::string& text) {
  try {
    parse_spec_file_text(text, "specs.json");
  } catch (const SpecError& e) {
    return e.what();
  }
  return "no error";
}

TEST(SpecParse, InlineGivesTypedValuesAndDefaults) {
  Spec s = parse_spec("matmul:m=16..512, n=3072,k=768,trans_b=true,epilogue=[bias,gelu],name=ffn");
  EXPECT_EQ(s.op, "matmul");
  EXPECT_EQ(s.name, "ffn");
  EXPECT_EQ(s.get<DimSize>("m"), (DimSize{16, 512}));
  EXPECT_EQ(s.get<DimSize>("n"), (DimSize{3072, 3072}));
  EXPECT_EQ(s.get<DimSize>("batch"), (DimSize{1, 1}));
  EXPECT_TRUE(s.get<bool>("trans_b"));
  EXPECT_FALSE(s.get<bool>("trans_a"));
  EXPECT_EQ(s.get<std::vector<std::string>>("epilogue"),
            (std::vector<std::string>{"bias", "gelu"}));
  EXPECT_EQ(s.get<std::string>("acc"), "f32");
}

TEST(SpecParse, JsonAndInlineMeanTheSame) {
  Spec json = parse_spec(R"({"op": "conv2d", "n": 1, "h": 9, "w": 8, "ci": 4, "co": 8,
                             "kernel": [3, 5], "pad": 1, "epilogue": ["relu"]})");
  Spec text = parse_spec("conv2d:n=1,h=9,w=8,ci=4,co=8,kernel=3x5,pad=1,epilogue=relu");
  EXPECT_EQ(canonical_text(json), canonical_text(text));
  EXPECT_EQ(json.get<std::vector<int64_t>>("kernel"), (std::vector<int64_t>{3, 5}));
}

TEST(SpecParse, WeightKeysNestOrAreDotted) {
  Spec nested = parse_spec(
      R"({"op":"matmul","m":1,"n":8,"k":64,"w":{"dtype":"u4","group":32,"scale":"f16","zero":"u4"}})");
  Spec dotted = parse_spec("matmul:m=1,n=8,k=64,w.dtype=u4,w.group=32,w.scale=f16,w.zero=u4");
  EXPECT_EQ(canonical_text(nested), canonical_text(dotted));
  EXPECT_EQ(nested.get<int64_t>("w.group"), 32);
  EXPECT_EQ(nested.get<int64_t>("w.vector"), 1);
  // `w` is a size of convolutions, so the weight's keys stay dotted.
  Spec conv = parse_spec("conv2d:n=1,h=8,w=8,ci=4,co=8,kernel=3,w.dtype=i8");
  EXPECT_THAT(canonical_text(conv), HasSubstr(R"("w":8,"w.dtype":"i8")"));
  EXPECT_EQ(canonical_text(parse_spec(canonical_text(conv))), canonical_text(conv));
}

// Databases know workloads by their canonical text, which a weight without offsets keeps.
TEST(SpecParse, NoOffsetIsNoKey) {
  const std::string text = "matmul:m=1,n=8,k=64,w.dtype=u4,w.group=32";
  EXPECT_EQ(canonical_text(parse_spec(text + ",w.offset=none")), canonical_text(parse_spec(text)));
  EXPECT_NE(canonical_text(parse_spec(text + ",w.offset=f16")), canonical_text(parse_spec(text)));
}

TEST(SpecParse, FilesHoldListsOrWorkloads) {
  std::string one = R"({"op": "softmax", "m": 4, "n": 8, "name": "a"})";
  std::string two = R"({"op": "norm", "b": 1, "m": 4, "n": 8})";
  auto list = parse_spec_file_text("[" + one + ",\n" + two + "]", "list.json");
  auto object = parse_spec_file_text("{\"workloads\": [" + one + "," + two + "]}", "w.json");
  ASSERT_EQ(list.size(), 2u);
  ASSERT_EQ(object.size(), 2u);
  EXPECT_EQ(list[1].op, "norm");
  EXPECT_EQ(list[1].location, "list.json:2:1");
  EXPECT_EQ(object[0].name, "a");
}

TEST(SpecParse, FilesHoldSpecsOneALine) {
  auto specs = parse_spec_file_text(
      "\xEF\xBB\xBF# the first layer\r\nsoftmax:m=4,n=8,name=a\r\n\n"
      "  matmul:m=2,n=3,k=4,epilogue=[bias,relu]\n{\"op\": \"norm\", \"b\": 1, \"m\": 4, \"n\": 8}",
      "specs.txt");
  ASSERT_EQ(specs.size(), 3u);
  EXPECT_EQ(specs[0].name, "a");
  EXPECT_EQ(specs[1].get<std::vector<std::string>>("epilogue").size(), 2u);
  EXPECT_EQ(specs[2].op, "norm");
  EXPECT_EQ(specs[2].location, "specs.txt:5:1");
}

TEST(SpecParse, FilesOfAnotherKindAreToldApart) {
  auto refused = [](const std::string& text, const std::string& name) {
    try {
      parse_spec_file_text(text, name);
    } catch (const SpecError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  using std::string_literals::operator""s;
  EXPECT_THAT(refused("SQLite format 3\0"s, "k.db"),
              HasSubstr("k.db: a database, no file of specs; 'tune-cli best --db k.db'"));
  EXPECT_THAT(refused("GGUF\3\0\0\0"s, "m.gguf"), HasSubstr("'tune-cli weights m.gguf' lists"));
  EXPECT_THAT(refused("\x08\x07\x12\x04"s, "m.onnx"), HasSubstr("'tune-cli extract m.onnx -o"));
  EXPECT_THAT(refused("\0\0"s, "specs.bin"), HasSubstr("specs.bin: binary data; expected specs"));
}

TEST(SpecParse, NamesOfFrameworksAreTaken) {
  const std::string own = canonical_text(parse_spec("matmul:m=2,n=3,k=64,dtype=bf16,w.dtype=u4"));
  for (const char* text :
       {"gemm:m=2,n=3,k=64,dtype=bfloat16,w.dtype=uint4",
        "Linear:m=2,n=3,k=64,dtype=BF16,w.dtype=U4",
        "dense:m=2,n=3,k=64,dtype=torch.bfloat16,w.dtype=uint4",
        R"({"op": "MatMul", "m": 2, "n": 3, "k": 64, "dtype": "bfloat16", "w.dtype": "uint4"})"}) {
    EXPECT_EQ(canonical_text(parse_spec(text)), own) << text;
  }
  const std::string tail = ":m=1,n=8,k=8,dtype=";
  for (auto [other, ours] :
       std::vector<std::pair<std::string, std::string>>{{"float32", "f32"},
                                                        {"fp16", "f16"},
                                                        {"half", "f16"},
                                                        {"float64", "f64"},
                                                        {"int8", "i8"},
                                                        {"uint8", "u8"},
                                                        {"np.int32", "i32"},
                                                        {"float8_e4m3fn", "f8e4m3"}}) {
    EXPECT_EQ(parse_spec("matmul" + tail + other).get<std::string>("dtype"), ours);
  }
  EXPECT_EQ(parse_spec("LayerNorm:m=4,n=8").op, "layer_norm");
  EXPECT_EQ(parse_spec("conv-2d:n=1,h=8,w=8,ci=4,co=4,kernel=3,layout=NHWC").op, "conv2d");
  EXPECT_EQ(parse_spec("elementwise:shape=4,fn=swish").get<std::string>("fn"), "silu");
}

TEST(SpecParse, FileArgumentIsRead) {
  auto path = std::filesystem::temp_directory_path() /
              ("tilewright_spec_" + std::to_string(::getpid()) + ".json");
  std::ofstream(path) << R"([{"op": "softmax", "m": 4, "n": 8}])";
  auto specs = parse_specs(path.string());
  std::filesystem::remove(path);
  ASSERT_EQ(specs.size(), 1u);
  EXPECT_EQ(specs[0].op, "softmax");
  EXPECT_THAT(refusal_ops_parse("missing/specs.json"),
              HasSubstr("missing/specs.json: the file cannot be opened"));
  EXPECT_THAT(refusal_ops_parse("/tmp"), HasSubstr("/tmp: a directory; expected a file of specs"));
}

// The inputs of scripts/bench_all: each file parses, each spec makes a workload, and no spec occurs
// twice.
TEST(SpecParse, EveryBenchmarkWorkloadReads) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(test::source_dir() / "bench" / "workloads")) {
    files.push_back(entry.path().string());
  }
  EXPECT_GE(files.size(), 6u);
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    std::vector<Spec> specs = parse_specs(file);
    EXPECT_FALSE(specs.empty());
    std::set<std::string> seen;
    for (const Spec& spec : specs) {
      EXPECT_TRUE(seen.insert(canonical_text(spec)).second) << spec.location << " stands twice";
      EXPECT_FALSE(make_workload(spec).stages.empty()) << spec.location;
    }
  }
}

TEST(SpecParse, EscapesInStringsAreDecoded) {
  Spec s = parse_spec(R"({"op": "soft\u006dax", "m": 4, "n": 8, "name": "\u00e4\ud83d\ude00\n"})");
  EXPECT_EQ(s.op, "softmax");
  EXPECT_EQ(s.name, "\xc3\xa4\xf0\x9f\x98\x80\n");
}

TEST(SpecParse, ACountOfUsesIsNoPartOfTheMeaning) {
  Spec s = parse_spec("softmax:m=4,n=8,count=12");
  EXPECT_EQ(s.get<int64_t>("count"), 12);
  EXPECT_EQ(canonical_text(s), canonical_text(parse_spec("softmax:m=4,n=8")));
  EXPECT_EQ(spec_to_inline(s), "softmax:m=4,n=8");
  EXPECT_EQ(parse_spec(R"({"op": "softmax", "m": 4, "n": 8, "count": 1})").get<int64_t>("count"),
            1);
  EXPECT_THAT(refusal_ops_parse("softmax:m=4,n=8,count=0"),
              HasSubstr("count: expected a whole number from 1 to 1099511627776, got '0'"));
}

TEST(SpecRefusal, InlineShowsTheCaretUnderTheKeyAndTheKnownKeys) {
  EXPECT_EQ(refusal_ops_parse("softmax:m=4,nn=8"),
            "spec: unknown key 'nn' of softmax\n"
            "  softmax:m=4,nn=8\n"
            "              ^\n"
            "keys of softmax: m, n; optional: dtype=f32, acc, out, name, count");
}

TEST(SpecRefusal, FilesShowLineAndColumn) {
  EXPECT_EQ(file_refusal("[\n  {\"op\": \"softmax\", \"m\": 4, \"n\": -8}]"),
            "specs.json:2:34: n: expected a whole number from 1 to 1099511627776, got '-8'\n"
            "    {\"op\": \"softmax\", \"m\": 4, \"n\": -8}]\n"
            "                                   ^\n"
            "keys of softmax: m, n; optional: dtype=f32, acc, out, name, count");
}

TEST(SpecRefusal, LongLinesAreCutAroundTheCaret) {
  std::string message = refusal_ops_parse("softmax:name=" + std::string(300, 'x') +
                                          ",m=2,n=0,acc=f32" + std::string(300, ' '));
  std::string line = "  ..." + std::string(41, 'x') + ",m=2,n=0,acc=f32";
  EXPECT_THAT(message, HasSubstr(line));
  EXPECT_THAT(message, HasSubstr("...\n" + std::string(line.find("=0") + 1, ' ') + "^"));
  EXPECT_THAT(refusal_ops_parse("softmax:m=" + std::string(300, '1')),
              HasSubstr("got '" + std::string(40, '1') + "...'"));
}

struct OpsParseRefusal {
  const char* argument;
  const char* message;
};

class SpecRefusals : public testing::TestWithParam<OpsParseRefusal> {};

TEST_P(SpecRefusals, SaysWhatIsWrong) {
  EXPECT_THAT(refusal_ops_parse(GetParam().argument), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Keys, SpecRefusals,
    testing::Values(
        OpsParseRefusal{"matmull:m=1", "unknown operator 'matmull'; did you mean 'matmul'?"},
        OpsParseRefusal{"matmul", "matmul needs the keys m, n, k"},
        OpsParseRefusal{"matmul:m=1,n=2", "matmul needs the key k"},
        OpsParseRefusal{"conv2d:n=1,h=8,w=8,ci=4,co=4,kernal=3", "did you mean 'kernel'?"},
        OpsParseRefusal{"conv2d:n=1,h=8,w=8,ci=4,co=4,kernel=3,padding=1",
                        "unknown key 'padding' of conv2d; did you mean 'pad'?"},
        OpsParseRefusal{"matmul:M=1,n=2,k=3", "unknown key 'M' of matmul; did you mean 'm'?"},
        OpsParseRefusal{"sfotmax:m=1", "unknown operator 'sfotmax'; did you mean 'softmax'?"},
        OpsParseRefusal{"matmul:m=1,m=2", "the key 'm' is given twice"},
        OpsParseRefusal{R"({"op":"softmax","m":1,"m":2,"n":3})", "the key 'm' is given twice"},
        OpsParseRefusal{R"({"op":"matmul","w":{"dtype":"i4"},"w.dtype":"i8"})",
                        "the key 'w.dtype' is given twice"},
        OpsParseRefusal{R"({"m":1})", "a spec needs the key 'op'"},
        OpsParseRefusal{R"({"op":7})", "op: expected the name of an operator, got 7"},
        OpsParseRefusal{R"({"op":"softmax","m":1,"n":2,"name":3})", "name: expected text, got 3"},
        OpsParseRefusal{"matmul:m", "expected key=value, found 'm'"},
        OpsParseRefusal{"matmul:m=1,", "expected key=value, found ''"},
        OpsParseRefusal{"matmul:m=", "the key 'm' has no value"},
        OpsParseRefusal{"matmul:=1", "a value without a key"},
        OpsParseRefusal{":m=1", "expected OP:key=value"},
        OpsParseRefusal{"reduce:shape=[1,2", "'[' is never closed"},
        OpsParseRefusal{"reduce:shape=1]", "']' closes nothing"},
        OpsParseRefusal{"softmax:name=\"x", "a quote without its closing quote"}));

INSTANTIATE_TEST_SUITE_P(
    Values, SpecRefusals,
    testing::Values(
        OpsParseRefusal{"softmax:m=0,n=1",
                        "m: expected a whole number from 1 to 1099511627776, got '0'"},
        OpsParseRefusal{"softmax:m=99999999999999999999,n=1", "got '99999999999999999999'"},
        OpsParseRefusal{"softmax:m=4x,n=1", "got '4x'"},
        OpsParseRefusal{"softmax:m=9..4,n=1", "m: the range 9..4 ends before it begins"},
        OpsParseRefusal{"softmax:m=0..4,n=1", "m: expected a whole number from 1"},
        OpsParseRefusal{R"({"op":"softmax","m":"4","n":1})",
                        "m: expected a size or a range such as 16..4096, got the string \"4\""},
        OpsParseRefusal{R"({"op":"softmax","m":4.0,"n":1})", "got '4.0'"},
        OpsParseRefusal{R"({"op":"softmax","m":[4],"n":1})", "got a list"},
        OpsParseRefusal{R"({"op":"softmax","m":null,"n":1})", "got null"},
        OpsParseRefusal{R"({"op":"softmax","m":{"a":1},"n":1})", "unknown key 'm.a'"},
        OpsParseRefusal{"softmax:m=1,n=1,dtype=f33", "got 'f33'; did you mean 'f32'?"},
        OpsParseRefusal{"softmax:m=1,n=1,dtype=i8",
                        "dtype: expected one of f64, f32, f16, bf16, got 'i8'"},
        OpsParseRefusal{"matmul:m=1,n=1,k=1,acc=i32", "acc: f32 inputs cannot accumulate in i32"},
        OpsParseRefusal{"matmul:m=1,n=1,k=1,trans_a=1", "trans_a: expected true or false, got '1'"},
        OpsParseRefusal{R"({"op":"matmul","m":1,"n":1,"k":1,"trans_a":"true"})",
                        "trans_a: expected true or false, got the string \"true\""},
        OpsParseRefusal{"layer_norm:m=1,n=1,eps=-1", "eps: expected a positive number, got '-1'"},
        OpsParseRefusal{"layer_norm:m=1,n=1,eps=nan", "eps: expected a positive number, got 'nan'"},
        OpsParseRefusal{"matmul:m=1,n=1,k=1,epilogue=relu+tanh", "got 'tanh'"},
        OpsParseRefusal{"matmul:m=1,n=1,k=1,epilogue=relu+relu", "epilogue: 'relu' is given twice"},
        OpsParseRefusal{"matmul:m=1,n=1,k=1,dtype=i8,epilogue=gelu",
                        "epilogue: 'gelu' needs a float accumulator or output"},
        OpsParseRefusal{R"({"op":"matmul","m":1,"n":1,"k":1,"epilogue":[3]})",
                        "epilogue: expected a list of bias, relu, gelu, silu, add, got 3"},
        OpsParseRefusal{"elementwise:shape=[],fn=relu", "shape: expected at least one size"},
        OpsParseRefusal{"elementwise:shape=[2,0],fn=relu", "shape: expected a whole number from 1"},
        OpsParseRefusal{"elementwise:shape=1x1x1x1x1x1x1x1x1,fn=relu",
                        "expected at most 8 sizes, got 9"},
        OpsParseRefusal{"elementwise:shape=4,fn=gelu,dtype=i8",
                        "fn: 'gelu' needs a float accumulator"},
        OpsParseRefusal{"reduce:shape=4x4,axes=2,kind=sum",
                        "axis 2 is outside a shape of 2 dimensions"},
        OpsParseRefusal{"reduce:shape=4x4,axes=[1,-1],kind=sum", "axes: axis 1 is given twice"},
        OpsParseRefusal{"reduce:shape=4x4,axes=[],kind=sum", "axes: expected at least one axis"},
        OpsParseRefusal{"reduce:shape=4x4,axes=1,kind=mean,dtype=i8",
                        "kind: a mean needs a float"}));

INSTANTIATE_TEST_SUITE_P(
    Convolutions, SpecRefusals,
    testing::Values(
        OpsParseRefusal{"conv2d:n=1,h=8,w=8,ci=4,co=4,kernel=3x3x3",
                        "kernel: conv2d has 2 spatial axes, got 3 numbers"},
        OpsParseRefusal{"conv2d:n=1,h=8,w=8,ci=4,co=4,kernel=1x2x3",
                        "kernel: conv2d has 2 spatial axes, got 3 numbers"},
        OpsParseRefusal{"conv2d:n=1,h=2,w=8,ci=4,co=4,kernel=3",
                        "kernel: the window spans 3 elements along h, but the padded input has 2"},
        OpsParseRefusal{"capsule_conv2d:n=1,h=8,w=2,ci=4,co=4,kernel=5,pad=1",
                        "kernel: the window spans 5 elements along w, but the padded input has 4"},
        OpsParseRefusal{"conv1d:n=1,l=4,ci=4,co=4,kernel=3,dilation=2", "spans 5 elements along l"},
        OpsParseRefusal{"conv2d:n=1,h=8,w=8,ci=4,co=4,kernel=3,groups=3",
                        "groups: 3 groups do not divide ci=4"},
        OpsParseRefusal{"conv2d:n=1,h=8,w=8,ci=4,co=6,kernel=3,groups=4",
                        "groups: 4 groups do not divide co=6"},
        OpsParseRefusal{"conv2d:n=1,h=8,w=8,ci=4..8,co=6,kernel=3",
                        "ci: channels cannot be a range"},
        OpsParseRefusal{"depthwise_conv2d:n=1,h=8,w=8,c=4..8,kernel=3",
                        "c: channels cannot be a range"},
        OpsParseRefusal{"conv2d:n=1,h=8,w=8,ci=4,co=4,kernel=3,stride=0",
                        "stride: expected a whole number from 1"},
        OpsParseRefusal{"conv2d:n=1,h=8,w=8,ci=4,co=4,kernel=3,pad=-1",
                        "pad: expected a whole number from 0"},
        OpsParseRefusal{"conv2d:n=1,h=8,w=8,ci=4,co=4,kernel=3,layout=nchv",
                        "did you mean 'nchw'?"},
        OpsParseRefusal{
            "conv2d_transpose:n=1,h=8,w=8,ci=4,co=4,kernel=3,pad=3",
            "pad: a transposed convolution crops by pad, which must be under the kernel's 3"},
        OpsParseRefusal{"conv2d_transpose:n=1,h=1,w=8,ci=4,co=4,kernel=3,pad=2",
                        "pad: cropping leaves no output along h"}));

INSTANTIATE_TEST_SUITE_P(
    Weights, SpecRefusals,
    testing::Values(
        OpsParseRefusal{"matmul:m=1,n=1,k=1,w.group=32", "w.group: belongs to a low-bit weight"},
        OpsParseRefusal{"matmul:m=1,n=1,k=1,w.values=f16", "w.values: belongs to a low-bit weight"},
        OpsParseRefusal{"matmul:m=1,n=1,k=1,w.dtype=nf4,w.values=f32",
                        "w.values: expected one of none, f16, bf16"},
        OpsParseRefusal{"gated_mlp:m=1,n=8,k=8,dtype=i8",
                        "out: the gate times what it gates is no i32; give a float output"},
        OpsParseRefusal{
            "gated_mlp:m=1,n=8,k=8..16,w.dtype=i4",
            "w.dtype: a weight in a form of its own has constant sizes; the k of G is a range"},
        OpsParseRefusal{"matmul:m=1,n=1,k=1,w.dtype=i4,w.group=0",
                        "w.group: expected a number of elements"},
        OpsParseRefusal{"matmul:m=1,n=1,k=1,w.dtype=i5", "w.dtype: expected one of i8, u8"},
        OpsParseRefusal{"matmul:m=1,n=1,k=1,w.dtype=nf4,w.zero=u4",
                        "w.zero: nf4 codes have no zero point"},
        OpsParseRefusal{"matmul:m=1,n=1,k=1,w.dtype=u4,w.zero=u2",
                        "w.zero: u2 cannot hold every value of u4"},
        OpsParseRefusal{"matmul:m=1,n=1,k=1,w.sparse=5:4",
                        "w.sparse: N:M keeps N of M elements, so N is at most M, got 5:4"},
        OpsParseRefusal{"matmul:m=1,n=1,k=1,w.sparse=24", "w.sparse: expected none or N:M"},
        OpsParseRefusal{"matmul:m=1,n=1,k=1,w.sparse=2:x",
                        "w.sparse: expected a whole number from 2 to 64"},
        OpsParseRefusal{"matmul:m=1,n=1,k=1,w.vector=8", "w.vector: belongs to a sparse weight"},
        OpsParseRefusal{"matmul:m=1,n=8,k=8,dtype=i8,w.dtype=nf4",
                        "w.dtype: nf4 weights cannot accumulate in i32; give acc=f32"},
        OpsParseRefusal{"matmul:m=1,n=8,k=8,dtype=i8,w.dtype=i4,w.scale=f32",
                        "w.scale: scaled weights cannot accumulate in i32; give acc=f32"},
        OpsParseRefusal{"matmul:m=1,n=8,k=8,dtype=u8,w.dtype=u4,w.zero=f16",
                        "w.zero: f16 zero points cannot accumulate in i32"},
        OpsParseRefusal{
            "matmul:m=1,n=8,k=8,dtype=i8,w.dtype=i4,w.group=4",
            "w.group: there are neither scales nor zero points to share; scales need a float "
            "accumulator: acc=f32,w.scale=f32"},
        OpsParseRefusal{"matmul:m=1,n=8,k=8,w.dtype=i4,w.scale=none,w.group=4",
                        "w.group: there are neither scales nor zero points to share"},
        OpsParseRefusal{
            "matmul:m=1,n=8,k=8..16,w.dtype=i4",
            "w.dtype: a weight in a form of its own has constant sizes; the k of B is a range"},
        OpsParseRefusal{"matmul:m=1,n=8..16,k=8,w.sparse=2:4",
                        "w.sparse: a weight in a form of its own has constant sizes; the j of B"},
        OpsParseRefusal{"matmul:m=1,n=8,k=8,w.dtype=i1,w.sparse=2:4",
                        "w.sparse: the codes of i1 stand for -1 and 1: none is zero"},
        OpsParseRefusal{"matmul:m=1,n=8,k=8,w.dtype=u4,w.zero=f16,w.sparse=2:4",
                        "w.zero: an element that is left out equals its zero point"},
        OpsParseRefusal{"matmul:m=1,n=1,k=1,w.offset=f32", "w.offset: belongs to a low-bit weight"},
        OpsParseRefusal{"matmul:m=1,n=1,k=1,w.dtype=u4,w.offset=u4",
                        "w.offset: expected one of none, f32, f16, bf16"},
        OpsParseRefusal{"matmul:m=1,n=1,k=1,w.dtype=nf4,w.offset=f32",
                        "w.offset: nf4 codes have no offset; expected none"},
        OpsParseRefusal{"matmul:m=1,n=8,k=8,w.dtype=u4,w.scale=none,w.offset=f32",
                        "w.offset: is added to scaled codes; give w.scale, such as w.scale=f32"},
        OpsParseRefusal{"matmul:m=1,n=8,k=8,w.dtype=u4,w.zero=u4,w.offset=f32",
                        "w.offset: takes the place of a zero point; leave out w.zero"},
        OpsParseRefusal{"matmul:m=1,n=8,k=8,dtype=u8,w.dtype=u4,w.offset=f16",
                        "w.offset: offsets cannot accumulate in i32; give acc=f32"},
        OpsParseRefusal{"matmul:m=1,n=8,k=8,w.dtype=u4,w.offset=f16,w.sparse=2:4",
                        "w.offset: an element that is left out is 0"},
        OpsParseRefusal{"softmax:m=1,n=1,w.dtype=i4", "unknown key 'w.dtype' of softmax"}));

INSTANTIATE_TEST_SUITE_P(
    Activations, SpecRefusals,
    testing::Values(
        OpsParseRefusal{
            "matmul:m=1,n=8,k=8,a.dtype=i8",
            "a.dtype: i8 operands are multiplied by integers; give an integer w.dtype, such as "
            "w.dtype=i8"},
        OpsParseRefusal{"matmul:m=1,n=8,k=8,a.dtype=i8,w.dtype=nf4",
                        "a.dtype: i8 operands are multiplied by integers"},
        OpsParseRefusal{"matmul:m=1,n=8,k=8,dtype=i8,acc=f32,a.dtype=i8,w.dtype=i8",
                        "a.dtype: quantizes f32, f16 or bf16 operands to i8; dtype is i8"},
        OpsParseRefusal{"matmul:m=1,n=8,k=8,dtype=f64,a.dtype=i8,w.dtype=i8", "dtype is f64"},
        OpsParseRefusal{"matmul:m=1,n=8,k=8,acc=f64,a.dtype=i8,w.dtype=i8",
                        "acc: sums of quantized rows are scaled in f32; got f64"},
        OpsParseRefusal{"matmul:m=1,n=8,k=8,a.dtype=u4,w.dtype=i8",
                        "a.dtype: expected one of i8, got 'u4'"},
        OpsParseRefusal{"conv1d:n=1,l=8,ci=4,co=4,kernel=3,a.dtype=i8,w.dtype=i8",
                        "unknown key 'a.dtype' of conv1d"}));

INSTANTIATE_TEST_SUITE_P(
    Sizes, SpecRefusals,
    testing::Values(
        OpsParseRefusal{"matmul:m=1048576,n=2097152,k=1",
                        "the tensor C[1048576, 2097152] has more than 2^40 elements"},
        OpsParseRefusal{"matmul:m=1099511627776,n=1099511627776,k=1099511627776",
                        "more than 2^40 elements"},
        OpsParseRefusal{"matmul:m=1048576,n=1048576,k=1048576,epilogue=relu", "no error"},
        OpsParseRefusal{"conv2d:n=1,h=1000000,w=1000000,ci=1,co=1,kernel=1048576,pad=1048576",
                        "more than 2^40 elements"}));

struct JsonRefusals : SpecRefusals {};

TEST_P(JsonRefusals, PointAtTheCharacter) {
  EXPECT_THAT(file_refusal(GetParam().argument), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Json, JsonRefusals,
    testing::Values(
        OpsParseRefusal{"", "specs.json: no spec; expected JSON, or inline specs, one per line"},
        OpsParseRefusal{"# nothing\n\n",
                        "specs.json: no spec; expected JSON, or inline specs, one per line"},
        OpsParseRefusal{"hello", "specs.json:1:1: unknown operator 'hello'"},
        OpsParseRefusal{"softmax:m=4,n=8\n\n# a\n  softmax:m=4,q=8",
                        "specs.json:4:15: unknown key 'q'"},
        OpsParseRefusal{"softmax:m=4,n=8\n{\"op\": 1}", "specs.json:2:8: op: expected the name of"},
        OpsParseRefusal{"softmax:m=4,n=8\n[]", "specs.json:2:1: expected one spec per line"},
        OpsParseRefusal{"[\x01", "found byte 0x01"},
        OpsParseRefusal{"[\n{\"op\" 1}]",
                        "specs.json:2:7: not valid JSON: expected ':' behind the key"},
        OpsParseRefusal{"{\"a\": 1,}",
                        "specs.json:1:9: not valid JSON: expected a key in double quotes"},
        OpsParseRefusal{"{\"a\": 1 2}", "expected ',' or '}', found '2'"},
        OpsParseRefusal{"[1 2]", "expected ',' or ']', found '2'"},
        OpsParseRefusal{"[1] 2", "specs.json:1:5: not valid JSON: more text behind the end"},
        OpsParseRefusal{"[01]", "a number does not begin with 0"},
        OpsParseRefusal{"[1.]", "expected a digit, found ']'"},
        OpsParseRefusal{"[1e]", "expected a digit, found ']'"},
        OpsParseRefusal{"[-]", "expected a digit, found ']'"},
        OpsParseRefusal{"[\"abc", "a string without its closing quote"},
        OpsParseRefusal{"[\"a\nb\"]", "a control character in a string"},
        OpsParseRefusal{"[\"\\q\"]", "unknown escape in a string, found 'q'"},
        OpsParseRefusal{"[\"\\u12g4\"]", "expected four hex digits behind \\u, found 'g'"},
        OpsParseRefusal{"[\"\\ud800x\"]", "a surrogate without its other half"},
        OpsParseRefusal{"[\"\\ud800\\u0041\"]", "a surrogate without its second half"},
        OpsParseRefusal{"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
                        "values nest deeper than 32"},
        OpsParseRefusal{"[]", "the list holds no spec"},
        OpsParseRefusal{"{\"workloads\": 7}",
                        "expected a spec, a list of specs or {\"workloads\": [...]}, got 7"},
        OpsParseRefusal{"[7]", "specs.json:1:2: expected a spec as an object, got 7"},
        OpsParseRefusal{"{\"workloads\": 7}", "expected a spec, a list of specs"},
        OpsParseRefusal{"{\"workloads\": [], \"x\": 1}", "unknown key 'x' beside 'workloads'"}));

}  // namespace
}  // namespace tilewright
