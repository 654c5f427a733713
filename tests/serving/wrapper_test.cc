// The C++ wrapper: owners, exceptions, and that it is no more than the C interface.
#include "tilewright/tilewright.hpp"

#include "tests/serving/models/model_fixture.h"

namespace tilewright::serving::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ServingWrapper, ServesAKernel) {
  Database db{{.spec = "matmul:m=1..64,n=8,k=16", .dynamic = true, .tag = 4, .scratch = 10}};
  std::vector<std::string> lines;
  tw::Library library(db.path(), [&](const std::string& line) { lines.push_back(line); });
  const std::string spec = "matmul:m=1..4096,n=8,k=16";
  tw::Prepared prepared = library.prepare({.specs = {spec}, .sizes = {{"m", {8}}}, .threads = 1});
  ASSERT_EQ(prepared.report().size(), 1u);
  EXPECT_EQ(prepared.report()[0].outcome, TW_NEAR);
  EXPECT_THAT(lines, ElementsAre(HasSubstr("made for matmul:m=1..64,n=8,k=16")));

  tw::Kernel kernel = prepared.find(spec);
  ASSERT_EQ(kernel.operands().size(), 3u);
  EXPECT_STREQ(kernel.operands()[1].name, "B");
  Floats a({8, 16}, 1), b({16, 8}, 2), c({8, 8});
  tw::Weights weights = kernel.pack({{"B", &b.tensor}});
  EXPECT_EQ(weights.bytes(), 16u * 8 * 4);
  EXPECT_EQ(weights.identity(), kernel.identity());
  tw::Pool pool(2);
  ASSERT_EQ(kernel.workspace_bytes(2), 20u);
  alignas(64) char workspace[20];
  kernel.launch({.tensors = {&a.tensor, nullptr, &c.tensor},
                 .weights = &weights,
                 .workspace = workspace,
                 .workspace_bytes = sizeof workspace,
                 .executor = pool.executor()});
  EXPECT_EQ(product_fault(a, b, c, 4), "");
}

TEST(ServingWrapper, RunsAModel) {
  Database db{{.tag = 5}};
  Floats b({16, 8}, 2), x({2, 2, 16}, 1), flat({4, 16}, 1), y({4, 8}), z({32});
  const std::string path = write_model(db.path(), product_graph(b));
  tw::Model model(path, 1);
  ASSERT_EQ(model.inputs().size(), 1u);
  EXPECT_STREQ(model.inputs()[0].name, "x");
  ASSERT_EQ(model.outputs().size(), 2u);
  EXPECT_EQ(model.outputs()[1].shape[0], 32);
  tw::Pool pool(2);
  model.run({&x.tensor}, {&y.tensor, &z.tensor}, pool.executor(), true);
  EXPECT_EQ(product_fault(flat, b, y, 5), "");
  ASSERT_EQ(model.nodes().size(), 1u);
  EXPECT_GT(model.nodes()[0].seconds, 0);
  try {
    model.run({&flat.tensor}, {&y.tensor, &z.tensor});
    FAIL() << "expected a refusal";
  } catch (const tw::Error& e) {
    EXPECT_EQ(e.status(), TW_ERROR_TENSOR);
    EXPECT_THAT(e.what(), HasSubstr("input 'x'"));
  }
}

TEST(ServingWrapper, TellsHowShapesFollowFromDimensions) {
  const std::string spec = "matmul:m=2..64,n=8,k=16";
  Database db{{.spec = spec, .dynamic = true}};
  tw::Prepared prepared = tw::Library(db.path()).prepare({.specs = {spec}});
  tw::Kernel kernel = prepared.find(spec);
  ASSERT_EQ(kernel.dims().size(), 1u);
  const tw_dim m = kernel.dims()[0];
  EXPECT_STREQ(m.name, "m");
  EXPECT_EQ(m.min, 2);
  EXPECT_EQ(m.max, 64);
  EXPECT_EQ(m.operand, 0u) << "A comes before C";
  EXPECT_EQ(m.axis, 0u);
  const tw_extent rows = kernel.extent(2, 0), columns = kernel.extent(2, 1);
  ASSERT_EQ(rows.factor_count, 1u);
  EXPECT_EQ(rows.factors[0], 1);
  EXPECT_EQ(rows.offset, 0);
  EXPECT_EQ(columns.factor_count, 0u);
  EXPECT_EQ(columns.offset, 8);
  EXPECT_EQ(columns.divisor, 1);

  auto dim = TW_INIT(tw_dim);
  EXPECT_EQ(tw_dim_at(kernel.get(), 1, &dim), TW_ERROR_ARGUMENT);
  EXPECT_STREQ(tw_last_error(), "index is 1; there are 1 dynamic dimensions");
  auto extent = TW_INIT(tw_extent);
  EXPECT_EQ(tw_extent_at(kernel.get(), 3, 0, &extent), TW_ERROR_ARGUMENT);
  EXPECT_EQ(tw_extent_at(kernel.get(), 2, 2, &extent), TW_ERROR_ARGUMENT);
  EXPECT_STREQ(tw_last_error(), "index is 2; there are 2 axes");
  EXPECT_EQ(tw_extent_at(nullptr, 0, 0, &extent), TW_ERROR_ARGUMENT);
  EXPECT_EQ(tw_dim_count(nullptr), 0u);
}

TEST(ServingWrapper, ThrowsWhatTheLibrarySays) {
  try {
    const tw::Library library("nowhere.db");
    FAIL() << "a database that is not there was opened";
  } catch (const tw::Error& e) {
    EXPECT_EQ(e.status(), TW_ERROR_DATABASE);
    EXPECT_THAT(e.what(), HasSubstr("nowhere.db"));
  }
  Database db{HandMade{}};
  tw::Prepared prepared = tw::Library(db.path()).prepare({.specs = {"matmul:m=4,n=8,k=16"}});
  try {
    prepared.find("matmul:m=5,n=8,k=16");
    FAIL() << "a spec that was not prepared was found";
  } catch (const tw::Error& e) {
    EXPECT_EQ(e.status(), TW_ERROR_ARGUMENT);
  }
}

}  // namespace
}  // namespace tilewright::serving::testing
