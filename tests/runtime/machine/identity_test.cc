#include "runtime/machine/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "kernel/cpu_features.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

TEST(Identity, NamesTheTargetItsFeaturesAndACoresCaches) {
  Target target = Target::parse("avx2");
  target.l1_bytes = 1;
  target.l2_bytes = 22;
  target.l3_bytes = 333;
  TargetFacts facts = target_facts(target);
  EXPECT_EQ(facts.chip, chip_name());
  EXPECT_EQ(facts.features, "avx avx2 f16c fma");
  EXPECT_EQ(facts.cores, 0) << "not how many this process may use";
  EXPECT_EQ(facts.extra, "target=avx2 l1=1 l2=22") << "not what it shares with others";
}

TEST(Identity, TheChipIsToldByItsNameAndSignature) {
  EXPECT_THAT(chip_name(), HasSubstr(cpu_name()));
#if defined(__x86_64__)
  EXPECT_THAT(chip_name(), testing::MatchesRegex(".+ [(]family [0-9]+ model [0-9]+[)]"));
#endif
}

// Databases of earlier versions were written under what Linux tells.
TEST(Identity, TheChipIsWhatLinuxCallsIt) {
  std::ifstream in("/proc/cpuinfo");
  std::map<std::string, std::string> fields;
  std::string line;
  while (std::getline(in, line) && !line.empty()) {
    size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    fields[line.substr(0, line.find_first_of("\t:"))] = line.substr(colon + 2);
  }
  if (fields.count("cpu family") == 0 || fields["model name"] != cpu_name()) {
    GTEST_SKIP() << "this system does not tell the processor's own name";
  }
  EXPECT_EQ(chip_name(), fields["model name"] + " (family " + fields["cpu family"] + " model " +
                             fields["model"] + ")");
}

}  // namespace
}  // namespace tilewright
