// ONNX files in memory on kernels of a database, through the C interface.
#include <sys/stat.h>

#include <array>
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

  tw_status open(const std::string& database, const std::string& onnx, int threads = 1,
                 const char* target = nullptr) {
    Opened opened(database);
    auto options = TW_INIT(tw_model_options);
    options.threads = threads;
    options.target = target;
    const auto missed = [](void* user, const char* node) {
      static_cast<std::set<std::string>*>(user)->insert(node);
    };
    const tw_status status = tw_model_of_hits(opened.library, onnx.data(), onnx.size(), &options,
                                              missed, &missing, 1, &model);
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

// Each with memory of its own.
TEST_F(ServingHits, SeveralModelsOfOneFile) {
  Database db{{.tag = 5}};
  std::array<tw_model*, 2> models = {};
  {
    Opened opened(db.path());
    const std::string onnx = product_file(b).output("y").bytes();
    auto options = TW_INIT(tw_model_options);
    options.threads = 1;
    ASSERT_EQ(tw_model_of_hits(opened.library, onnx.data(), onnx.size(), &options, nullptr, nullptr,
                               models.size(), models.data()),
              TW_OK)
        << tw_last_error();
  }
  ASSERT_NE(models[0], models[1]);
  tw_model_close(models[0]);
  Floats x({4, 16}, 1), y({4, 8});
  const DLTensor *inputs[] = {&x.tensor}, *outputs[] = {&y.tensor};
  auto args = TW_INIT(tw_model_args);
  args.inputs = inputs;
  args.outputs = outputs;
  args.input_count = args.output_count = 1;
  EXPECT_EQ(tw_model_run(models[1], &args), TW_OK) << tw_last_error();
  EXPECT_EQ(product_fault(x, b, y, 5), "");
  tw_model_close(models[1]);
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

// Kernels are chosen for CPUs.
TEST_F(ServingHits, ATargetOfAGpuIsRefused) {
  Database db{{}};
  const std::string onnx = product_file(b).output("y").bytes();
  EXPECT_EQ(open(db.path(), onnx, 1, "cuda:sm_90a"), TW_ERROR_ARGUMENT);
  EXPECT_THAT(tw_last_error(), HasSubstr("target is 'cuda:sm_90a'"));
  EXPECT_THAT(missing, IsEmpty());
}

// The importer takes such a view for one.
TEST_F(ServingHits, NodesThatMakeNoProgramAreNamed) {
  Database db{{}};
  auto file = product_file(b).integers("sizes", {5, 16}).node("Reshape", {"x", "sizes"}, {"r"});
  EXPECT_EQ(open(db.path(), file.output("y").output("r").bytes()), TW_ERROR_MISS);
  EXPECT_THAT(missing, ElementsAre("make_r"));
  EXPECT_THAT(tw_last_error(), HasSubstr("'r' is no view of 'x'"));
}

// A kernel that does nothing with the operands of this workload.
void add_idle_kernel(const std::string& database, const std::string& spec) {
  KernelSource source;
  source.code = test::kPrelude +
                "int32_t kernel(void* const* args, const int64_t* dims, const tw_context* context) "
                "{ return 0; }";
  source.description.main.symbol = "kernel";
  for (const OperandInfo& operand : operands_of(parse_workload(spec), {})) {
    source.description.main.params.push_back(test::param(
        operand.name, {operand.shape.begin(), operand.shape.end()}, operand.role, operand.elem));
  }
  database::Store store = database::Store::open(database, database::Mode::ReadWrite);
  add_kernel(store, {.spec = spec}, source);
}

// Estimates choose channels first, as the nodes have them.
TEST_F(ServingHits, LayoutsFollowTheKernelsThatThereAre) {
  Database db{{}};
  test::OnnxFile file = product_file(b);
  file.input("f", {1, 64, 9, 9}).weight("w", {64, 64, 3, 3});
  file.node("Conv", {"f", "w"}, {"p"},
            {test::wholes("pads", {1, 1, 1, 1}), test::wholes("strides", {2, 2})});
  file.node("Relu", {"p"}, {"q"});
  file.node("ReduceMax", {"q"}, {"m"}, {test::wholes("axes", {2, 3}), test::whole("keepdims", 0)});
  const std::string onnx = file.output("y").output("m").bytes();
  EXPECT_EQ(open(db.path(), onnx), TW_ERROR_MISS);
  add_idle_kernel(
      db.path(),
      "expr:expr=\"T0[i0, i1, i2, i3] = select(i1 >= 1 && i1 < 10 && i2 >= 1 && i2 < 10, "
      "X0[i0, i3, i1 - 1, i2 - 1], 0); "
      "T1[i0, i1_1, i2_1, i3] += T0[i0, i1_1 * 2 + r0, i2_1 * 2 + r1, r2] * X1[r0, r1, r2, i3]; "
      "Y[i0, i1_1, i2_1, i3] = max(T1[i0, i1_1, i2_1, i3], 0)\",dims.i0=1,dims.i1=11,dims.i1_1=5,"
      "dims.i2=11,dims.i2_1=5,dims.i3=64,dims.r0=3,dims.r1=3,dims.r2=64,shapes.X0=[1,64,9,9],"
      "shapes.X1=[3,3,64,64],weights=[X1]");
  add_idle_kernel(db.path(), "reduce:shape=[1,5,5,64],axes=[1,2],kind=max");
  ASSERT_EQ(open(db.path(), onnx), TW_OK) << tw_last_error();
}

}  // namespace
}  // namespace tilewright::serving::testing
