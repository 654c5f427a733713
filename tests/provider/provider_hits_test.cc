// The provider on hits of a database: what it claims, logs and computes.
#include <filesystem>
#include <fstream>
#include <map>

#include "tests/provider/provider_fixture.h"

namespace tilewright::provider::testing {
namespace {

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
  EXPECT_THAT(stand_in.log, ElementsAre(HasSubstr("the 0 s of the option trial_seconds are over")));
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
