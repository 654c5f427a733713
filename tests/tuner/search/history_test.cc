// The use of earlier records in a new tuning run.
#include "tuner/search/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "ir/ops/spec.h"
#include "tuner/features/features.h"

namespace tilewright {
namespace {

namespace db = database;
using testing::ElementsAre;
using testing::FloatNear;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class History : public testing::Test {
 protected:
  History() {
    std::string pattern = std::filesystem::temp_directory_path() / "tilewright-history.XXXXXX";
    directory_ = mkdtemp(pattern.data());
    store_.emplace(db::Store::open(directory_ + "/h.db", db::Mode::Create));
  }
  ~History() override {
    store_.reset();
    std::filesystem::remove_all(directory_);
  }

  db::Record record(const std::string& spec, const std::string& config, double seconds) {
    Workload w = make_workload(parse_spec(spec));
    db::Record r;
    r.workload_hash = w.hash();
    r.workload_canonical = w.canonical;
    r.op = w.op;
    r.target.hash = "here";
    r.sketch = "cpu_tiles";
    r.config = config;
    r.verdict = seconds > 0 ? db::Verdict::Valid : db::Verdict::CompileError;
    if (seconds > 0) {
      r.samples = {seconds};
    } else {
      r.reason = "no such header";
    }
    r.features = {20, 2, 3};  // a millisecond is predicted
    r.feature_version = kFeatureVersion;
    return r;
  }

  static db::TargetIdentity here() { return {.hash = "here", .features = "fast"}; }

  std::vector<float> scores(const std::set<std::string>& without = {}) {
    std::vector<float> list;
    for (const Sample& s : stored_samples(*store_, "here", kFeatureVersion, without))
      list.push_back(s.target);
    return list;
  }

  std::string directory_;
  std::optional<db::Store> store_;
};

// One that failed is no sample.
TEST_F(History, TargetsAreErrorsBesideTheWorkloadsMedian) {
  store_->insert(record("matmul:m=8,n=8,k=8", R"({"a":1})", 2e-3));
  store_->insert(record("matmul:m=8,n=8,k=8", R"({"a":2})", 1e-3));
  store_->insert(record("matmul:m=8,n=8,k=8", R"({"a":3})", 0));
  store_->insert(record("matmul:m=8,n=8,k=8", R"({"a":4})", 4e-3));
  EXPECT_THAT(scores(),
              UnorderedElementsAre(0, FloatNear(-0.6931f, 1e-4f), FloatNear(0.6931f, 1e-4f)));
  EXPECT_THAT(scores({make_workload(parse_spec("matmul:m=8,n=8,k=8")).hash()}), IsEmpty());
}

TEST_F(History, WhatWasNotMeasuredOrMeansSomethingElseIsNoSample) {
  db::Record offline = record("matmul:m=8,n=8,k=8", R"({"a":1})", 1e-3);
  offline.offline = true;
  db::Record confirmed = record("matmul:m=8,n=8,k=8", R"({"a":2})", 1e-3);
  confirmed.confirmed = true;
  db::Record old = record("matmul:m=8,n=8,k=8", R"({"a":3})", 1e-3);
  old.feature_version = kFeatureVersion + 1;
  db::Record elsewhere = record("matmul:m=8,n=8,k=8", R"({"a":4})", 1e-3);
  elsewhere.target.hash = "elsewhere";
  for (const db::Record& r : {offline, confirmed, old, elsewhere}) store_->insert(r);
  EXPECT_THAT(scores(), IsEmpty());
}

TEST_F(History, WinnersOfTheNearestSizeComeFirst) {
  store_->insert(record("matmul:m=1024,n=1024,k=1024", R"({"far":1})", 1e-3));
  store_->insert(record("matmul:m=64,n=64,k=80", R"({"near":1})", 2e-5));
  store_->insert(record("matmul:m=64,n=64,k=80", R"({"near":2})", 1e-5));
  store_->insert(record("softmax:m=64,n=64", R"({"other":1})", 1e-5));
  Workload w = make_workload(parse_spec("matmul:m=64,n=64,k=64"));
  EXPECT_THAT(similar_winners(*store_, here(), w, 1),
              ElementsAre(R"({"near":2})", R"({"near":1})", R"({"far":1})"));
}

// A GPU's data sheet has its own identity, under which a model ranks without a GPU.
TEST_F(History, WhatAModelChoseForTheSameFeaturesIsTriedFirst) {
  auto chosen = [&](const std::string& config, const std::string& hash,
                    const std::string& features) {
    db::Record r = record("matmul:m=64,n=64,k=64", config, 1e-5);
    r.offline = true;
    r.target.hash = hash;
    r.target.features = features;
    return r;
  };
  store_->insert(record("matmul:m=64,n=64,k=80", R"({"measured":1})", 1e-5));
  store_->insert(chosen(R"({"sheet":1})", "sheet", "fast"));
  store_->insert(chosen(R"({"other":1})", "other", "slow"));
  Workload w = make_workload(parse_spec("matmul:m=64,n=64,k=64"));
  EXPECT_THAT(similar_winners(*store_, here(), w, 1),
              ElementsAre(R"({"sheet":1})", R"({"measured":1})"));
}

// Predicted winners of another workload come after measured ones; the untuned default is not a
// winner.
TEST_F(History, WhatAModelChoseForANeighbourComesBehindMeasurements) {
  auto chosen = [&](const std::string& config) {
    db::Record r = record("matmul:m=64,n=64,k=72", config, 1e-6);
    r.offline = true;
    return r;
  };
  store_->insert(record("matmul:m=512,n=512,k=512", R"({"measured":1})", 1e-3));
  store_->insert(chosen(R"({"chosen":1})"));
  db::Record plain = chosen("{}");
  plain.is_default = true;
  store_->insert(plain);
  Workload w = make_workload(parse_spec("matmul:m=64,n=64,k=64"));
  EXPECT_THAT(similar_winners(*store_, here(), w, 1),
              ElementsAre(R"({"measured":1})", R"({"chosen":1})"));
}

TEST_F(History, WinnersOfAsManyThreadsComeFirst) {
  db::Record two = record("matmul:m=64,n=64,k=80", R"({"threads":2})", 2e-5);
  two.threads = 2;
  store_->insert(record("matmul:m=64,n=64,k=80", R"({"threads":1})", 1e-5));
  store_->insert(two);
  Workload w = make_workload(parse_spec("matmul:m=64,n=64,k=64"));
  EXPECT_THAT(similar_winners(*store_, here(), w, 2),
              ElementsAre(R"({"threads":2})", R"({"threads":1})"));
}

}  // namespace
}  // namespace tilewright
