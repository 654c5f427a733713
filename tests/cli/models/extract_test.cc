// tune-cli extract: the file that it writes, what it prints, what it refuses.
#include <gmock/gmock.h>

#include <limits>

#include "database/store.h"
#include "tests/cli/models/onnx_file.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using test::OnnxFile;
using testing::HasSubstr;

class Extract : public Cli {
 protected:
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
  Ran ran = run("extract m.onnx --nodes --dim batch=4 -o specs.json");
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

// A workload that the model uses 40 times gets all its trials before the other one gets a second
// batch. Without counts they take turns.
TEST_F(Extract, CountsDecideWhichWorkloadGetsTheNextTrials) {
  OnnxFile file;
  file.input("x", {"batch", 16}).weight("w", {16, 64}).weight("v", {64, 64}).output("y40");
  file.node("MatMul", {"x", "w"}, {"y0"});
  for (int i = 0; i < 40; ++i) {
    file.node("MatMul", {"y" + std::to_string(i), "v"}, {"y" + std::to_string(i + 1)});
  }
  write("often.onnx", file.bytes());
  ASSERT_EQ(run("extract often.onnx --nodes --dim batch=4 -o specs.json").code, 0);
  Ran ran = run("tune specs.json --trials 20 --batch 4 --threads 1 --quiet --json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::string often = ran.json()["results"][1]["workload"];
  EXPECT_EQ(ran.json()["results"][1]["spec"], "matmul:m=4,n=64,k=64");
  database::Store store =
      database::Store::open((dir_ / "tilewright.db").string(), database::Mode::ReadOnly);
  int64_t last_often = 0, second_batch = std::numeric_limits<int64_t>::max();
  int of_often = 0;
  for (const database::Record& r : store.records().records) {
    if (r.confirmed) continue;
    if (r.workload_hash == often) {
      last_often = std::max(last_often, r.created);
      ++of_often;
    } else if (r.trial >= 16) {
      second_batch = std::min(second_batch, r.created);
    }
  }
  EXPECT_EQ(of_often, 20);
  EXPECT_LT(last_often, second_batch);
}

TEST_F(Extract, WithoutAFileTheSpecsGoToStandardOutput) {
  Ran ran = run("extract m.onnx --nodes --dim batch=1..4");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(Json::parse(ran.out)["workloads"][0]["m"], "1..4");
  EXPECT_THAT(ran.err, HasSubstr("2 workloads, "));
  EXPECT_EQ(run("extract m.onnx --nodes --dim batch=1 --quiet").err, "");
  Ran tuned = shell(TILEWRIGHT_BINARY_DIR
                    "/tune-cli extract m.onnx --nodes --dim batch=2 | " TILEWRIGHT_BINARY_DIR
                    "/tune-cli tune - --trials 1 --threads 1 --json");
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_EQ(tuned.json()["results"].size(), 2u);
}

TEST_F(Extract, TheSummaryForProgramsTellsWorkAndWhatIsLeftOut) {
  Json json = run("extract m.onnx --nodes --dim batch=4 --json").json();
  EXPECT_EQ(json["nodes"], 4);
  EXPECT_EQ(json["opsets"][""], 17);
  EXPECT_EQ(json["flops"], 2 * 4 * 16 * (16 + 16 + 8));
  EXPECT_EQ(json["results"][0]["count"], 2);
  EXPECT_EQ(json["results"][0]["flops"], 2 * 4 * 16 * 16);
  EXPECT_EQ(json["results"][0]["nodes"], Json({"make_a", "make_b"}));
  EXPECT_EQ(json["left_out"][0]["op"], "NonZero");
  EXPECT_FALSE(fs::exists(dir_ / "specs.json"));
}

// The shape that x takes lies in a file beside the model, behind 8 bytes of something else.
class ExtractExternal : public Extract {
 protected:
  using Place = std::vector<std::pair<std::string, std::string>>;

  Ran extract(const Place& place, const std::string& options = "") {
    OnnxFile file;
    file.input("x", {4, 6}).weight("w", {8, 5}).output("y");
    file.external("shape", test::kInt64, {2}, place);
    file.node("Reshape", {"x", "shape"}, {"r"}).node("MatMul", {"r", "w"}, {"y"});
    file.node("MatMul", {"x", "u"}, {"z"}).weight("u", {6, 2});
    write("e.onnx", file.bytes());
    return run("extract e.onnx --nodes " + options);
  }
  const std::string data_ = std::string(8, '\xff') + test::raw_text<int64_t>({3, 8});
};

TEST_F(ExtractExternal, ConstantsAreReadFromTheirFiles) {
  write("e.data", data_);
  Ran ran = extract({{"location", "e.data"}, {"offset", "8"}, {"length", "16"}}, "--json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.json()["results"][0]["spec"], "matmul:m=3,n=5,k=8");
  EXPECT_EQ(ran.json()["missing_files"], Json::object());
  fs::create_directory(dir_ / "below");
  write("below/s.data", data_.substr(8));
  Ran below = extract({{"location", "below/s.data"}}, "--json");
  EXPECT_EQ(below.json()["results"][0]["spec"], "matmul:m=3,n=5,k=8") << below.err;
}

TEST_F(ExtractExternal, AFileThatIsNotThereIsSaid) {
  Ran ran = extract({{"location", "e.data"}}, "-o specs.json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("e.data is not there: the values of 1 constant are not known"));
  EXPECT_THAT(ran.out, HasSubstr("matmul:m=4,n=2,k=6"));
  EXPECT_THAT(ran.out, HasSubstr("make_y (MatMul): the shape of 'r' is not known"));
  EXPECT_EQ(extract({{"location", "e.data"}}, "--json").json()["missing_files"]["e.data"], 1);
}

TEST_F(ExtractExternal, PlacesThatAreNoneAreRefused) {
  write("e.data", data_);
  const auto refusal = [&](const Place& place) {
    Ran ran = extract(place);
    EXPECT_EQ(ran.code, 2) << ran.err;
    return ran.err;
  };
  EXPECT_THAT(refusal({{"location", "../e.data"}}),
              HasSubstr("the data of tensor 'shape' lie in '../e.data'; expected a file in the "
                        "model's folder"));
  EXPECT_THAT(refusal({{"location", "/etc/passwd"}}), HasSubstr("lie in '/etc/passwd'"));
  EXPECT_THAT(refusal({}), HasSubstr("lie in ''"));
  EXPECT_THAT(refusal({{"location", "e.data"}, {"offset", "-8"}}),
              HasSubstr("have the offset '-8'; expected a number of bytes"));
  EXPECT_THAT(refusal({{"location", "e.data"}, {"length", "24"}}),
              HasSubstr("have 24 bytes; 2 elements of i64 have 16"));
  EXPECT_THAT(refusal({{"location", "e.data"}, {"offset", "9"}}),
              HasSubstr("expected the 16 bytes of tensor 'shape' from byte 9 on"));
  EXPECT_THAT(refusal({{"location", "e.data"}, {"offset", "18446744073709551615"}}),
              HasSubstr("from byte 18446744073709551615 on"));
}

TEST_F(Extract, RefusalsNameTheirCause) {
  auto refused = [&](const std::string& arguments, const std::string& message) {
    Ran ran = run("extract --nodes -o out.json " + arguments);
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
