// Records that an older version of a sketch found: their kernels stay in use as they are stored,
// and their configs, which give no program any more, are passed over with a reason.
#include <gmock/gmock.h>

#include "database/store.h"
#include "tests/cli/support.h"
#include "tuner/sketch.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class OlderSketch : public Cli {
 protected:
  // old.db: what tuning found here, as the version before would have kept it. A knob that is new
  // has no answer.
  void SetUp() override {
    Cli::SetUp();
    using namespace database;
    ASSERT_EQ(run(tune("own.db") + " --trials 4").code, 0);
    Store own = Store::open(dir_ / "own.db", Mode::ReadOnly);
    Store old = Store::open(dir_ / "old.db", Mode::Create);
    for (Record record : own.records({}).records) {
      if (record.artifact_hash.empty()) continue;
      old.put_artifact(*own.artifact(record).value);
      if (record.sketch == sketch().name) {
        record.sketch_version = sketch().version - 1;
        Json config = Json::parse(record.config);
        config.erase(config.begin());
        record.config = config.dump();
      }
      old.insert(record);
    }
  }

  static const Sketch& sketch() { return cpu_sketches().front(); }
  static std::string tune(const std::string& db) {
    return std::string("tune --threads 1 --db ") + db + " " + kSmall;
  }
  static std::string on(const std::string& command, const std::string& db = "old.db") {
    return command + " --threads 1 --db " + db + " " + kSmall;
  }
  static std::string reason() {
    return "found by version " + std::to_string(sketch().version - 1) + " of sketch '" +
           sketch().name + "', this is " + std::to_string(sketch().version);
  }
};

TEST_F(OlderSketch, KernelsReplayFromTheirArtifacts) {
  const Ran best = run(on("best --json"));
  ASSERT_EQ(best.code, 0) << best.err;
  EXPECT_EQ(best.json()["results"][0]["sketch"], sketch().name);
  const Ran replayed = run(on("replay --json --require"));
  ASSERT_EQ(replayed.code, 0) << replayed.err;
  EXPECT_EQ(replayed.json()["results"][0]["checked"], true);
  EXPECT_EQ(run(on("export -o out")).code, 0);
  EXPECT_EQ(run(on("explain")).code, 0);
}

TEST_F(OlderSketch, ProgramsAreMissesWithTheReason) {
  const Ran shown = run(on("show --program"));
  EXPECT_NE(shown.code, 0);
  EXPECT_THAT(shown.err, HasSubstr(reason()));
  EXPECT_EQ(run(on("show --program", "own.db")).code, 0);
}

TEST_F(OlderSketch, ResumedRunsPassOverTheConfigs) {
  const Ran resumed = run(tune("old.db") + " --resume --trials 3");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("earlier trials are not resumed: " + reason()));
  const Ran own = run(tune("own.db") + " --resume --trials 5");
  ASSERT_EQ(own.code, 0) << own.err;
  EXPECT_THAT(own.err, Not(HasSubstr("not resumed")));
}

TEST_F(OlderSketch, RebuildingSkipsTheConfigs) {
  const Ran ran = run("db merge --json --rebuild old.db --db new.db");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("not rebuilt: "));
  EXPECT_THAT(ran.err, HasSubstr(reason()));
  const Json rebuilt = ran.json()["rebuilt"];
  EXPECT_GE(rebuilt["skipped"], 1);
  EXPECT_EQ(rebuilt["failed"], 0);
  EXPECT_EQ(rebuilt["kernels"], 1) << "the untuned default, which has no knobs";
}

}  // namespace
}  // namespace tilewright::cli
