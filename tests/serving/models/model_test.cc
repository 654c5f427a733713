// Whole models through the C interface.
#include "tests/serving/models/model_fixture.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tilewright/tilewright.hpp"

namespace tilewright::serving::testing {
namespace {

using ::testing::HasSubstr;

TEST(ServingModel, RunsItsNodes) {
  Database db{{.tag = 5}};
  Floats b({16, 8}, 2), x({2, 2, 16}, 1), flat({4, 16}, 1), y({4, 8}), z({32});
  OpenedModel opened(write_model(db.path(), product_graph(b)));
  ASSERT_EQ(opened.status, TW_OK) << tw_last_error();
  for (int run = 0; run < 2; ++run) {
    ASSERT_EQ(opened.run(x, y, z), TW_OK) << tw_last_error();
    EXPECT_EQ(product_fault(flat, b, y, 5), "");
    for (int64_t i = 0; i < 32; ++i) EXPECT_EQ(z[i], y[i]);
  }
}

// A kernel of 1 to 64 rows serves runs of 2 to 32.
TEST(ServingModel, TakesEachSizeOfARange) {
  Database db{{.spec = "matmul:m=1..64,n=8,k=16", .dynamic = true, .tag = 5}};
  Floats b({16, 8}, 2);
  OpenedModel opened(write_model(db.path(), ranged_product_graph(b)));
  ASSERT_EQ(opened.status, TW_OK) << tw_last_error();
  auto port = TW_INIT(tw_port);
  ASSERT_EQ(tw_model_output_at(opened.model, 0, &port), TW_OK);
  EXPECT_EQ(port.shape[0], 32);
  EXPECT_EQ(port.least[0], 2);
  EXPECT_EQ(port.shape[1], port.least[1]);
  for (int64_t rows : {16, 1, 7}) {
    Floats x({rows, 2, 16}, 1), flat({2 * rows, 16}, 1), y({2 * rows, 8}), z({16 * rows});
    const DLTensor* inputs[] = {&x.tensor};
    int64_t shape[] = {0, 0};
    ASSERT_EQ(tw_model_output_shape(opened.model, inputs, 1, 0, shape), TW_OK) << tw_last_error();
    EXPECT_EQ(shape[0], 2 * rows);
    EXPECT_EQ(shape[1], 8);
    ASSERT_EQ(opened.run(x, y, z), TW_OK) << tw_last_error();
    EXPECT_EQ(product_fault(flat, b, y, 5), "");
    for (int64_t i = 0; i < 16 * rows; ++i) EXPECT_EQ(z[i], y[i]);
  }
  Floats many({17, 2, 16}), some({3, 2, 16}), y({6, 8}), z({48}), other({4, 8});
  EXPECT_EQ(opened.run(many, y, z), TW_ERROR_TENSOR);
  EXPECT_THAT(tw_last_error(), HasSubstr("input 'x': axis 0 (rows) has 17; expected 1 to 16"));
  EXPECT_EQ(opened.run(some, other, z), TW_ERROR_TENSOR);
  EXPECT_THAT(tw_last_error(), HasSubstr("output 'y': axis 0 has 4; expected 6, which is 2*rows"));
}

TEST(ServingModel, NamesItsPortsAndNodes) {
  Database db{{}};
  Floats b({16, 8}, 2), x({2, 2, 16}), y({4, 8}), z({32});
  OpenedModel opened(write_model(db.path(), product_graph(b)));
  ASSERT_EQ(opened.status, TW_OK) << tw_last_error();
  EXPECT_EQ(tw_model_input_count(opened.model), 1u);
  EXPECT_EQ(tw_model_output_count(opened.model), 2u);
  auto port = TW_INIT(tw_port);
  ASSERT_EQ(tw_model_input_at(opened.model, 0, &port), TW_OK);
  EXPECT_STREQ(port.name, "x");
  EXPECT_EQ(port.ndim, 3);
  EXPECT_EQ(port.shape[2], 16);
  EXPECT_EQ(port.dtype.bits, 32);
  EXPECT_EQ(tw_model_output_at(opened.model, 2, &port), TW_ERROR_ARGUMENT);
  ASSERT_EQ(tw_model_node_count(opened.model), 1u);  // a view is none
  ASSERT_EQ(opened.run(x, y, z, nullptr, true), TW_OK) << tw_last_error();
  auto node = TW_INIT(tw_model_node);
  ASSERT_EQ(tw_model_node_at(opened.model, 0, &node), TW_OK);
  EXPECT_STREQ(node.label, "dense");
  EXPECT_STREQ(node.spec, "matmul:m=4,n=8,k=16");
  EXPECT_EQ(node.outcome, TW_HIT);
  EXPECT_GT(node.seconds, 0);
}

TEST(ServingModel, RefusesTensorsByName) {
  Database db{{}};
  Floats b({16, 8}, 2), x({2, 2, 16}), wrong({2, 2, 15}), flat({4, 16}), y({4, 8}), z({32});
  OpenedModel opened(write_model(db.path(), product_graph(b)));
  ASSERT_EQ(opened.status, TW_OK) << tw_last_error();
  EXPECT_EQ(opened.run(wrong, y, z), TW_ERROR_TENSOR);
  EXPECT_THAT(tw_last_error(), HasSubstr("input 'x': axis 2 has 15; expected 16"));
  EXPECT_EQ(opened.run(flat, y, z), TW_ERROR_TENSOR);
  EXPECT_THAT(tw_last_error(), HasSubstr("input 'x': it has 2 axes; expected 3"));
  EXPECT_EQ(opened.run(x, z, y), TW_ERROR_TENSOR);
  EXPECT_THAT(tw_last_error(), HasSubstr("output 'y': it has 1 axes"));
  y.tensor.dtype.code = kDLInt;
  EXPECT_EQ(opened.run(x, y, z), TW_ERROR_TENSOR);
  EXPECT_THAT(tw_last_error(), HasSubstr("output 'y': its elements are i32; expected f32"));
}

TEST(ServingModel, NamesNodesThatNoKernelServes) {
  Database db{{.spec = "matmul:m=4,n=8,k=17"}};
  Floats b({16, 8}, 2);
  OpenedModel opened(write_model(db.path(), product_graph(b)));
  EXPECT_EQ(opened.status, TW_ERROR_MISS);
  EXPECT_THAT(tw_last_error(), HasSubstr("dense: "));
}

// One reason is one line, however many nodes it holds for, and the file's rights are no matter of tuning.
TEST(ServingModel, TellsAReasonOnceForAllItsNodes) {
  Database db{{}};
  Floats b({16, 8}, 2);
  const graph::Graph one = product_graph(b);
  graph::Graph graph = graph::parse_graph(graph::to_string(one) +
                                          "\"w\": f32[4, 8] = \"matmul:m=4,n=8,k=16\" (A=\"x\", "
                                          "B=\"B\") for \"again\"\noutput \"w\"\n");
  graph.values[graph.find("B")].data = one.values[one.find("B")].data;
  const std::string path = write_model(db.path(), graph);
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  const OpenedModel opened(path);
  EXPECT_EQ(opened.status, TW_ERROR_MISS);
  const std::string said = tw_last_error();
  EXPECT_THAT(said, HasSubstr("\n  2 nodes, dense among them: "));
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  EXPECT_THAT(said, HasSubstr("chmod go-w"));
  EXPECT_THAT(said, ::testing::Not(HasSubstr("tune-cli compile")));
}

// A default is no hit, unless it won against others; what makes the model again is 'compile'.
TEST(ServingModel, TellsUntunedDefaults) {
  for (bool compared : {false, true}) {
    Database db{{.is_default = true, .confirmed = compared}};
    Floats b({16, 8}, 2);
    const std::string path = write_model(db.path(), product_graph(b));
    std::vector<std::string> lines;
    tw::Model model(path, 1, [&](const std::string& line) { lines.push_back(line); });
    EXPECT_EQ(model.nodes()[0].outcome, compared ? TW_HIT : TW_DEFAULT);
    ASSERT_EQ(lines.size(), compared ? 0u : 1u);
    if (compared) continue;
    EXPECT_STREQ(model.nodes()[0].reason, "the untuned default");
    EXPECT_THAT(lines[0], HasSubstr("tune-cli compile MODEL -o " + path + " --db DATABASE"));
  }
}

TEST(ServingModel, RefusesOtherFiles) {
  Database db{{}};
  OpenedModel opened(db.path());
  EXPECT_EQ(opened.status, TW_ERROR_DATABASE);
  EXPECT_THAT(tw_last_error(), HasSubstr("is no model file"));
}

TEST(ServingModel, TellsInItsOwnWordsThatAFileIsNone) {
  test::TempDir folder;
  const std::string path = folder.path("x.tw");
  const auto refused = [&](const std::string& what) {
    OpenedModel opened(path);
    EXPECT_EQ(opened.status, TW_ERROR_DATABASE);
    EXPECT_EQ(std::string(tw_last_error()),
              what + "; 'tune-cli compile MODEL -o " + path + "' makes one");
  };
  refused("there is no model file '" + path + "'");
  std::ofstream(path) << "an ONNX file, say, of some length";
  refused("'" + path + "' is no model file");
  Database db{{}};
  Floats b({16, 8}, 2);
  const std::string whole = write_model(db.path(), product_graph(b));
  std::filesystem::copy_file(whole, path, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  refused("model file '" + path + "' is damaged or truncated");
}

void change(const std::string& path, const std::string& sql) {
  chmod(path.c_str(), 0600);
  sqlite3* file = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &file), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(file, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(file);
}

TEST(ServingModel, RefusesDamagedParts) {
  Database db{{}};
  Floats b({16, 8}, 2);
  const std::string path = write_model(db.path(), product_graph(b));
  change(path, "UPDATE parts SET bytes = zeroblob(512) WHERE name LIKE 'xxh3:%'");
  OpenedModel damaged(path);
  EXPECT_EQ(damaged.status, TW_ERROR_DATABASE);
  EXPECT_THAT(tw_last_error(), HasSubstr("is damaged"));
  EXPECT_FALSE(database::Store::open(path, database::Mode::ReadOnly).check().rows.empty());
  change(path, "DELETE FROM parts WHERE name = 'program'");
  OpenedModel without(path);
  EXPECT_EQ(without.status, TW_ERROR_DATABASE);
  EXPECT_THAT(tw_last_error(), HasSubstr("part 'program'"));
}

TEST(ServingModel, RefusesAProgramThatIsNone) {
  Database db{{}};
  Floats b({16, 8}, 2);
  graph::Graph graph = product_graph(b);
  graph.nodes[0].spec = "matmul:m=4,n=8,k=15";
  const std::string path = write_model(db.path(), graph);
  change(path,
         "DELETE FROM parts WHERE name = 'index'");  // which 'compile' makes of programs that are
  OpenedModel opened(path);
  EXPECT_NE(opened.status, TW_OK);
  EXPECT_THAT(tw_last_error(), HasSubstr("'dense': operand A is 'x' of 64 elements"));
}

}  // namespace
}  // namespace tilewright::serving::testing
