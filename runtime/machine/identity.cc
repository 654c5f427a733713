#include "runtime/machine/identity.h"

#include <fmt/format.h>

#include "kernel/cpu_features.h"

namespace tilewright {

std::string chip_name() {
  // VENDOR-FAMILY-MODEL-STEPPING, where the vendor's name may hold anything.
  std::string rest = cpu_signature();
  std::string fields[3];
  for (std::string& field : fields) {
    size_t dash = rest.rfind('-');
    if (dash == std::string::npos) return cpu_name();
    field = rest.substr(dash + 1);
    rest.resize(dash);
  }
  return fmt::format("{} (family {} model {})", cpu_name(), fields[2], fields[1]);
}

TargetFacts target_facts(const Target& target) {
  if (target.is_cuda()) {
    const std::string architecture = target.name.substr(target.name.find(':') + 1);
    return {target.gpu.model, architecture, target.gpu.sms, "target=" + target.name};
  }
  return {chip_name(), fmt::format("{}", fmt::join(target.features, " ")), 0,
          fmt::format("target={} l1={} l2={}", target.name, target.l1_bytes, target.l2_bytes)};
}

}  // namespace tilewright
