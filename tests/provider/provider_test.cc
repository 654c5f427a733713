// The provider on a stand-in runtime: what it refuses, claims, logs and computes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <new>

#include "provider/region.h"
#include "tests/provider/stand_in.h"
#include "tests/serving/models/model_fixture.h"
#include "tilewright/version.h"

// Allocations of this program.
static std::atomic<size_t> allocations = 0;
void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace tilewright::provider::testing {
namespace {

using serving::testing::Floats;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kPrefix = "ep.tilewrightexecutionprovider.";

// A session of the provider on a graph of one node, whose model file is that of product_graph().
class ProviderTest : public ::testing::Test {
 protected:
  ProviderTest() {
    size_t count = 0;
    EXPECT_EQ(
        message_of(CreateEpFactories("tilewright", stand_in.base(), nullptr, &factory, 1, &count)),
        "");
    EXPECT_EQ(count, 1u);
    options[kPrefix + "models"] = folder.path("");
    options[kPrefix + "trial"] = "0";
    options[kPrefix + "threads"] = "1";
    x = graph.value("x", {2, 2, 16});
    y = graph.value("y", {4, 8});
    z = graph.value("z", {32});
    y->is_output = z->is_output = true;
    graph.node("Custom", {x}, {y, z});
  }
  ~ProviderTest() override {
    if (ep != nullptr) {
      if (info != nullptr) info->release_state(info, state);
      ep->release_compute_infos(ep, &info, info == nullptr ? 0 : 1);
      factory->release_ep(factory, ep);
    }
    EXPECT_EQ(message_of(ReleaseEpFactory(factory)), "");
  }

  std::string create() {
    return message_of(
        factory->create_ep(factory, nullptr, nullptr, 0, as_options(options), nullptr, &ep));
  }
  // The path at which the model file of the graph's one region is looked for.
  std::string model_path() const {
    const GraphView view(stand_in.runtime(), as_graph(graph));
    return folder.path(digest_of(onnx_of(view, regions_of(view, {}).at(0))) + ".tw");
  }
  void write_file(const graph::Graph& program, const serving::testing::HandMade& kernel = {}) {
    const serving::testing::Database database({kernel});
    std::filesystem::copy(serving::testing::write_model(database.path(), program), model_path());
  }
  std::string capability() { return message_of(ep->get_capability(ep, as_graph(graph), nullptr)); }
  std::string compile() {
    const ort::Graph* graphs[] = {as_graph(graph)};
    const ort::Node* fused[] = {as_node(&graph.nodes[0])};
    return message_of(ep->compile(ep, graphs, fused, 1, &info, nullptr));
  }
  // Runs the node on rows of x.
  std::string run(const FakeValue& input, FakeContext& context) {
    context.inputs = {&input};
    context.outputs.resize(2);
    EXPECT_EQ(message_of(info->create_state(info, nullptr, &state)), "");
    return message_of(info->compute(info, state, as_context(context)));
  }
  FakeValue input(std::vector<int64_t> shape) const {
    const Floats values(shape, 3);
    FakeValue value{ort::kF32, std::move(shape), {}};
    const size_t rows = static_cast<size_t>(value.shape[0] * value.shape[1]);
    const auto* bytes = static_cast<const char*>(values.tensor.data);
    value.data.assign(bytes, bytes + rows * 16 * 4);
    return value;
  }
  void expect_product(const FakeValue& x_value, const FakeValue& y_value) const {
    const auto* a = reinterpret_cast<const float*>(x_value.data.data());
    const auto* b_data = static_cast<const float*>(b.tensor.data);
    const auto* c = reinterpret_cast<const float*>(y_value.data.data());
    for (size_t i = 0; i < y_value.data.size() / 32; ++i) {
      for (size_t j = 0; j < 8; ++j) {
        float sum = 0;
        for (size_t k = 0; k < 16; ++k) sum += a[i * 16 + k] * b_data[k * 8 + j];
        EXPECT_EQ(c[i * 8 + j], sum) << i << ", " << j;
      }
    }
  }

  StandIn stand_in;
  test::TempDir folder;
  FakePairs options;
  FakeGraph graph;
  FakeInfo *x, *y, *z;
  Floats b{{16, 8}, 1};
  ort::Factory* factory = nullptr;
  ort::Ep* ep = nullptr;
  ort::ComputeInfo* info = nullptr;
  void* state = nullptr;
};

TEST(ProviderVersion, AnOlderRuntimeIsRefusedWithTheVersionThatIsNeeded) {
  StandIn stand_in;
  stand_in.newest = ort::kVersion - 1;
  stand_in.release = "1.23.2";
  ort::Factory* factory = nullptr;
  size_t count = 0;
  EXPECT_EQ(message_of(CreateEpFactories("t", stand_in.base(), nullptr, &factory, 1, &count)),
            "Tilewright's provider needs ONNX Runtime 1.24 or later; this one is 1.23.2: pip "
            "install -U onnxruntime");
  EXPECT_EQ(count, 0u);
}

TEST(ProviderVersion, ThereMustBeRoom) {
  StandIn stand_in;
  size_t count = 0;
  EXPECT_THAT(message_of(CreateEpFactories("t", stand_in.base(), nullptr, nullptr, 0, &count)),
              HasSubstr("there is no room for a factory"));
}

TEST_F(ProviderTest, TellsItsNameAndServesTheCpuAlone) {
  EXPECT_STREQ(factory->name(factory), "TilewrightExecutionProvider");
  EXPECT_STREQ(factory->own_version(factory), TILEWRIGHT_VERSION);
  EXPECT_FALSE(factory->is_stream_aware(factory));
  const ort::Hardware gpu = static_cast<ort::Hardware>(1), cpu = ort::kCpu;
  const ort::HardwareDevice* devices[] = {reinterpret_cast<const ort::HardwareDevice*>(&gpu),
                                          reinterpret_cast<const ort::HardwareDevice*>(&cpu)};
  ort::EpDevice* made[2] = {};
  size_t count = 0;
  EXPECT_EQ(message_of(factory->supported_devices(factory, devices, 2, made, 2, &count)), "");
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(static_cast<void*>(made[0]), static_cast<const void*>(&cpu));
}

TEST_F(ProviderTest, RefusesOptionsWithWhatWouldDo) {
  const auto refused = [&](const std::string& name, const std::string& value) {
    FakePairs given = {{kPrefix + name, value}};
    ort::Ep* none = nullptr;
    return message_of(
        factory->create_ep(factory, nullptr, nullptr, 0, as_options(given), nullptr, &none));
  };
  EXPECT_EQ(
      refused("model", "x"),
      "Tilewright: there is no option 'model'; there are models, database, dump, alone, exclude, "
      "threads, instances, trial, trial_seconds, tolerance, fallback, trust");
  EXPECT_EQ(refused("threads", "two"),
            "Tilewright: option threads is 'two'; expected a number from 0 to 1024");
  EXPECT_EQ(refused("instances", "0"),
            "Tilewright: option instances is '0'; expected a number from 1 to 1024");
  EXPECT_EQ(refused("trial", "yes"), "Tilewright: option trial is 'yes'; expected 0 or 1");
  EXPECT_EQ(refused("tolerance", "2"),
            "Tilewright: option tolerance is '2'; expected a number between 0 and 1");
}

TEST_F(ProviderTest, RunsAModelFileInThePlaceOfItsNodes) {
  write_file(serving::testing::product_graph(b));
  options[kPrefix + "threads"] = "3";
  ASSERT_EQ(create(), "");
  ASSERT_EQ(capability(), "");
  EXPECT_THAT(stand_in.claimed, ElementsAre(&graph.nodes[0]))
      << ::testing::PrintToString(stand_in.log);
  ASSERT_EQ(compile(), "");
  const FakeValue given = input({2, 2, 16});
  FakeContext context;
  ASSERT_EQ(run(given, context), "");
  EXPECT_THAT(context.outputs[0].shape, ElementsAre(4, 8));
  EXPECT_THAT(context.outputs[1].shape, ElementsAre(32));
  expect_product(given, context.outputs[0]);
  EXPECT_EQ(context.outputs[0].data, context.outputs[1].data);
  EXPECT_GT(stand_in.loops, 0) << "loops run on the session's threads";
  const size_t before = allocations;
  ASSERT_EQ(info->compute(info, state, as_context(context)), nullptr);
  EXPECT_EQ(allocations, before) << "a run allocates nothing";
}

TEST_F(ProviderTest, OutputsGoToTheirNamesInTheRuntimesOrder) {
  write_file(serving::testing::product_graph(b));
  ASSERT_EQ(create(), "");
  ASSERT_EQ(capability(), "");
  FakeNode fused = graph.nodes[0];
  std::swap(fused.outputs[0], fused.outputs[1]);
  const ort::Graph* graphs[] = {as_graph(graph)};
  const ort::Node* nodes[] = {as_node(&fused)};
  ASSERT_EQ(message_of(ep->compile(ep, graphs, nodes, 1, &info, nullptr)), "");
  const FakeValue given = input({2, 2, 16});
  FakeContext context;
  ASSERT_EQ(run(given, context), "");
  EXPECT_THAT(context.outputs[0].shape, ElementsAre(32));
  EXPECT_THAT(context.outputs[1].shape, ElementsAre(4, 8));
  expect_product(given, context.outputs[1]);
}

TEST_F(ProviderTest, SizesOutsideOfTheFilesAreRefusedWithItsRange) {
  x->sizes = {-1, 2, 16};
  y->sizes = z->sizes = {-1};
  y->sizes = {-1, 8};
  y->names = {"", ""};
  write_file(serving::testing::ranged_product_graph(b),
             {.spec = "matmul:m=2..32,n=8,k=16", .dynamic = true});
  options[kPrefix + "fallback"] = "0";
  ASSERT_EQ(create(), "");
  ASSERT_EQ(capability(), "");
  ASSERT_THAT(stand_in.log, IsEmpty());
  ASSERT_EQ(compile(), "");
  const FakeValue three = input({3, 2, 16}), many = input({17, 2, 16}), flat = input({6, 1, 16});
  FakeContext context;
  ASSERT_EQ(run(three, context), "");
  EXPECT_THAT(context.outputs[0].shape, ElementsAre(6, 8));
  expect_product(three, context.outputs[0]);
  EXPECT_THAT(run(many, context),
              AllOf(HasSubstr("input 'x' is [17, 2, 16]"), HasSubstr("takes [1..16, 2, 16]"),
                    HasSubstr("tune-cli compile --dim")));
  EXPECT_THAT(run(flat, context), HasSubstr("input 'x' is [6, 1, 16]"));
}

TEST_F(ProviderTest, WithoutAFileNodesStayAndOneLineSaysWhy) {
  ASSERT_EQ(create(), "");
  ASSERT_EQ(capability(), "");
  EXPECT_THAT(stand_in.claimed, IsEmpty());
  EXPECT_THAT(
      stand_in.log,
      ElementsAre(AllOf(HasSubstr("1 nodes run as before, since there is no " + model_path()),
                        HasSubstr("dump=FOLDER"))));
}

TEST_F(ProviderTest, WithoutFoldersNodesStayAndOneLineSaysWhy) {
  options.erase(kPrefix + "models");
  ASSERT_EQ(create(), "");
  ASSERT_EQ(capability(), "");
  EXPECT_THAT(
      stand_in.log,
      ElementsAre(HasSubstr("none of the options models=FOLDER (of model files), database=FILE")));
}

TEST_F(ProviderTest, ADumpedRegionComesWithTheCommandThatCompilesIt) {
  options[kPrefix + "dump"] = folder.path("dump");
  x->sizes = {-1, -1, 16};
  x->names = {"rows", "?", ""};
  ASSERT_EQ(create(), "");
  ASSERT_EQ(capability(), "");
  const std::string stem = std::filesystem::path(model_path()).stem().string();
  EXPECT_THAT(stand_in.log, ElementsAre(HasSubstr("tune-cli compile " + folder.path("dump") + "/" +
                                                  stem + ".onnx -o ")));
  EXPECT_THAT(stand_in.log[0], HasSubstr(stem + ".tw --dim 'rows=SIZE' --dim 'x.1=SIZE'"));
  EXPECT_TRUE(std::filesystem::exists(folder.path("dump") + "/" + stem + ".onnx"));
}

TEST_F(ProviderTest, AFileThatDoesNotOpenLeavesTheNodesWhereTheyAre) {
  std::ofstream(model_path()) << "no model";
  ASSERT_EQ(create(), "");
  ASSERT_EQ(capability(), "");
  EXPECT_THAT(stand_in.claimed, IsEmpty());
  EXPECT_THAT(stand_in.log,
              ElementsAre(AllOf(HasSubstr("1 nodes run as before"), HasSubstr("cannot serve"))));
}

TEST_F(ProviderTest, AFileOfOtherShapesLeavesTheNodesWhereTheyAre) {
  x->sizes = {2, 3, 16};
  write_file(serving::testing::product_graph(b));
  ASSERT_EQ(create(), "");
  ASSERT_EQ(capability(), "");
  EXPECT_THAT(stand_in.claimed, IsEmpty());
  EXPECT_THAT(stand_in.log,
              ElementsAre(HasSubstr("does not fit: input 'x' is [2, 3, 16]; it takes [2, 2, 16]")));
}

// The graph has no file as a whole, and one for its first node.
TEST_F(ProviderTest, ANodeIsClaimedAloneWhereItsRegionHasNoFile) {
  write_file(serving::testing::product_graph(b));  // before there is a second node
  FakeInfo* last = graph.value("last", {4, 8});
  last->is_output = true;
  graph.node("Relu", {y}, {last});
  ASSERT_EQ(create(), "");
  ASSERT_EQ(capability(), "");
  EXPECT_THAT(stand_in.claimed, ElementsAre(&graph.nodes[0]));
  EXPECT_THAT(
      stand_in.log,
      ElementsAre(AllOf(HasSubstr("1 nodes run as before, since there is no " + model_path()),
                        HasSubstr("(1 others are claimed alone)"))));
  ASSERT_EQ(compile(), "");
}

TEST_F(ProviderTest, NodesAreDumpedOneByOne) {
  options[kPrefix + "dump"] = folder.path("dump");
  options[kPrefix + "alone"] = "1";
  graph.node("Relu", {y}, {graph.value("last", {4, 8})});
  graph.values.back().is_output = true;
  ASSERT_EQ(create(), "");
  ASSERT_EQ(capability(), "");
  EXPECT_EQ(stand_in.log.size(), 2u);
  std::multiset<std::string> kinds;  // each node is a part of the graph, which an empty file says
  for (const auto& file : std::filesystem::directory_iterator(folder.path("dump"))) {
    kinds.insert(file.path().extension());
  }
  EXPECT_EQ(kinds, (std::multiset<std::string>{".onnx", ".onnx", ".part", ".part"}));
}

TEST_F(ProviderTest, FailuresOfTheRuntimeComeBackAsStatuses) {
  ASSERT_EQ(create(), "");
  stand_in.set<ort::GetNodes>(
      [](const ort::Graph*, const ort::Node**, size_t) { return failure("no nodes today"); });
  EXPECT_EQ(capability(), "Tilewright: no nodes today");
}

// A database in the place of model files.
class ProviderHits : public ProviderTest {
 protected:
  ProviderHits() {
    options.erase(kPrefix + "models");
    graph.nodes.clear();
    y->is_output = z->is_output = false;
    rows = graph.value("rows", {4, 16});
    out = graph.value("out", {4, 8});
    out->is_output = true;
    const auto* data = static_cast<const char*>(b.tensor.data);
    weight = {ort::kF32, {16, 8}, {data, data + sizeof(float) * 16 * 8}};
    FakeInfo* w = graph.value("w", {16, 8});
    w->constant = &weight;
    product = graph.node("MatMul", {rows, w}, {out});
  }
  // A node behind the product, for which there is no kernel.
  void add_softmax() {
    out->is_output = false;
    FakeInfo* last = graph.value("last", {4, 8});
    last->is_output = true;
    graph.node("Softmax", {out}, {last});
    product = &graph.nodes[0];
  }
  void start(const std::string& path) {
    options[kPrefix + "database"] = path;
    ASSERT_EQ(create(), "");
    ASSERT_EQ(capability(), "");
  }
  void expect_runs(int tag) {
    ASSERT_EQ(compile(), "");
    const Floats values({4, 16}, 3);
    const auto* bytes = static_cast<const char*>(values.tensor.data);
    const FakeValue given{ort::kF32, {4, 16}, {bytes, bytes + sizeof(float) * 4 * 16}};
    FakeContext context;
    ASSERT_EQ(run(given, context), "");
    const auto* a = reinterpret_cast<const float*>(given.data.data());
    const auto* b_data = reinterpret_cast<const float*>(weight.data.data());
    const auto* c = reinterpret_cast<const float*>(context.outputs[0].data.data());
    for (size_t i = 0; i < 4; ++i) {
      for (size_t j = 0; j < 8; ++j) {
        auto sum = static_cast<float>(tag);
        for (size_t k = 0; k < 16; ++k) sum += a[i * 16 + k] * b_data[k * 8 + j];
        EXPECT_EQ(c[i * 8 + j], sum) << i << ", " << j;
      }
    }
  }

  FakeValue weight;
  FakeInfo *rows, *out;
  const FakeNode* product;
};

TEST_F(ProviderHits, RunFromTheDatabaseAloneAndNothingIsWritten) {
  {
    const serving::testing::Database database({{.tag = 5}});
    start(database.path());
    size_t files = 0;
    for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(
             std::filesystem::path(database.path()).parent_path())) {
      ++files;
    }
    EXPECT_EQ(files, 1u);
  }
  EXPECT_THAT(stand_in.claimed, ElementsAre(product));
  EXPECT_THAT(stand_in.log, IsEmpty());
  expect_runs(5);
}

TEST_F(ProviderHits, NodesWithoutOneStayAndOneLineSaysWhy) {
  add_softmax();
  const serving::testing::Database database({{.tag = 5}});
  start(database.path());
  EXPECT_THAT(stand_in.claimed, ElementsAre(product));
  EXPECT_THAT(stand_in.log,
              ElementsAre(AllOf(HasSubstr("1 nodes run as before, since " + database.path()),
                                HasSubstr("tune-cli tune softmax:m=4,n=8"))));
  expect_runs(5);
}

TEST_F(ProviderHits, KernelsForOtherThreadsAreNone) {
  const serving::testing::Database database({{.threads = 2}});
  start(database.path());
  EXPECT_THAT(stand_in.claimed, IsEmpty());
  EXPECT_THAT(stand_in.log,
              ElementsAre(AllOf(HasSubstr("1 nodes run as before"), HasSubstr("--threads 1"))));
}

TEST_F(ProviderHits, ADatabaseThatIsMissingDamagedOrUntrustedLeavesTheNodesAndOneLine) {
  const serving::testing::Database untrusted({{}});
  std::filesystem::permissions(untrusted.path(), std::filesystem::perms(0666));
  std::ofstream(folder.path("damaged.db")) << "SQLite format 3, or not";
  const std::map<std::string, std::string> cases = {
      {folder.path("none.db"), "there is no database"},
      {folder.path("damaged.db"), "option database: "},
      {untrusted.path(), "may be written by others"}};
  for (const auto& [path, reason] : cases) {
    stand_in.log.clear();
    start(path);
    EXPECT_THAT(stand_in.claimed, IsEmpty());
    EXPECT_THAT(stand_in.log,
                ElementsAre(AllOf(HasSubstr("1 nodes run as before, since "), HasSubstr(reason))));
    factory->release_ep(factory, ep);
    ep = nullptr;
  }
}

TEST_F(ProviderHits, OpenSizesHaveNone) {
  rows->sizes = out->sizes = {-1, 16};
  const serving::testing::Database database({{}});
  start(database.path());
  EXPECT_THAT(stand_in.claimed, IsEmpty());
  EXPECT_THAT(stand_in.log, ElementsAre(HasSubstr("input 'rows' has open sizes")));
}

TEST_F(ProviderHits, AGraphThatCannotBeTimedIsNotLookedUp) {
  rows->sizes = out->sizes = {-1, 16};
  options[kPrefix + "trial"] = "1";
  start(folder.path("none.db"));
  EXPECT_THAT(
      stand_in.log,
      ElementsAre(HasSubstr("none.db: the graph cannot be timed: input 'rows' has open sizes")));
}

TEST_F(ProviderHits, NothingIsUsedThatTheTimeForTrialsDoesNotReach) {
  const serving::testing::Database database({{.tag = 5}});
  options[kPrefix + "trial"] = "1";
  options[kPrefix + "trial_seconds"] = "0";
  start(database.path());
  EXPECT_THAT(stand_in.claimed, IsEmpty());
  EXPECT_THAT(stand_in.log, ElementsAre(HasSubstr("trials have taken the 0 s that the option")));
}

TEST_F(ProviderHits, EachInstanceHasAModel) {
  const serving::testing::Database database({{.tag = 5}});
  options[kPrefix + "instances"] = "3";
  start(database.path());
  expect_runs(5);
}

TEST_F(ProviderHits, ReasonsOfSeveralLinesAreCut) {
  out->is_output = false;
  FakeInfo* last = graph.value("last", {4, 8});
  last->is_output = true;
  graph.node("Unheard", {out}, {last});
  product = &graph.nodes[0];
  const serving::testing::Database database({{.tag = 5}});
  start(database.path());
  EXPECT_THAT(stand_in.claimed, ElementsAre(product));
  EXPECT_THAT(stand_in.log,
              ElementsAre(AllOf(HasSubstr("1 nodes run as before"), Not(HasSubstr("\n")))));
}

TEST_F(ProviderHits, AModelFileComesFirst) {
  const serving::testing::Database database({{.tag = 5}});
  options[kPrefix + "models"] = folder.path("");
  std::ofstream(model_path()) << "no model";
  start(database.path());
  EXPECT_THAT(stand_in.claimed, ElementsAre(product));
  EXPECT_THAT(stand_in.log, ElementsAre(HasSubstr("cannot serve")));
  expect_runs(5);
}

// Such a model would name a file that does not exist.
TEST_F(ProviderHits, AModelOfContextNodesTakesNone) {
  const serving::testing::Database database({{}});
  options["ep.context_enable"] = "1";
  start(database.path());
  EXPECT_THAT(stand_in.claimed, IsEmpty());
  EXPECT_THAT(stand_in.log, ElementsAre(HasSubstr("expected models=FOLDER")));
}

}  // namespace
}  // namespace tilewright::provider::testing
