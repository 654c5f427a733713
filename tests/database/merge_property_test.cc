// Algebraic properties of merging, checked on random databases.
#include <random>

#include "tests/database/fixture.h"

namespace tilewright::database::testing {
namespace {

// Facts that several databases may hold, some in contradicting versions: models and dispatch tables
// with equal keys, and occasionally equal times.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }
  bool once_in(int n) { return below(n) == 0; }

  void fill(Store& store) {
    Transaction transaction = store.begin();
    std::vector<Record> kernels[2];  // by workload
    for (int i = 0; i < 8; ++i) {
      if (once_in(3)) continue;
      const int workload = below(2);
      kernels[workload].push_back(store_with_artifact(store, sample_record(i, workload)));
    }
    if (once_in(2)) store.insert(sample_failure(20 + below(3), Verdict::Wrong, "differs"));
    Model model = sample_model(below(2));
    model.trained_on = below(3);
    model.created += below(2);
    store.put_model(model);
    for (const std::vector<Record>& of_workload : kernels) {
      if (of_workload.empty()) continue;
      const auto count = static_cast<size_t>(1 + below(static_cast<int>(of_workload.size())));
      store.put_dispatch(sample_dispatch(
          {of_workload.begin(), of_workload.begin() + static_cast<long>(count)}, 1 + below(2)));
    }
    transaction.commit();
  }

 private:
  std::mt19937_64 random_;
};

class MergeProperty : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    Draw draw(static_cast<uint64_t>(GetParam()));
    for (const char* name : {"a.db", "b.db", "c.db"}) {
      Store store = Store::open(folder_ / name, Mode::Create);
      draw.fill(store);
    }
  }

  // Merges the databases of these letters in order into the file `name`; returns its content.
  std::string merged(const std::string& letters, const std::string& name) const {
    Store store = Store::open(folder_ / name, Mode::Create);
    for (const char letter : letters) store.merge(folder_ / (std::string(1, letter) + ".db"));
    EXPECT_TRUE(store.check().ok()) << letters;
    return content(store);
  }

  TempFolder folder_;
};

TEST_P(MergeProperty, IsCommutative) {
  EXPECT_EQ(merged("ab", "1.db"), merged("ba", "2.db"));
  EXPECT_EQ(merged("abc", "3.db"), merged("cba", "4.db"));
}

TEST_P(MergeProperty, IsAssociative) {
  merged("ab", "x.db");
  merged("bc", "y.db");
  EXPECT_EQ(merged("xc", "1.db"), merged("ay", "2.db"));
}

TEST_P(MergeProperty, IsIdempotent) {
  EXPECT_EQ(merged("a", "1.db"), content(folder_ / "a.db"));
  merged("ab", "x.db");
  EXPECT_EQ(merged("xab", "2.db"), content(folder_ / "x.db"));
  EXPECT_EQ(merged("xx", "3.db"), content(folder_ / "x.db"));
}

TEST_P(MergeProperty, IsWhatImportingDoes) {
  const std::string expected = merged("ab", "1.db");
  Store store = Store::open(folder_ / "2.db", Mode::Create);
  for (const char* name : {"b.db", "a.db"}) {
    std::istringstream lines(content(folder_ / name));
    store.import_jsonl(lines);
  }
  EXPECT_EQ(content(store), expected);
}

INSTANTIATE_TEST_SUITE_P(Seeds, MergeProperty, ::testing::Range(1, 13));

}  // namespace
}  // namespace tilewright::database::testing
