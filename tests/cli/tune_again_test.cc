// Tuning what the database already knows.
#include <gmock/gmock.h>

#include "database/store.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

class TuneAgain : public Cli {
 protected:
  static constexpr const char* kTune =
      "tune matmul:m=32,n=32,k=32 --trials 4 --threads 1 --json --quiet --seed ";

  double best_seconds() {
    return run("best matmul:m=32,n=32,k=32 --threads 1 --json").json()["results"][0]["seconds"];
  }
};

// The time that an earlier run wrote down is not believed for good: its kernel competes again.
TEST_F(TuneAgain, TheBestSoFarIsMeasuredAgain) {
  ASSERT_EQ(run(std::string(kTune) + "1").code, 0);
  {
    database::Store store =
        database::Store::open((dir_ / "tilewright.db").string(), database::Mode::ReadWrite);
    std::vector<database::Record> records =
        store.records({.verdict = database::Verdict::Valid, .by_time = true}).records;
    ASSERT_FALSE(records.empty());
    database::Record lucky = records[0];
    ASSERT_TRUE(lucky.confirmed);
    lucky.samples = {1e-12};
    lucky.median_seconds = lucky.best_seconds = 1e-12;
    lucky.created = 0;
    store.insert(lucky);
  }
  ASSERT_EQ(best_seconds(), 1e-12);
  Ran again = run(std::string(kTune) + "2");
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_GT(best_seconds(), 1e-9);
  EXPECT_EQ(best_seconds(), again.json()["results"][0]["best"]["seconds"].get<double>());
}

TEST_F(TuneAgain, ResumingBelowTheStoredTrialsSaysSo) {
  const std::string spec = "tune matmul:m=32,n=32,k=32 --threads 1 ";
  ASSERT_EQ(run(spec + "--trials 4 --quiet").code, 0);
  const Ran again = run(spec + "--resume --trials 3");
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, testing::HasSubstr("4 trials are stored, and nothing was measured; "
                                            "--trials counts them, expected more than 4"));
  EXPECT_THAT(run(spec + "--resume --trials 6").err, testing::Not(testing::HasSubstr("stored")));
}

}  // namespace
}  // namespace tilewright::cli
