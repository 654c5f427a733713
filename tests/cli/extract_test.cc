// tune-cli extract: the file that it writes, what it prints, what it refuses.
#include <gmock/gmock.h>

#include "tests/cli/onnx/onnx_file.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using test::OnnxFile;
using testing::HasSubstr;

class Extract : public Cli {
 protected:
  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(dir_ / name, std::ios::binary) << bytes;
  }
  // Two equal products, one of another shape, and a node that no spec describes.
  void SetUp() override {
    Cli::SetUp();
    OnnxFile file;
    file.input("x", {"batch", 16}).weight("w", {16, 16}).weight("v", {16, 8}).output("n");
    file.node("MatMul", {"x", "w"}, {"a"}).node("MatMul", {"a", "w"}, {"b"});
    file.node("MatMul", {"b", "v"}, {"c"}).node("NonZero", {"c"}, {"n"});
    write("m.onnx", file.bytes());
  }
};

TEST_F(Extract, TheFileIsOneThatTuneTakes) {
  Ran ran = run("extract m.onnx --dim batch=4 -o specs.json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("     2        0.002  80.0%  matmul:m=4,n=16,k=16\n"));
  EXPECT_THAT(ran.out, HasSubstr("1 nodes left out\n  make_n (NonZero): there is no spec for"));
  Json file = Json::parse(read(dir_ / "specs.json"));
  EXPECT_EQ(file, Json::parse(R"({"workloads": [
      {"op": "matmul", "m": 4, "n": 16, "k": 16, "name": "make_a", "count": 2},
      {"op": "matmul", "m": 4, "n": 8, "k": 16, "name": "make_c", "count": 1}]})"));
  Ran plan = run("tune --dry-run --json specs.json");
  ASSERT_EQ(plan.code, 0) << plan.err;
  EXPECT_EQ(plan.json()["results"][0]["spec"], "matmul:m=4,n=16,k=16");
  EXPECT_EQ(plan.json()["results"][0]["name"], "make_a");
}

TEST_F(Extract, WithoutAFileTheSpecsGoToStandardOutput) {
  Ran ran = run("extract m.onnx --dim batch=1..4");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(Json::parse(ran.out)["workloads"][0]["m"], "1..4");
  EXPECT_THAT(ran.err, HasSubstr("2 workloads, "));
  EXPECT_EQ(run("extract m.onnx --dim batch=1 --quiet").err, "");
  Ran tuned =
      shell(TILEWRIGHT_BINARY_DIR "/tune-cli extract m.onnx --dim batch=2 | " TILEWRIGHT_BINARY_DIR
                                  "/tune-cli tune - --trials 1 --threads 1 --json");
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_EQ(tuned.json()["results"].size(), 2u);
}

TEST_F(Extract, TheSummaryForProgramsTellsWorkAndWhatIsLeftOut) {
  Json json = run("extract m.onnx --dim batch=4 --json").json();
  EXPECT_EQ(json["nodes"], 4);
  EXPECT_EQ(json["opsets"][""], 17);
  EXPECT_EQ(json["flops"], 2 * 4 * 16 * (16 + 16 + 8));
  EXPECT_EQ(json["results"][0]["count"], 2);
  EXPECT_EQ(json["results"][0]["flops"], 2 * 4 * 16 * 16);
  EXPECT_EQ(json["results"][0]["nodes"], Json({"make_a", "make_b"}));
  EXPECT_EQ(json["left_out"][0]["op"], "NonZero");
  EXPECT_FALSE(fs::exists(dir_ / "specs.json"));
}

TEST_F(Extract, RefusalsNameTheirCause) {
  auto refused = [&](const std::string& arguments, const std::string& message) {
    Ran ran = run("extract -o out.json " + arguments);
    EXPECT_EQ(ran.code, 2) << arguments;
    EXPECT_THAT(ran.err, HasSubstr(message)) << arguments;
    EXPECT_FALSE(fs::exists(dir_ / "out.json")) << arguments;
  };
  const std::string wanted = ": expected NAME=SIZE or NAME=LEAST..MOST, such as seq=1..512";
  refused("m.onnx", "the inputs have dimensions without sizes: batch (x, axis 0)");
  refused("m.onnx --dim batch", "--dim batch" + wanted);
  refused("m.onnx --dim batch=0", "--dim batch=0" + wanted);
  refused("m.onnx --dim batch=8..4", "--dim batch=8..4" + wanted);
  refused("m.onnx --dim batch=1 --dim batch=2", "--dim batch=2: batch is given twice");
  refused("m.onnx --dim batch=1 --dim n=2", "have no dimension of that name; they have: batch");
  refused("none.onnx", "none.onnx: cannot be read: No such file");
  write("cut.onnx", read(dir_ / "m.onnx").substr(0, 200));
  refused("cut.onnx", "cut.onnx: byte ");
  write("empty.onnx", OnnxFile().input("x", {2}).node("NonZero", {"x"}, {"y"}).bytes());
  refused("empty.onnx",
          "empty.onnx: no workload was found; 1 nodes were left out, the first of them make_y "
          "(NonZero): there is no spec for this operator");
}

}  // namespace
}  // namespace tilewright::cli
