// The workloads that tune-cli extract writes are those that compile asks its database for.
#include <gmock/gmock.h>

#include <set>

#include "cli/models/tuning.h"
#include "database/store.h"
#include "graph/graph.h"
#include "tests/cli/models/onnx_file.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using test::OnnxFile;
using test::whole;
using test::wholes;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Digests = std::set<std::string>;

// A model with QuantizeLinear and DequantizeLinear around its products.
struct Qdq {
  int code = test::kUint8;  // of activations
  bool per_channel = false, bias = false;

  std::string bytes() const {
    OnnxFile file;
    file.input("x", {1, 4, 6, 6}).output("y");
    file.number("s", 0.05f).constant("z", code, {}, "\x03");
    pair(file, "x", "x1");
    weight(file, "wc", {8, 4, 3, 3}, 0);
    file.node("Conv", operands(file, "x1", "wc", 8), {"c"}, {wholes("pads", {1, 1, 1, 1})});
    file.node("Relu", {"c"}, {"r"});
    pair(file, "r", "r1");
    file.node("Flatten", {"r1"}, {"f"});
    pair(file, "f", "f1");
    weight(file, "wg", {16, 288}, 0);
    file.node("Gemm", operands(file, "f1", "wg", 16), {"g"}, {whole("transB", 1)});
    pair(file, "g", "g1");
    weight(file, "wm", {16, 12}, 1);
    file.node("MatMul", {"g1", "wm"}, {"m"});
    if (bias) file.weight("bm", {12}).node("Add", {"m", "bm"}, {"a"});
    return pair(file, bias ? "a" : "m", "y").bytes();
  }

 private:
  OnnxFile& pair(OnnxFile& file, const std::string& from, const std::string& to) const {
    file.node("QuantizeLinear", {from, "s", "z"}, {to + "_codes"});
    return file.node("DequantizeLinear", {to + "_codes", "s", "z"}, {to});
  }
  void weight(OnnxFile& file, const std::string& name, const std::vector<int64_t>& shape,
              int64_t axis) const {
    int64_t count = 1;
    for (int64_t d : shape) count *= d;
    std::string codes(static_cast<size_t>(count), '\0');
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<char>(i * 37 % 251);
    file.constant(name + "_codes", test::kInt8, shape, codes);
    const int64_t scales = shape[static_cast<size_t>(axis)];
    if (per_channel) {
      file.weight(name + "_s", {scales});
    } else {
      file.number(name + "_s", 0.01f);
    }
    file.node("DequantizeLinear", {name + "_codes", name + "_s"}, {name}, {whole("axis", axis)});
  }
  std::vector<std::string> operands(OnnxFile& file, const std::string& a, const std::string& w,
                                    int64_t channels) const {
    if (!bias) return {a, w};
    file.weight(w + "_bias", {channels});
    return {a, w, w + "_bias"};
  }
};

class ExtractProgram : public Cli {
 protected:
  Digests extracted(const std::string& arguments) {
    const Ran ran = run("extract " + arguments + " --json");
    EXPECT_EQ(ran.code, 0) << ran.err;
    Digests digests;
    const Json said = ran.json();
    for (const Json& result : said["results"]) digests.insert(result["workload"]);
    return digests;
  }
  // The digests of the program that compile prints.
  Digests of_program(const std::string& arguments) {
    const Ran ran = run("compile " + arguments + " --text");
    EXPECT_EQ(ran.code, 0) << ran.err;
    Digests digests;
    const Uses uses = uses_of(graph::parse_graph(ran.out));
    for (const Workload& w : uses.workloads) digests.insert(w.hash());
    return digests;
  }
  // The digests for which the database has kernels.
  Digests stored(const std::string& db) {
    const auto store = database::Store::open(dir_ / db, database::Mode::ReadOnly);
    Digests digests;
    for (const database::Record& r : store.records({}).records) digests.insert(r.workload_hash);
    return digests;
  }
};

TEST_F(ExtractProgram, QuantizedModelsHaveTheWorkloadsOfTheirPrograms) {
  for (int code : {test::kUint8, test::kInt8}) {
    for (bool per_channel : {false, true}) {
      for (bool bias : {false, true}) {
        write("q.onnx", Qdq{code, per_channel, bias}.bytes());
        const Digests digests = extracted("q.onnx");
        EXPECT_EQ(digests, of_program("q.onnx")) << code << per_channel << bias;
        EXPECT_EQ(extracted("q.onnx --no-fusion"), of_program("q.onnx --no-fusion"));
        EXPECT_NE(extracted("q.onnx --no-fusion"), digests);
      }
    }
  }
}

TEST_F(ExtractProgram, QuantizedProductsAreSumsOfCodes) {
  write("q.onnx", Qdq{test::kUint8, true, true}.bytes());
  const Json json = run("extract q.onnx --json --no-fusion").json();
  size_t sums = 0, codes = 0;
  for (const Json& result : json["results"]) {
    const std::string spec = result["spec"];
    EXPECT_THAT(spec, Not(HasSubstr("w.dtype"))) << "a product of floats and stored codes";
    const bool product = spec.find("dtypes.X1=i8") != std::string::npos;
    const bool of_codes = spec.find("dtypes.X0=u8") != std::string::npos;
    EXPECT_TRUE(!product || of_codes) << spec;
    sums += product ? 1 : 0;
    codes += spec.find("round(") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(sums, 3u);
  EXPECT_GE(codes, 3u) << "QuantizeLinear has specs of its own";
  EXPECT_THAT(json["left_out"], IsEmpty());
}

TEST_F(ExtractProgram, RangesHaveTheWorkloadsOfTheirPrograms) {
  OnnxFile file;
  file.input("x", {"batch", 16}).weight("w", {16, 8}).output("y");
  file.node("MatMul", {"x", "w"}, {"m"}).node("Softmax", {"m"}, {"y"});
  write("m.onnx", file.bytes());
  const Ran ran = run("extract m.onnx --dim batch=1..8");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(Json::parse(ran.out)["workloads"][0]["m"], "1..8");
  EXPECT_EQ(extracted("m.onnx --dim batch=1..8"), of_program("m.onnx --dim batch=1..8"));
}

// Kernels of these specs are all that a model needs.
TEST_F(ExtractProgram, CompileTakesWhatWasTuned) {
  write("q.onnx", Qdq{test::kUint8, true, true}.bytes());
  ASSERT_EQ(run("extract q.onnx -o specs.json").code, 0);
  const Ran tuned = run("tune specs.json --trials 2 --threads 1 --quiet --db k.db");
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const Digests digests = stored("k.db");
  EXPECT_EQ(digests, extracted("q.onnx"));
  const std::string compile = "compile q.onnx --db k.db --threads 1 --quiet -o q.tw ";
  Ran ran = run(compile + "--hits --json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.json()["workloads"], digests.size());
  ASSERT_EQ(run(compile + "--trials 0").code, 0);
  EXPECT_EQ(stored("k.db"), digests) << "nothing else was asked for";
}

class CompileHits : public ExtractProgram {
 protected:
  void SetUp() override {
    ExtractProgram::SetUp();
    OnnxFile file;
    file.input("x", {4, 16}).weight("w", {16, 8}).output("y");
    file.node("MatMul", {"x", "w"}, {"a"}).node("Sigmoid", {"a"}, {"s"});
    file.node("Softmax", {"s"}, {"y"});
    write("m.onnx", file.bytes());
  }
  Ran hits(const std::string& options = "") {
    return run("compile m.onnx --db k.db --threads 1 --quiet -o m.tw --hits " + options);
  }
};

TEST_F(CompileHits, NamesTheNodesWithoutAKernel) {
  ASSERT_EQ(run("tune matmul:m=4,n=8,k=16 --trials 2 --threads 1 --quiet --db k.db").code, 0);
  const Digests before = stored("k.db");
  const Ran ran = hits();
  EXPECT_EQ(ran.code, 7);
  EXPECT_THAT(
      ran.err,
      HasSubstr("k.db: 2 of 3 workloads of m.onnx have no kernel here with "
                "--threads 1, and no file was written; 'tune-cli extract m.onnx --no-fusion'"));
  EXPECT_THAT(ran.err, HasSubstr("\n  make_s: "));
  EXPECT_THAT(ran.err, HasSubstr("\n  make_y: softmax:m=4,n=8"));
  EXPECT_THAT(ran.err, Not(HasSubstr("make_a")));
  EXPECT_FALSE(fs::exists(dir_ / "m.tw"));
  EXPECT_EQ(stored("k.db"), before);
}

TEST_F(CompileHits, TakesTheNodesThatWereTunedOneByOne) {
  ASSERT_EQ(run("extract m.onnx --no-fusion -o specs.json").code, 0);
  ASSERT_NE(extracted("m.onnx"), extracted("m.onnx --no-fusion"));
  ASSERT_EQ(run("tune specs.json --trials 2 --threads 1 --quiet --db k.db").code, 0);
  const Ran ran = hits("--json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.json()["nodes"], 3);
}

TEST_F(CompileHits, NoFileStandsForViewsAlone) {
  OnnxFile file;
  file.input("x", {4, 16}).integers("sizes", {64}).output("y");
  write("v.onnx", file.node("Reshape", {"x", "sizes"}, {"y"}).bytes());
  ASSERT_EQ(run("tune softmax:m=3,n=5 --trials 1 --threads 1 --quiet --db k.db").code, 0);
  const Ran ran = run("compile v.onnx --db k.db --quiet -o v.tw --hits");
  EXPECT_EQ(ran.code, 7);
  EXPECT_THAT(ran.err, HasSubstr("v.onnx: no file was written, since no kernel runs"));
  EXPECT_THAT(ran.err, HasSubstr("\n  make_y: view: "));
}

TEST_F(CompileHits, TunesNothingAndSaysWhereADatabaseComesFrom) {
  Ran ran = hits();
  EXPECT_EQ(ran.code, 5);
  EXPECT_THAT(ran.err, HasSubstr("there is no database 'k.db'; 'tune-cli tune SPEC --db FILE'"));
  for (const char* other : {"--trials 2", "--time 1m", "--offline"}) {
    ran = hits(other);
    EXPECT_EQ(ran.code, 2) << other;
    EXPECT_THAT(ran.err, HasSubstr("--hits")) << other;
  }
  EXPECT_FALSE(fs::exists(dir_ / "k.db"));
}

TEST_F(ExtractProgram, AModelThatCannotBeCompiledLeadsToItsNodes) {
  OnnxFile file;
  file.input("x", {4, 16}).weight("w", {16, 8}).output("y");
  file.node("MatMul", {"x", "w"}, {"a"}).node("Mystery", {"a"}, {"y"});
  write("u.onnx", file.bytes());
  const Ran ran = run("extract u.onnx");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("make_y (Mystery): there is no kernel for this operator"));
  EXPECT_THAT(ran.err, HasSubstr("'tune-cli extract u.onnx --nodes' writes"));
  EXPECT_EQ(run("extract u.onnx --nodes").code, 0);
  for (const char* other : {"--no-fusion", "--precision i8", "--const x=1"}) {
    const Ran both = run(std::string("extract u.onnx --nodes ") + other);
    EXPECT_EQ(both.code, 2) << other;
    EXPECT_THAT(both.err, HasSubstr("--nodes")) << other;
  }
  EXPECT_THAT(run("extract u.onnx --layout nhwc").err, HasSubstr("--layout requires --nodes"));
}

TEST_F(ExtractProgram, TextsOfProgramsHaveSpecs) {
  write(
      "p.tg",
      "graph \"p\"\ninput \"x\": f32[4, 8]\n\"y\" = \"softmax:m=4,n=8\" (X=\"x\")\noutput \"y\"\n");
  EXPECT_EQ(extracted("p.tg"), of_program("p.tg"));
}

}  // namespace
}  // namespace tilewright::cli
