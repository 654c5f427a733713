// The index of a model file: what opening takes from it, and when it does not.
#include "serving/models/model_index.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include "tests/serving/models/model_fixture.h"
#include "tilewright/tilewright.hpp"

namespace tilewright::serving::testing {
namespace {

using ::testing::HasSubstr;

void edit(const std::string& path, const std::string& sql) {
  chmod(path.c_str(), 0600);
  sqlite3* file = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &file), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(file, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(file);
  sqlite3_close(file);
}

// The product of the file with a kernel of this tag.
std::string product_of(const std::string& path, int tag) {
  Floats b({16, 8}, 2), x({2, 2, 16}, 1), flat({4, 16}, 1), y({4, 8}), z({32});
  OpenedModel opened(path);
  if (opened.status != TW_OK || opened.run(x, y, z) != TW_OK) return tw_last_error();
  return product_fault(flat, b, y, tag);
}

// As earlier versions wrote them.
TEST(ServingModelIndex, FilesWithoutOneAreServedTheSame) {
  Database db{{.tag = 5}};
  Floats b({16, 8}, 2);
  const std::string path = write_model(db.path(), product_graph(b));
  EXPECT_EQ(product_of(path, 5), "");
  edit(path, "DELETE FROM parts WHERE name = 'index'");
  EXPECT_EQ(product_of(path, 5), "");
}

TEST(ServingModelIndex, SpecsOfAFileAreNotParsed) {
  Database db{{}};
  Floats b({16, 8}, 2);
  const graph::Graph graph = product_graph(b);
  const StoredModel stored(write_model(db.path(), graph));
  ASSERT_EQ(stored.index().specs.size(), 1u);
  const SpecFacts& facts = stored.index().specs[0].facts;
  EXPECT_EQ(facts.hash, parse_workload("matmul:m=4,n=8,k=16").hash());
  EXPECT_EQ(facts.operands, (std::vector<std::string>{"A", "B", "C"}));
  const StoredWorkload& workload = stored.index().workloads.at(facts.hash);
  ASSERT_EQ(workload.kernels.size(), 1u);
  EXPECT_EQ(workload.kernels[0].target, native_identity());
  EXPECT_EQ(workload.kernels[0].artifact, nullptr);  // it is read when it is loaded
}

TEST(ServingModelIndex, RangesSurvive) {
  Database db{{.spec = "matmul:m=1..64,n=8,k=16", .dynamic = true, .tag = 5}};
  Floats b({16, 8}, 2);
  const StoredModel stored(write_model(db.path(), ranged_product_graph(b)));
  const NodeSpec& spec = stored.index().specs.at(0);
  ASSERT_EQ(spec.facts.dims.size(), 1u);
  EXPECT_EQ(spec.facts.dims[0].min, 2);
  EXPECT_EQ(spec.facts.dims[0].max, 32);
  EXPECT_EQ(spec.sizes.at("m").number, 2);
  EXPECT_EQ(spec.sizes.at("m").powers[0], 1);
}

TEST(ServingModelIndex, IsRefusedWhereItIsDamaged) {
  Database db{{}};
  Floats b({16, 8}, 2);
  const std::string path = write_model(db.path(), product_graph(b));
  edit(path, "UPDATE parts SET bytes = zeroblob(99) WHERE name = 'index'");
  EXPECT_THAT(product_of(path, 0), HasSubstr("part 'index' of '" + path + "' is damaged"));
}

TEST(ServingModelIndex, IsRefusedForAnotherProgram) {
  Database db{{}};
  Floats b({16, 8}, 2);
  graph::Graph other = product_graph(b);
  other.name = "other";
  const std::string path = write_model(db.path(), product_graph(b));
  const std::string from = write_model(db.path(), other, "other.tw");
  edit(path, "ATTACH '" + from +
                 "' AS other; REPLACE INTO parts SELECT * FROM other.parts WHERE name = 'index'");
  EXPECT_THAT(product_of(path, 0), HasSubstr("it belongs to another program"));
}

// A kernel's code is found by its hash, and known by its checksum.
TEST(ServingModelIndex, KernelsThatAreDamagedDoNotServe) {
  Database db{{}};
  Floats b({16, 8}, 2);
  const std::string path = write_model(db.path(), product_graph(b));
  edit(path, "UPDATE artifacts SET bytes = zeroblob(length(bytes))");
  EXPECT_THAT(product_of(path, 0), HasSubstr("its code has another checksum"));
  edit(path, "DELETE FROM artifacts");
  EXPECT_THAT(product_of(path, 0), HasSubstr("is missing"));
}

// A file whose program has products of 15, and whose index says that the kernel of 16 computes them.
std::string forged(const std::string& database, const Floats& b) {
  const graph::Graph right = product_graph(b);
  const std::string data = right.values[right.find("B")].data->substr(0, size_t{15} * 8 * 4);
  const std::string program =
      "graph \"product\"\ninput \"x\": f32[2, 2, 15]\nconst \"B\": f32[15, 8] = " +
      graph::data_hash(data) +
      "\n\"y\": f32[4, 8] = \"matmul:m=4,n=8,k=15\" (A=\"x\", B=\"B\") for \"dense\"\noutput "
      "\"y\"\n";
  database::ServingContent content;
  content.parts[kProgramPart] = std::make_shared<const std::string>(program);
  content.parts[graph::data_hash(data)] = std::make_shared<const std::string>(data);
  content.index_name = kIndexPart;
  content.index = [&](const database::Store& from, const std::set<std::string>& kernels) {
    ModelIndex index = make_index(right, Table::all_of(from));
    index.specs[0].facts.text = "matmul:m=4,n=8,k=15";
    return to_text(index, graph::parse_graph(program), program, kernels);
  };
  const std::string path = database.substr(0, database.rfind('/') + 1) + "forged.tw";
  database::Store::open(database, database::Mode::ReadOnly).export_serving(path, content);
  return path;
}

TEST(ServingModelIndex, OperandsAreThoseThatTheKernelTakes) {
  Database db{{}};
  Floats b({16, 8}, 2);
  const std::string path = forged(db.path(), b);
  const OpenedModel opened(path);
  EXPECT_NE(opened.status, TW_OK);
  EXPECT_THAT(tw_last_error(), HasSubstr("'dense': operand A is 'x' of 60 elements of f32; its "
                                         "kernel takes 64 of f32"));
}

// Whoever may write the file may write an index, too: there the specs are parsed.
TEST(ServingModelIndex, DoesNotCountInAFileThatIsNotTrusted) {
  Database db{{}};
  Floats b({16, 8}, 2);
  const std::string path = forged(db.path(), b);
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  const OpenedModel opened(path);
  EXPECT_EQ(opened.status, TW_ERROR_MISS);
  EXPECT_THAT(tw_last_error(), HasSubstr("dense: never tuned"));
}

database::TargetIdentity machine(const std::string& features) {
  return database::make_target("another chip (family 1 model 2)", features, 4, "");
}

// A file of several machines' kernels serves each of them, the other ones by what their code needs.
TEST(ServingModelIndex, ServesMachinesOtherThanTheOneThatMadeTheFile) {
  Database fit{{.tag = 1, .seconds = 1e-9, .target = machine("avx999")},
               {.tag = 2, .seconds = 1e-6, .target = machine("")}};
  Floats b({16, 8}, 2);
  const std::string path = write_model(fit.path(), product_graph(b));
  EXPECT_EQ(product_of(path, 2), "");
  const tw::Model model(path, 0, [](const std::string&) {});
  EXPECT_EQ(model.nodes()[0].outcome, TW_NEAR);
  EXPECT_THAT(model.nodes()[0].reason, HasSubstr("tuned for another chip"));

  Database own{{.tag = 1, .seconds = 1e-9, .target = machine("")}, {.tag = 3}};
  EXPECT_EQ(product_of(write_model(own.path(), product_graph(b)), 3), "");

  Database unfit{{.tag = 1, .target = machine("avx999")}};
  EXPECT_THAT(product_of(write_model(unfit.path(), product_graph(b)), 1),
              HasSubstr("dense: tuned for another chip"));
}

// The compiler was told of instructions that this processor lacks, though the target has them all.
TEST(ServingModelIndex, FlagsOfTheCompilerCount) {
  test::TempDir folder;
  const std::string path = folder.path("kernels.db");
  database::Store store = database::Store::open(path, database::Mode::Create);
  const HandMade made;
  add_kernel(store, made, hand_made_source(made), "-O3 -mavx999");
  Floats b({16, 8}, 2);
  EXPECT_THAT(product_of(write_model(path, product_graph(b)), 0),
              HasSubstr("its code needs avx999"));
}

}  // namespace
}  // namespace tilewright::serving::testing
