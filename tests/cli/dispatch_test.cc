// A range of sizes from tuning to serving.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>

#include "runtime/tensor/array.h"
#include "runtime/tensor/npy.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kDynamic = " matmul:m=1..64,n=48,k=40";

class DispatchTables : public Cli {
 protected:
  Json tune(const std::string& options = "") {
    Ran ran = run("tune --json --quiet --trials 10 --threads 1 " + options + kDynamic);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.json()["results"][0];
  }

  Json replay(const std::string& options) {
    Ran ran = run("replay --json --threads 1 --require " + options + kDynamic);
    EXPECT_EQ(ran.code, 0) << ran.err << ran.out;
    return ran.json()["results"][0];
  }

  // Runs the table's kernel on the first rows of one and the same matrix.
  NpyArray rows(int64_t m) {
    HostArray a("A", ElemType::f32, {m, 40}), b("B", ElemType::f32, {40, 48});
    a.fill(SeededValues(1, "A", ElemType::f32));
    b.fill(SeededValues(1, "B", ElemType::f32));
    write_npy(dir_ / "a.npy", a);
    write_npy(dir_ / "b.npy", b);
    Ran ran = run("run --threads 1 --dim m=" + std::to_string(m) + kDynamic +
                  " --in A=a.npy --in B=b.npy --out C=c.npy");
    EXPECT_EQ(ran.code, 0) << ran.err;
    return read_npy(dir_ / "c.npy");
  }
};

// The range of a table's "ranges" that holds the size.
Json range_at(const Json& dispatch, int64_t size) {
  for (const Json& r : dispatch["ranges"]) {
    if (r["first"] <= size && size <= r["last"]) return r;
  }
  return nullptr;
}

// At no size that was measured, some of them held out, is the table slower than the default.
void expect_no_loss(const Json& learnt) {
  int held_out = 0;
  for (const Json& p : learnt["points"]) {
    held_out += p["held_out"].get<bool>() ? 1 : 0;
    if (p["default_seconds"].is_null()) continue;
    EXPECT_LE(p["seconds"].get<double>(), 1.02 * p["default_seconds"].get<double>()) << p;
  }
  EXPECT_GT(held_out, 0);
}

TEST_F(DispatchTables, TuningLearnsATableAndEveryCommandGoesByIt) {
  const Json learnt = tune()["dispatch"];
  ASSERT_TRUE(learnt.contains("ranges")) << learnt;
  EXPECT_EQ(learnt["dim"], "m");
  EXPECT_EQ(learnt["ranges"].front()["first"], 1);
  EXPECT_EQ(learnt["ranges"].back()["last"], 64);
  EXPECT_LE(learnt["ranges"].size(), 8u);
  expect_no_loss(learnt);
  for (int64_t m : {1, 17, 64}) {
    const Json expected = range_at(learnt, m);
    const Json row = replay("--dim m=" + std::to_string(m));
    EXPECT_EQ(row["checked"], true);
    EXPECT_EQ(row["record"], expected["record"]) << m;
    EXPECT_EQ(row["range"]["first"], expected["first"]) << m;
    EXPECT_EQ(row["range"]["last"], expected["last"]) << m;
  }
  Ran bench = run(std::string("bench --json --rounds 1 --threads 1 --dim m=17") + kDynamic);
  ASSERT_EQ(bench.code, 0) << bench.err;
  EXPECT_EQ(bench.json()["results"][0]["record"], range_at(learnt, 17)["record"]);
  for (const char* command : {"best", "explain"}) {
    Ran said = run(std::string(command) + " --json --threads 1" + kDynamic);
    ASSERT_EQ(said.code, 0) << said.err;
    const Json dispatch = said.json()["results"][0]["dispatch"];
    EXPECT_EQ(dispatch["points"], learnt["points"]) << command;
    ASSERT_EQ(dispatch["ranges"].size(), learnt["ranges"].size()) << command;
    EXPECT_TRUE(dispatch["ranges"][0]["config"].is_object()) << command;
  }
  const std::string name =
      "kernel " + range_at(learnt, 17)["record"].get<std::string>().substr(0, 8);
  EXPECT_THAT(run(std::string("best --threads 1") + kDynamic).out, HasSubstr(name));
  const std::string why = run(std::string("explain --threads 1") + kDynamic).out;
  EXPECT_THAT(why, HasSubstr(name));
  EXPECT_THAT(why, HasSubstr(" accesses proved for all sizes; checked at m = 1, "));
  const Json sizes = run(std::string("explain --json --threads 1") + kDynamic)
                         .json()["results"][0]["dispatch"]["ranges"][0]["sizes"];
  EXPECT_GT(sizes["accesses"], 0);
  EXPECT_LE(sizes["proved"], sizes["accesses"]);
  EXPECT_GE(sizes["checked"].size(), 7u);
  EXPECT_EQ(sizes["checked"].front()["m"], 1);
  EXPECT_EQ(sizes["checked"].back()["m"], 64);
  EXPECT_THAT(run(std::string("replay --threads 1 --dim m=17") + kDynamic).out,
              HasSubstr(name + " of range "));
  EXPECT_THAT(run("bench --rounds 1 --threads 1 --dim m=17" + std::string(kDynamic)).out,
              HasSubstr(name + " of range "));
}

TEST_F(DispatchTables, OneOrderGivesARowTheSameBitsInEveryBatch) {
  const Json learnt = tune("--one-order")["dispatch"];
  ASSERT_TRUE(learnt.contains("ranges")) << learnt;
  EXPECT_EQ(learnt["one_order"], true);
  const NpyArray all = rows(64);
  for (int64_t m : {1, 17, 63}) {
    const NpyArray few = rows(m);
    ASSERT_EQ(few.shape, (std::vector<int64_t>{m, 48}));
    for (int64_t i = 0; i < m * 48; ++i) {
      const double one = few.get(i), many = all.get(i);
      ASSERT_EQ(std::memcmp(&one, &many, sizeof one), 0) << "element " << i << " at m=" << m;
    }
  }
}

TEST_F(DispatchTables, KernelsBoundsTheTable) {
  EXPECT_EQ(tune("--kernels 1")["dispatch"]["ranges"].size(), 1u);
  Ran none = run(std::string("tune --kernels 0") + kDynamic);
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("--kernels"));
}

// The range of a table over several dimensions that holds m and n.
Json range_at(const Json& dispatch, int64_t m, int64_t n) {
  for (const Json& r : dispatch["ranges"]) {
    const bool of_m = r["first"]["m"] <= m && m <= r["last"]["m"];
    if (of_m && r["first"]["n"] <= n && n <= r["last"]["n"]) return r;
  }
  return nullptr;
}

TEST_F(DispatchTables, SeveralDynamicDimensionsHaveOneTable) {
  const std::string spec = " matmul:m=1..16,n=1..48,k=40";
  Ran ran = run("tune --json --quiet --trials 6 --threads 1" + spec);
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json learnt = ran.json()["results"][0]["dispatch"];
  ASSERT_TRUE(learnt.contains("ranges")) << learnt;
  EXPECT_EQ(learnt["dims"], Json::parse(R"(["m", "n"])"));
  EXPECT_LE(learnt["ranges"].size(), 8u);
  expect_no_loss(learnt);
  for (const auto& [m, n] : {std::pair{1, 1}, std::pair{5, 33}, std::pair{16, 48}}) {
    const std::string at = fmt::format("--dim m={} --dim n={}", m, n);
    Ran replayed = run("replay --json --threads 1 --require " + at + spec);
    ASSERT_EQ(replayed.code, 0) << replayed.err;
    const Json row = replayed.json()["results"][0], expected = range_at(learnt, m, n);
    EXPECT_EQ(row["checked"], true);
    EXPECT_EQ(row["record"], expected["record"]) << at;
    EXPECT_EQ(row["range"]["first"], expected["first"]) << at;
    EXPECT_EQ(row["range"]["last"], expected["last"]) << at;
  }
  for (const char* command : {"best", "explain"}) {
    Ran said = run(std::string(command) + " --json --threads 1" + spec);
    ASSERT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(said.json()["results"][0]["dispatch"]["points"], learnt["points"]) << command;
    EXPECT_THAT(run(std::string(command) + " --threads 1" + spec).out, HasSubstr("m=1.."));
  }
  ASSERT_EQ(run("db export --json --serve serve.db").code, 0);
  Ran served = run("replay --json --threads 1 --require --db serve.db --dim m=5 --dim n=33" + spec);
  EXPECT_EQ(served.json()["results"][0]["record"], range_at(learnt, 5, 33)["record"]);
}

TEST_F(DispatchTables, MoreDynamicDimensionsThanATableHasAreSaid) {
  Ran ran =
      run("tune --quiet --json --trials 2 --threads 1 "
          "'expr:expr=\"C[a,b,c,d,e] = A[a,b,c,d,e] + 1\",dims.a=1..2,dims.b=1..2,dims.c=1..2,"
          "dims.d=1..2,dims.e=1..2'");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.json()["results"][0]["dispatch"]["note"],
            "tables are for at most 4 dynamic dimensions, it has 5");
}

// Times at the small sizes count when a run is resumed: kernels that were fastest there only are
// among the finalists again.
TEST_F(DispatchTables, ARunThatIsResumedKnowsTheTimesAtAllSizes) {
  ASSERT_TRUE(tune("--seed 3")["dispatch"].contains("ranges"));
  const std::string exported = run("db export -").out;
  EXPECT_THAT(exported, HasSubstr(R"(\"sizes\":{\"m\":1})"));
  const Json again = tune("--seed 3 --resume");
  EXPECT_EQ(again["trials"], 10) << "nothing was measured anew";
  EXPECT_TRUE(again["dispatch"].contains("ranges"));
}

TEST_F(DispatchTables, AServingFileHoldsAllThatReplayingNeeds) {
  const Json learnt = tune()["dispatch"];
  ASSERT_EQ(run("tune --quiet --trials 4 --threads 1 " + std::string(kSmall)).code, 0);
  Ran exported = run("db export --json --serve serve.db");
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_EQ(exported.json()["workloads"], 2);
  EXPECT_EQ(exported.json()["dispatch"], 1);
  EXPECT_LT(fs::file_size(dir_ / "serve.db"), fs::file_size(dir_ / "tilewright.db"));
  const Json info = run("db info --json --db serve.db").json();
  EXPECT_EQ(info["serving"], true);
  EXPECT_EQ(info["rows"]["models"], 0);
  EXPECT_EQ(info["rows"]["runs"], 0);
  EXPECT_EQ(run("db check --db serve.db").code, 0);
  fs::remove(dir_ / "tilewright.db");
  const Json row = replay("--db serve.db --dim m=17");
  EXPECT_EQ(row["checked"], true);
  EXPECT_EQ(row["record"], range_at(learnt, 17)["record"]);
  Ran fixed = run("replay --json --threads 1 --require --db serve.db " + std::string(kSmall));
  EXPECT_EQ(fixed.json()["results"][0]["checked"], true);
  Ran tuned = run("tune --quiet --trials 1 --db serve.db " + std::string(kSmall));
  EXPECT_EQ(tuned.code, 5);
  EXPECT_THAT(tuned.err, HasSubstr("was written for serving and is not changed"));
}

TEST_F(DispatchTables, ExportWantsOneKindOfFile) {
  for (const char* arguments : {"", "a.jsonl --serve serve.db"}) {
    Ran ran = run(std::string("db export ") + arguments);
    EXPECT_EQ(ran.code, 2);
    EXPECT_THAT(ran.err, HasSubstr("db export: expected either a file for JSON lines or --serve "
                                   "FILE"));
  }
}

}  // namespace
}  // namespace tilewright::cli
