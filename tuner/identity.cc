#include "tuner/identity.h"

#include <fmt/format.h>

#include <fstream>

#include "runtime/cpus.h"

namespace tilewright {

std::string chip_name() {
  std::ifstream in("/proc/cpuinfo");
  std::string line, name = "unknown", family, model;
  while (std::getline(in, line) && !line.empty()) {
    size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    std::string value = line.substr(colon + 2);
    if (line.rfind("model name", 0) == 0) name = value;
    if (line.rfind("cpu family", 0) == 0) family = value;
    if (line.rfind("model\t", 0) == 0) model = value;
  }
  // Virtual machines name many chips alike: the family and model tell them apart.
  return family.empty() ? name : fmt::format("{} (family {} model {})", name, family, model);
}

database::TargetIdentity target_identity(const Target& target) {
  std::string features = fmt::format("{}", fmt::join(target.features, " "));
  std::string extra = fmt::format("target={} l1={} l2={} l3={}", target.name, target.l1_bytes,
                                  target.l2_bytes, target.l3_bytes);
  return database::make_target(chip_name(), features, available_cores(), extra);
}

}  // namespace tilewright
