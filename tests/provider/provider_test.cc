// The provider on a stand-in runtime: what it refuses, claims, logs and computes.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <new>

#include "tests/provider/provider_fixture.h"
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
TEST_F(ProviderTest, AFileThatTheTimeForTrialsDoesNotReachLeavesTheNodesWhereTheyAre) {
  write_file(serving::testing::product_graph(b));
  options[kPrefix + "trial"] = "1";
  options[kPrefix + "trial_seconds"] = "0";
  ASSERT_EQ(create(), "");
  ASSERT_EQ(capability(), "");
  EXPECT_THAT(stand_in.claimed, IsEmpty());
  EXPECT_THAT(
      stand_in.log,
      ElementsAre(HasSubstr("was not tried: the 0 s of the option trial_seconds are over")));
}

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

}  // namespace
}  // namespace tilewright::provider::testing
