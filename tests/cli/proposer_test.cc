// A program that leads the search: tune --proposer.
#include <gmock/gmock.h>

#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;

class ProposerOfTune : public Cli {
 protected:
  Ran tune(const std::string& proposer, const std::string& more = "--trials 4") {
    write("proposer.py", proposer);
    return run(std::string("tune ") + kSmall + " --threads 1 --db t.db --json --quiet " + more +
               " --proposer 'exec python3 proposer.py'");
  }
};

TEST_F(ProposerOfTune, LeadsTheSearchAndLearnsWhatWasMeasured) {
  const Ran ran = tune(R"(
import json, sys
log = open("log.json", "w")
rows = iter([1, 2, 3, 4, 6])
for line in sys.stdin:
    request = json.loads(line)
    log.write(line)
    log.flush()
    print(json.dumps({"configs": [{"config": {"C.vi.rows": next(rows)}, "tag": {"a": 1}}]}), flush=True)
)",
                       "--trials 3 --batch 1");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.json()["results"][0]["trials"], 3);
  std::ifstream log(dir_ / "log.json");
  std::string first, second;
  ASSERT_TRUE(std::getline(log, first) && std::getline(log, second));
  const Json begin = Json::parse(first), later = Json::parse(second);
  EXPECT_EQ(begin["spec"], kSmall);
  EXPECT_EQ(begin["threads"], 1);
  EXPECT_EQ(begin["sketches"][0]["name"], "cpu_tiles");
  EXPECT_TRUE(begin["knobs"].contains("C.vi.rows"));
  EXPECT_EQ(begin["outcomes"], Json::array());
  ASSERT_EQ(later["outcomes"].size(), 2u) << "the untuned default and the first proposal";
  EXPECT_FALSE(later["outcomes"][0].contains("tag"));
  EXPECT_EQ(later["outcomes"][1]["tag"], (Json{{"a", 1}}));
  EXPECT_EQ(later["outcomes"][1]["config"]["C.vi.rows"], 1);
  EXPECT_GT(later["outcomes"][1]["seconds"], 0);
}

TEST_F(ProposerOfTune, FaultsAreSaidWithTheCommand) {
  const std::pair<const char*, const char*> faults[] = {
      {"import sys; sys.exit(3)",
       "'exec python3 proposer.py' ended (exit code 3) before it answered"},
      {"print('hello', flush=True); input()", "answered 'hello': no JSON document in one line"},
      {"print('[]', flush=True); input()", "no object with a list 'configs'; expected one line"},
      {"print('{\"configs\": [{\"config\": 3}]}', flush=True); input()",
       "configs[0] has no object 'config'"},
      {"print('{\"configs\": [{\"config\": {}, \"name\": 1}]}', flush=True); input()",
       "configs[0] has 'name'; there are config, sketch, repair and tag"},
      {"import os; os.kill(os.getpid(), 9)", "before it answered"},
      {"import os, time; os.close(1); time.sleep(1000)", "before it answered; all finished trials"},
  };
  for (const auto& [proposer, message] : faults) {
    SCOPED_TRACE(proposer);
    const Ran ran = tune(proposer);
    EXPECT_EQ(ran.code, 2);
    EXPECT_THAT(ran.err, HasSubstr("tune-cli: --proposer: "));
    EXPECT_THAT(ran.err, HasSubstr(message));
  }
}

TEST_F(ProposerOfTune, AnInterruptedRunWaitsForNobody) {
  write("proposer.py", "import time\nopen('asked', 'w').close()\ntime.sleep(1000)\n");
  const Ran ran =
      shell(std::string("{ ") + TILEWRIGHT_BINARY_DIR + "/tune-cli tune " + kSmall +
            " --threads 1 --db t.db --quiet --proposer 'exec python3 proposer.py' & } ; "
            "while [ ! -e asked ]; do sleep 0.05; done; kill -INT $!; wait $!");
  EXPECT_EQ(ran.code, 130) << ran.err;
}

TEST_F(ProposerOfTune, TheTimeLimitEndsTheWait) {
  const Ran ran = tune("import time; time.sleep(1000)", "--time 3");
  EXPECT_EQ(ran.code, 6) << ran.err;
}

TEST_F(ProposerOfTune, RefusalsAreCounted) {
  write("proposer.py",
        "import sys\nfor line in sys.stdin: print('{\"configs\": [{\"config\": {\"no\": 1}}]}', "
        "flush=True)");
  const std::string command = std::string("tune ") + kSmall +
                              " --threads 1 --db t.db --trials 3 --batch 1 --quiet --proposer "
                              "'python3 proposer.py' ";
  const Ran told = run(command);
  EXPECT_EQ(told.code, 0) << told.err;
  EXPECT_THAT(told.out,
              HasSubstr("proposals were refused, the first one since: trial: the config"));
  const Json counts = run(command + "--json").json()["results"][0]["proposals"];
  EXPECT_GE(counts["proposed"], 3);
  EXPECT_EQ(counts["refused"], counts["proposed"]);
  EXPECT_EQ(run(std::string("tune ") + kSmall + " --proposer ''").code, 2);
}

TEST_F(ProposerOfTune, NothingIsLearntOffline) {
  const Ran ran = run(std::string("tune ") + kSmall + " --offline --proposer cat");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("--proposer: expected neither --offline"));
}

}  // namespace
}  // namespace tilewright::cli
