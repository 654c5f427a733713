// tune --workers: the search here, measurements by worker processes, some of which are killed or wrong.
#include <gmock/gmock.h>

#include <set>

#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class FleetOfTune : public Cli {
 protected:
  Ran tune(const std::string& workers, const std::string& more = "--trials 6") {
    return run(std::string("tune ") + kSmall + " --threads 1 --json --quiet --db t.db " + more +
               " " + workers);
  }
  static std::string device(const std::string& mode) {
    return "--workers 'command:" TILEWRIGHT_BINARY_DIR "/fleet_device " + mode + " 0.1' ";
  }
  // The configs of all trials of a database, each once for each record.
  std::multiset<std::string> trials(const std::string& db) {
    EXPECT_EQ(run("db export " + db + ".jsonl --db " + db).code, 0);
    std::ifstream in(dir_ / (db + ".jsonl"));
    std::multiset<std::string> found;
    for (std::string line; std::getline(in, line);) {
      const Json row = Json::parse(line);
      if (row.value("table", "") != "records" || row["confirmed"] != 0) continue;
      found.insert(row.at("config").dump());
    }
    return found;
  }
};

TEST_F(FleetOfTune, MeasuresWithLocalWorkersAndStoresTheWinner) {
  const Ran ran = tune("--workers local:2");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json result = ran.json()["results"][0], fleet = ran.json()["fleet"];
  EXPECT_EQ(result["trials"], 6);
  EXPECT_GE(result["valid"], 2);
  EXPECT_GT(result["best"]["seconds"], 0);
  EXPECT_EQ(result["machine"]["workers"], 2);
  EXPECT_EQ(fleet["workers"], 2);
  EXPECT_GE(fleet["answers"], 7) << "six trials and the finalists' turns";
  EXPECT_EQ(fleet["lost"], 0);
  EXPECT_EQ(fleet["refused"], 0);
  const Ran replayed = run(std::string("replay ") + kSmall + " --threads 1 --db t.db");
  EXPECT_EQ(replayed.code, 0) << replayed.err;
}

TEST_F(FleetOfTune, KilledWorkersLeaveTheSameTrials) {
  const std::string search =
      "tune matmul:m=32,n=48,k=16 --threads 1 --json --quiet --search random "
      "--seed 7 --trials 24 --no-warm-start --no-pretrained ";
  const Ran whole = run(search + "--db whole.db --workers local:8");
  ASSERT_EQ(whole.code, 0) << whole.err;
  // Kills a worker of tune-cli now and then, with SIGKILL.
  write("kill.py", R"(
import os, random, signal, sys, time
parent, killed = int(sys.argv[1]), 0
random.seed(1)
while os.path.exists(f"/proc/{parent}"):
    time.sleep(random.uniform(0.1, 0.5))
    try:
        children = open(f"/proc/{parent}/task/{parent}/children").read().split()
        workers = [c for c in children if b"worker" in open(f"/proc/{c}/cmdline", "rb").read()]
        if workers and killed < 8:
            os.kill(int(random.choice(workers)), signal.SIGKILL)
            killed += 1
    except OSError:
        pass
print(killed, file=sys.stderr)
)");
  const Ran ran = shell(std::string(TILEWRIGHT_BINARY_DIR) + "/tune-cli " + search +
                        "--db killed.db --workers local:8 & pid=$!; python3 kill.py $pid & "
                        "wait $pid; code=$?; wait; exit $code");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.json()["results"][0]["trials"], 24);
  const auto before = trials("whole.db"), after = trials("killed.db");
  EXPECT_EQ(before.size(), 24u);
  EXPECT_EQ(before, after) << "killed: " << ran.err;
}

TEST_F(FleetOfTune, WrongWorkersAreNamedAndTheOthersFinish) {
  const Ran ran = tune(device("garbage") + device("old") + device("forges") + "--workers local:2",
                       "--trials 12");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json result = ran.json()["results"][0], fleet = ran.json()["fleet"];
  EXPECT_EQ(result["trials"], 12);
  EXPECT_GT(result["best"]["seconds"], 1e-9) << "no forged time";
  EXPECT_EQ(fleet["workers"], 4);
  EXPECT_GE(fleet["refused"], 1);
  EXPECT_THAT(fleet["dropped"].dump(), HasSubstr("tune-cli is version 0.0.1 there"));
}

TEST_F(FleetOfTune, EachKindOfMachineHasWinnersOfItsOwn) {
  const Ran ran = tune(device("other") + "--workers local:1", "--trials 4");
  EXPECT_EQ(ran.code, 0) << ran.err;
  const Json results = ran.json()["results"];
  ASSERT_THAT(results, SizeIs(2));
  std::set<std::string> chips;
  for (const Json& r : results) {
    EXPECT_EQ(r["trials"], 4);
    chips.insert(r["machine"]["chip"]);
  }
  EXPECT_THAT(chips, testing::Contains("Z80 (family 1 model 1)"));
  EXPECT_THAT(chips, SizeIs(2));
}

TEST_F(FleetOfTune, WithoutWorkersItSaysWhy) {
  const Ran ran = tune(device("stranger"));
  EXPECT_EQ(ran.code, 4);
  EXPECT_THAT(ran.err, HasSubstr("no worker began"));
  EXPECT_THAT(ran.err, HasSubstr("Permission denied (publickey)."));
  EXPECT_EQ(tune("--workers cloud:3").code, 2);
  EXPECT_EQ(tune("--workers local:1 --offline").code, 2);
  EXPECT_EQ(tune("--workers local:1 --proposer cat").code, 2);
}

TEST_F(FleetOfTune, AWorkerSpeaksNoOtherLanguage) {
  const Ran ran = shell("echo hello | " TILEWRIGHT_BINARY_DIR "/tune-cli worker");
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("the first line is no"));
  EXPECT_EQ(shell(TILEWRIGHT_BINARY_DIR "/tune-cli worker < /dev/null").code, 0);
}

}  // namespace
}  // namespace tilewright::cli
