// ONNX files in memory on kernels of a database, through the C interface.
#include <sys/stat.h>

#include <set>

#include "serving/models/hits_interface.h"
#include "tests/cli/models/onnx_file.h"
#include "tests/serving/models/model_fixture.h"

namespace tilewright::serving::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// y = x B, with further nodes behind it.
test::OnnxFile product_file(const Floats& b) {
  test::OnnxFile file;
  const std::string data(static_cast<const char*>(b.tensor.data), 16 * 8 * sizeof(float));
  file.input("x", {4, 16})
      .constant("B", test::kFloat, {16, 8}, data)
      .node("MatMul", {"x", "B"}, {"y"});
  return file;
}

class ServingHits : public ::testing::Test {
 protected:
  ~ServingHits() override { tw_model_close(model); }

  tw_status open(const std::string& database, const std::string& onnx, int threads = 1) {
    Opened opened(database);
    auto options = TW_INIT(tw_model_options);
    options.threads = threads;
    const auto missed = [](void* user, const char* node) {
      static_cast<std::set<std::string>*>(user)->insert(node);
    };
    const tw_status status = tw_model_of_hits(opened.library, onnx.data(), onnx.size(), &options,
                                              missed, &missing, &model);
    return status;
  }

  Floats b{{16, 8}, 2};
  std::set<std::string> missing;
  tw_model* model = nullptr;
};

TEST_F(ServingHits, RunWhenTheirDatabaseIsGone) {
  {
    Database db{{.tag = 5}};
    ASSERT_EQ(open(db.path(), product_file(b).output("y").bytes()), TW_OK) << tw_last_error();
  }
  EXPECT_THAT(missing, IsEmpty());
  auto node = TW_INIT(tw_model_node);
  ASSERT_EQ(tw_model_node_count(model), 1u);
  ASSERT_EQ(tw_model_node_at(model, 0, &node), TW_OK);
  EXPECT_EQ(node.outcome, TW_HIT);
  Floats x({4, 16}, 1), y({4, 8});
  const DLTensor *inputs[] = {&x.tensor}, *outputs[] = {&y.tensor};
  auto args = TW_INIT(tw_model_args);
  args.inputs = inputs;
  args.outputs = outputs;
  args.input_count = args.output_count = 1;
  for (int run = 0; run < 2; ++run) {
    ASSERT_EQ(tw_model_run(model, &args), TW_OK) << tw_last_error();
    EXPECT_EQ(product_fault(x, b, y, 5), "");
  }
}

TEST_F(ServingHits, NodesWithoutAHitAreNamed) {
  Database db{{}};
  auto file = product_file(b).node("Softmax", {"y"}, {"z"}).output("z");
  EXPECT_EQ(open(db.path(), file.bytes()), TW_ERROR_MISS);
  EXPECT_THAT(missing, ElementsAre("make_z"));
  EXPECT_THAT(tw_last_error(), AllOf(HasSubstr("1 workloads have no kernel"), HasSubstr("softmax:"),
                                     HasSubstr("tune-cli tune softmax:")));
}

TEST_F(ServingHits, NodesThatNoKernelComputesAreNamed) {
  Database db{{}};
  auto file = product_file(b).node("Bernoulli", {"y"}, {"z"}).output("z");
  EXPECT_EQ(open(db.path(), file.bytes()), TW_ERROR_MISS);
  EXPECT_THAT(missing, ElementsAre("make_z"));
}

TEST_F(ServingHits, ViewsAloneAreNone) {
  Database db{{}};
  test::OnnxFile file;
  file.input("x", {4, 16}).node("Flatten", {"x"}, {"y"}).output("y");
  EXPECT_EQ(open(db.path(), file.bytes()), TW_ERROR_MISS);
  EXPECT_THAT(missing, ElementsAre("make_y"));
  EXPECT_THAT(tw_last_error(), HasSubstr("no kernel would run"));
}

// Nobody measured that such kernels are the best ones here.
TEST_F(ServingHits, LesserKernelsAreMisses) {
  const std::string onnx = product_file(b).output("y").bytes();
  const HandMade lesser[] = {{.threads = 2}, {.is_default = true}, {.sound = false}};
  for (const HandMade& made : lesser) {
    Database db{made};
    missing.clear();
    EXPECT_EQ(open(db.path(), onnx), TW_ERROR_MISS);
    EXPECT_THAT(missing, ElementsAre("make_y"));
  }
}

TEST_F(ServingHits, KernelsOfAnUntrustedDatabaseAreMisses) {
  Database db{{}};
  ASSERT_EQ(chmod(db.path().c_str(), 0666), 0);
  EXPECT_EQ(open(db.path(), product_file(b).output("y").bytes()), TW_ERROR_MISS);
  EXPECT_THAT(tw_last_error(),
              AllOf(HasSubstr("may be written by others"), Not(HasSubstr("this would tune it"))));
}

TEST_F(ServingHits, OpenSizesAndOtherBytesAreRefused) {
  Database db{{}};
  test::OnnxFile file;
  file.input("x", {"rows", 16}).node("Relu", {"x"}, {"y"}).output("y");
  EXPECT_EQ(open(db.path(), file.bytes()), TW_ERROR_ARGUMENT);
  EXPECT_THAT(tw_last_error(), HasSubstr("input 'x' has open sizes"));
  EXPECT_EQ(open(db.path(), "no model"), TW_ERROR_FILE);
  EXPECT_EQ(open(db.path(), product_file(b).output("y").bytes(), -1), TW_ERROR_ARGUMENT);
  EXPECT_THAT(missing, IsEmpty());
}

}  // namespace
}  // namespace tilewright::serving::testing
