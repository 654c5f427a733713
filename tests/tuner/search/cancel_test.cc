// The effects of an interrupted search: what it skips and what it keeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <optional>
#include <thread>

#include "ir/ops/spec.h"
#include "tuner/backend.h"
#include "tuner/features/features.h"
#include "tuner/search/gpu_estimates.h"
#include "tuner/search/offline.h"
#include "tuner/search/search.h"

namespace tilewright {
namespace {

namespace db = database;
using testing::IsEmpty;

class Cancelled : public testing::Test {
 protected:
  Workload workload_ = make_workload(parse_spec("matmul:m=96,n=128,k=64"));
  Target target_ = Target::parse("native");
  std::atomic<bool> cancelled_{false};
};

TEST_F(Cancelled, WhatWasBegunIsMadeAndTheRestIsNoRefusal) {
  std::atomic<int64_t> begun{0};
  const Sketch first_cancels{"first_cancels", 1, [&](Schedule& s, Trial& t, const SketchInput& in) {
                               ++begun;
                               cancelled_ = true;
                               cpu_sketches()[0].run(s, t, in);
                             }};
  const int64_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<Draft> drafts;
  for (int64_t i = 0; i < 4 * threads; ++i) {
    drafts.push_back({&first_cancels, Trial::random(static_cast<uint64_t>(i))});
  }
  CandidateMaker maker(workload_, target_, 2, &cancelled_);
  const auto made = maker.make_all(drafts);
  ASSERT_EQ(made.size(), drafts.size());
  EXPECT_GE(begun, 1);
  EXPECT_LE(begun, threads) << "each thread looks before it takes the next";
  const auto count = std::count_if(made.begin(), made.end(), [](const auto& c) { return !!c; });
  EXPECT_EQ(count + maker.illegal().total, begun);
}

TEST_F(Cancelled, PoliciesProposeWhatTheyHave) {
  for (SearchKind kind : kSearchKinds) {
    SCOPED_TRACE(name_of(kind));
    cancelled_ = false;
    CandidateMaker maker(workload_, target_, 2, &cancelled_);
    SearchOptions options;
    options.kind = kind;
    SearchPolicy policy(maker, options);
    for (const Candidate& c : policy.propose(8, CostModel())) {
      policy.tell(outcome_of(c, 1e-3));
    }
    ASSERT_EQ(policy.outcomes().size(), 8u);
    const int64_t refused = maker.illegal().total;
    cancelled_ = true;
    EXPECT_THAT(policy.propose(8, CostModel()), IsEmpty());
    EXPECT_EQ(maker.illegal().total, refused);
  }
}

TEST_F(Cancelled, ScoresAreNotWaitedFor) {
  const Target gpu = Target::parse("cuda:sm_80");
  const Workload w = make_workload(parse_spec("matmul:m=64,n=64,k=64,dtype=f16"));
  CandidateMaker maker(w, gpu, 1);
  std::vector<Candidate> candidates;
  for (int i = 0; i < 2; ++i) candidates.push_back(maker.make_default());
  GpuEstimates estimates(gpu, {{}}, &cancelled_);
  estimates.score(candidates, 0);
  EXPECT_GT(candidates[1].score, 0);
  candidates[1].score = 0;
  cancelled_ = true;
  estimates.score(candidates, 0);
  EXPECT_EQ(candidates[1].score, 0);
}

class CancelledOffline : public Cancelled {
 protected:
  CancelledOffline() {
    std::string pattern = std::filesystem::temp_directory_path() / "tilewright-cancel.XXXXXX";
    directory_ = mkdtemp(pattern.data());
    store_.emplace(db::Store::open(directory_ + "/c.db", db::Mode::Create));
    store_model();
    options_.trials = 12;
    options_.finalists = 2;
  }
  ~CancelledOffline() override {
    store_.reset();
    std::filesystem::remove_all(directory_);
  }

  // Ranking needs a model, whatever it was trained on.
  void store_model() {
    CandidateMaker maker(workload_, target_, 1);
    std::vector<Sample> samples;
    for (uint64_t seed = 0; seed < 12; ++seed) {
      auto c = maker.make(cpu_sketches()[0], Trial::random(seed));
      if (c) samples.push_back({c->features, 1.0f / static_cast<float>(1 + seed)});
    }
    CostModel model;
    model.train(samples);
    store_->put_model({.target_hash = identity_.hash,
                       .kind = "xgboost",
                       .feature_version = Backend::of(target_).feature_version(),
                       .bytes = model.save()});
  }

  std::vector<TuneResult> rank(const ProgressFn& progress = {}) {
    return rank_offline(workloads_, target_, identity_, *store_, compilers_, options_, cancelled_,
                        progress);
  }
  size_t stored(const Workload& w) const {
    db::RecordFilter filter;
    filter.workload_hash = w.hash();
    return store_->records(filter).records.size();
  }

  db::TargetIdentity identity_{.hash = "here", .features = "fast"};
  std::vector<Workload> workloads_ = {workload_,
                                      make_workload(parse_spec("matmul:m=40,n=64,k=24"))};
  TuneOptions options_;
  LocalMeasurer compilers_{{"no-worker"}, target_, {}};  // of GPUs' kernels
  std::string directory_;
  std::optional<db::Store> store_;
};

TEST_F(CancelledOffline, WhatWasFinishedIsKeptAndTheRestIsDoneByTheNextRun) {
  const auto stopped = rank([&](const TuneProgress&) { cancelled_ = true; });
  ASSERT_EQ(stopped.size(), 2u);
  EXPECT_EQ(stopped[0].trials, 12);
  EXPECT_EQ(stored(workloads_[0]), 2u);
  EXPECT_TRUE(stopped[1].interrupted);
  EXPECT_EQ(stopped[1].trials, 0);
  EXPECT_EQ(stored(workloads_[1]), 0u);
  EXPECT_EQ(store_->runs().at(0).state, db::RunState::Interrupted);

  cancelled_ = false;
  const auto whole = rank();
  EXPECT_EQ(whole[0].order, stopped[0].order) << "equal seeds";
  EXPECT_FALSE(whole[1].interrupted);
  EXPECT_EQ(stored(workloads_[1]), 2u);
  EXPECT_EQ(store_->runs().at(0).state, db::RunState::Finished);
}

}  // namespace
}  // namespace tilewright
