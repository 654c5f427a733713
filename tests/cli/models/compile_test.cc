// tune-cli compile, and run and explain of the model file that it writes.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "database/store.h"
#include "database/tables/convert.h"
#include "graph/graph.h"
#include "runtime/tensor/npy.h"
#include "tests/cli/models/onnx_file.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using test::OnnxFile;
using testing::HasSubstr;

class Compile : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    OnnxFile file;
    file.input("x", {"batch", 4}).floats("w", {4, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1});
    file.node("MatMul", {"x", "w"}, {"a"}).node("Sigmoid", {"a"}, {"s"});
    file.node("Mul", {"a", "s"}, {"m"}).node("Transpose", {"m"}, {"y"}).output("y");
    write("m.onnx", file.bytes());
  }
  void write_input() {
    HostArray x("x", ElemType::f32, {2, 4});
    for (int64_t i = 0; i < 8; ++i) x.set(i, static_cast<double>(i) - 3);
    write_npy((dir_ / "x.npy").string(), x);
  }
};

const std::string kCompile = "compile m.onnx --dim batch=2 --db k.db --threads 1 --quiet ";

TEST_F(Compile, PrintsTheProgram) {
  Ran ran = run("compile m.onnx --dim batch=2 --text");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const graph::Graph graph = graph::parse_graph(ran.out);
  EXPECT_EQ(graph.nodes.size(), 2u) << ran.out;  // the product with silu, the transposition
  EXPECT_THAT(ran.out, HasSubstr("matmul:m=2,n=3,k=4,epilogue=[silu]"));
}

// A first answer does not stand for a search, and nothing confirms it: it won against nothing.
TEST_F(Compile, TunesWhatHasItsFirstAnswerAlone) {
  auto tried = [&](bool confirmed) {
    const auto store = database::Store::open(dir_ / "k.db", database::Mode::ReadOnly);
    const auto records = store.records({}).records;
    return std::ranges::count_if(
        records, [&](const auto& r) { return !r.is_default && r.confirmed == confirmed; });
  };
  ASSERT_EQ(run(kCompile + "-o m.tw --trials 0 --time 60").code, 0);
  EXPECT_EQ(tried(false), 2);  // one of each workload, whatever the time
  EXPECT_EQ(tried(true), 0);
  ASSERT_EQ(run(kCompile + "-o m.tw --trials 3").code, 0);
  const auto after = tried(false);
  EXPECT_GT(after, 2);
  EXPECT_GT(tried(true), 0);
  ASSERT_EQ(run(kCompile + "-o m.tw --trials 3").code, 0);
  EXPECT_EQ(tried(false), after) << "nothing is lacking any more";
}

// A kernel that a search found fast alone, and that is slow in the model, is not the model's.
TEST_F(Compile, ChoosesKernelsByTheirTimesInsideTheModel) {
  OnnxFile file;
  file.input("x", {64, 256}).floats("w", {256, 256}, std::vector<float>(256 * 256, 0.5f));
  file.node("MatMul", {"x", "w"}, {"y"}).output("y");
  write("big.onnx", file.bytes());
  const std::string compile = "compile big.onnx --db k.db --threads 1 --quiet --json -o big.tw ";
  ASSERT_EQ(run(compile + "--trials 4").code, 0);
  std::string slow_code;
  double best_seconds = 0;
  {
    auto store = database::Store::open(dir_ / "k.db", database::Mode::ReadWrite);
    const auto records = store.records({.verdict = database::Verdict::Valid, .by_time = true});
    const database::Record best = records.records.front();
    auto slow = std::ranges::find_if(records.records, [](const auto& r) { return r.is_default; });
    ASSERT_NE(slow, records.records.end());
    ASSERT_GT(slow->median_seconds, 2 * best.median_seconds);
    slow_code = slow->artifact_hash;
    best_seconds = best.median_seconds;
    database::Record forged = *slow;
    forged.is_default = false;
    forged.confirmed = true;
    forged.median_seconds = 0.95 * best.median_seconds;
    forged.created = database::now_microseconds();
    forged.id = database::content_hash(forged);
    store.insert(forged);
  }
  const Json said = run(compile + "--trials 0").json();
  EXPECT_EQ(said["changed_in_place"], 1);
  const auto made = database::Store::open(dir_ / "big.tw", database::Mode::ReadOnly);
  // Another kernel may be as fast as the best one was.
  for (const database::Record& r : made.records({}).records) {
    EXPECT_TRUE(r.is_default || r.artifact_hash != slow_code);
  }
  // That is what the file runs.
  const Json node = run("explain big.tw --json").json()["nodes"][0];
  EXPECT_GE(node["tuned_seconds"].get<double>(), 0.99 * best_seconds);
  EXPECT_FALSE(fs::exists(dir_ / "big.tw.best"));
  EXPECT_FALSE(fs::exists(dir_ / "big.tw.other"));
}

// A search measures first answers in each layout, and the fastest ones are taken: also by a later command.
TEST_F(Compile, ChoosesLayoutsByTheTimesOfKernels) {
  OnnxFile file;
  file.input("x", {1, 16, 6, 6});
  file.floats("w", {16, 16, 3, 3}, std::vector<float>(16 * 16 * 9, 0.1f));
  file.node("Conv", {"x", "w"}, {"p"}, {test::wholes("pads", {1, 1, 1, 1})});
  file.node("Conv", {"p", "w"}, {"q"}, {test::wholes("pads", {1, 1, 1, 1})});
  file.node("GlobalMaxPool", {"q"}, {"y"}).output("y");
  write("c.onnx", file.bytes());
  const std::string compile = "compile c.onnx --db k.db --threads 1 --quiet -o c.tw ";
  ASSERT_EQ(run(compile + "--trials 1").code, 0);
  const auto is_first = [](const std::string& spec) {
    return spec.find("nchw") != std::string::npos;
  };
  const auto convolutions_first = [&] {
    const Json nodes = run("explain c.tw --threads 1 --json").json()["nodes"];
    return std::ranges::count_if(nodes, [&](const Json& n) { return is_first(n["spec"]); });
  };
  // A later search finds such times.
  const auto find = [&](bool first, double seconds) {
    auto store = database::Store::open(dir_ / "k.db", database::Mode::ReadWrite);
    for (database::Record r : store.records({.verdict = database::Verdict::Valid}).records) {
      if (is_first(r.workload_canonical) != first || r.artifact_hash.empty()) continue;
      r.confirmed = true;
      r.is_default = false;
      r.samples = {seconds};
      r.best_seconds = r.median_seconds = seconds;
      r.created = database::now_microseconds();
      r.id = database::content_hash(r);
      store.insert(r);
    }
  };
  find(true, 1e-9);
  find(false, 1e-3);
  ASSERT_EQ(run(compile + "--trials 0").code, 0);
  EXPECT_EQ(convolutions_first(), 2);
  ASSERT_EQ(run(compile + "--hits").code, 0);
  EXPECT_EQ(convolutions_first(), 2);
  find(false, 1e-12);
  ASSERT_EQ(run(compile + "--trials 0").code, 0);
  EXPECT_EQ(convolutions_first(), 0);
}

TEST_F(Compile, MakesAFileThatRuns) {
  Ran ran = run(kCompile + "-o m.tw --trials 0 --json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json said = ran.json();
  EXPECT_EQ(said["nodes"], 2);
  EXPECT_EQ(said["kernels"], 2);
  EXPECT_LE(said["memory"], said["least_memory"].get<double>() * 1.05);
  fs::remove(dir_ / "k.db");  // the file needs neither the database
  fs::remove(dir_ / "m.onnx");
  write_input();
  ran = run("run m.tw --in x=x.npy --out y=y.npy", "PATH=/none");  // nor a compiler
  ASSERT_EQ(ran.code, 0) << ran.err;
  const NpyArray y = read_npy((dir_ / "y.npy").string());
  ASSERT_EQ(y.shape, (std::vector<int64_t>{3, 2}));
  const double a[2][3] = {{-3, -2, -1}, {5, 6, 7}};  // x w: rows -3..0 and 1..4
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t column = 0; column < 3; ++column) {
      const double v = a[row][column];
      EXPECT_NEAR(y.get(column * 2 + row), v / (1 + std::exp(-v)), 1e-5);
    }
  }
}

TEST_F(Compile, MakesAFileForARange) {
  Ran ran =
      run("compile m.onnx --dim batch=1..4 --db k.db --threads 1 --quiet -o m.tw --trials 0 "
          "--tolerance 1e-5");  // at one row and at four
  ASSERT_EQ(ran.code, 0) << ran.err;
  write_input();
  ran = run("run m.tw --in x=x.npy --out y=y.npy");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const NpyArray y = read_npy((dir_ / "y.npy").string());
  ASSERT_EQ(y.shape, (std::vector<int64_t>{3, 2}));
  EXPECT_NEAR(y.get(1), 5 / (1 + std::exp(-5.0)), 1e-5);
  HostArray many("x", ElemType::f32, {5, 4});
  write_npy((dir_ / "many.npy").string(), many);
  ran = run("run m.tw --in x=many.npy");
  EXPECT_NE(ran.code, 0);
  EXPECT_THAT(ran.err, HasSubstr("input 'x': axis 0 (batch) has 5; expected 1 to 4"));
}

TEST_F(Compile, ExplainsTheTime) {
  ASSERT_EQ(run(kCompile + "-o m.tw --trials 0").code, 0);
  Ran ran = run("explain m.tw --threads 1 --json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json said = ran.json();
  EXPECT_EQ(said["nodes"].size(), 2u);
  EXPECT_TRUE(said["causes"].contains("product")) << said["causes"];
  EXPECT_TRUE(said["causes"].contains("movement")) << said["causes"];
  EXPECT_THAT(run("explain m.tw --threads 1").out, HasSubstr("all nodes: "));
}

TEST_F(Compile, TunesWhatTheDatabaseLacks) {
  Ran first = run(kCompile + "-o m.tw --trials 3");
  ASSERT_EQ(first.code, 0) << first.err;
  const Json before = run("db info --db k.db --json").json()["rows"];
  EXPECT_GT(before["records"], 2) << "more than the defaults";
  Ran again = run(kCompile + "-o m.tw --trials 0");
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(run("db info --db k.db --json").json()["rows"], before);
}

TEST_F(Compile, ADatabaseThatOthersCanWriteIsNotTunedFor) {
  fs::create_directory(dir_ / "open");
  fs::permissions(dir_ / "open", fs::perms::all);
  const Ran ran = run("compile m.onnx --dim batch=2 --db open/k.db --threads 1 -o m.tw");
  EXPECT_EQ(ran.code, 5);
  EXPECT_THAT(ran.err, HasSubstr("may be written by others"));
  EXPECT_THAT(ran.err,
              HasSubstr("2 workloads of the model have no other; expected --db in a folder"));
  EXPECT_THAT(ran.err, testing::Not(HasSubstr("trial")));
}

TEST_F(Compile, RefusesWithTheReason) {
  Ran ran = run("compile m.onnx --dim batch=2 --db k.db");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("-o: expected the name of the model file"));
  ran = run("compile m.onnx --dim batch=2 --const rate=1 --text");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("no input is called 'rate'; the model has x"));
  ran = run("compile m.onnx --dim batch=2 --const x --text");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("--const x: expected INPUT=NUMBER, such as sr=16000"));
  ran = run("compile m.onnx --dim batch=2 -o nowhere/m.tw --db k.db");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("the folder 'nowhere' cannot be written"));
  OnnxFile file;
  file.input("x", {2}).node("Mystery", {"x"}, {"y"}).output("y");
  write("u.onnx", file.bytes());
  ran = run("compile u.onnx --text");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("make_y (Mystery): there is no kernel for this operator"));
  write("no.tw", "nothing");
  EXPECT_EQ(run("run no.tw --in x=x.npy --out y=y.npy").code, 5);
  ran = run("run none.tw --in x=x.npy");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("'tune-cli compile MODEL.onnx -o none.tw' makes one"));
  ran = run("run no.tw --in x=x.npy --default");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("--default: a model file has its kernels"));
}

TEST_F(Compile, PrecisionByRequestSaysItsError) {
  OnnxFile file;
  std::vector<float> w;
  for (int i = 0; i < 64 * 32; ++i) w.push_back(static_cast<float>(i * 37 % 101) / 50 - 1);
  file.input("x", {8, 64}).floats("w", {64, 32}, w);
  file.node("MatMul", {"x", "w"}, {"a"}).node("Relu", {"a"}, {"y"}).output("y");
  write("p.onnx", file.bytes());
  const std::string compile = "compile p.onnx --db k.db --threads 1 --quiet --trials 2 -o p.tw ";
  Ran ran = run(compile + "--precision bf16 --json");
  if (ran.code == 2) {
    EXPECT_THAT(ran.err, HasSubstr("no instructions for products of bf16"));
    GTEST_SKIP() << "no vdpbf16ps";
  }
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.json()["precision"], "bf16");
  EXPECT_GT(ran.json()["error"], 0);
  EXPECT_LT(ran.json()["error"], 0.01);
  EXPECT_TRUE(fs::exists(dir_ / "p.tw"));
  EXPECT_THAT(run(compile + "--precision bf16").out, HasSubstr("outputs are off by"));
  fs::remove(dir_ / "p.tw");
  ran = run(compile + "--precision bf16 --tolerance 1e-6");
  EXPECT_EQ(ran.code, 3);
  EXPECT_THAT(ran.err, HasSubstr("'y' is off by"));
  EXPECT_FALSE(fs::exists(dir_ / "p.tw"));
  ran = run(compile + "--tolerance 1e-4 --json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_LT(ran.json()["error"], 1e-5) << "sums in f32";
}

TEST_F(Compile, PrecisionNeedsInstructions) {
  const Ran ran = run("compile m.onnx --dim batch=2 --text --precision bf16 --target avx2");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("no instructions for products of bf16"));
  EXPECT_THAT(ran.err, HasSubstr("--precision f32"));
}

TEST_F(Compile, RunNamesInputsAndOutputs) {
  ASSERT_EQ(run(kCompile + "-o m.tw --trials 0").code, 0);
  write_input();
  Ran ran = run("run m.tw --out y=y.npy");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("input 'x' is missing"));
  ran = run("run m.tw --in q=x.npy --out y=y.npy");
  EXPECT_THAT(ran.err, HasSubstr("no 'q'; the model has x"));
  ran = run("run m.tw --in x=x.npy --out q=y.npy");
  EXPECT_THAT(ran.err, HasSubstr("no 'q'; the model has y"));
}

}  // namespace
}  // namespace tilewright::cli
