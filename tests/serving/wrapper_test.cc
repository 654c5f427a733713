// The C++ wrapper: owners, exceptions, and that it is no more than the C interface.
#include "tilewright/tilewright.hpp"

#include "tests/serving/fixture.h"

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

TEST(ServingWrapper, ThrowsWhatTheLibrarySays) {
  try {
    tw::Library("nowhere.db");
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
