#include "cli/checked_sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "codegen/cuda_description.h"
#include "runtime/check_points.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

bool is_cuda(const database::Artifact& artifact) {
  const Json stored = Json::parse(artifact.description, nullptr, /*allow_exceptions=*/false);
  return stored.is_object() && stored.contains("kind");
}

SizeFacts facts_of(const database::Artifact& artifact) {
  return is_cuda(artifact) ? CudaDescription::from_json(artifact.description).source.sizes
                           : KernelDescription::from_json(artifact.description).sizes;
}

// "7", of several dimensions "(7, 16)".
std::string text_of(const Json& sizes) {
  std::vector<int64_t> values;
  for (const Json& size : sizes) values.push_back(size.get<int64_t>());
  return values.size() == 1 ? std::to_string(values[0])
                            : fmt::format("({})", fmt::join(values, ", "));
}

}  // namespace

Json checked_sizes(const Workload& workload, const database::Artifact& artifact, bool predicted) {
  if (workload.dims.empty()) return nullptr;
  const SizeFacts facts = facts_of(artifact);
  const bool known = !facts.steps.empty();
  Json j = {{"accesses", known ? Json(facts.accesses) : Json(nullptr)},
            {"proved", known ? Json(facts.proved) : Json(nullptr)},
            {"checked", Json::array()}};
  if (predicted) return j;
  const CheckBudget budget{.has_tails = !is_cuda(artifact)};
  for (const auto& dims : check_points(workload, facts, budget)) j["checked"].push_back(dims);
  j["checked"].push_back(largest_sizes(workload));
  std::sort(j["checked"].begin(), j["checked"].end());
  return j;
}

std::string checked_text(const Workload& workload, const Json& checked) {
  std::string text;
  if (!checked["proved"].is_null()) {
    text = fmt::format("bounds: {} of {} accesses proved for all sizes",
                       checked["proved"].get<int>(), checked["accesses"].get<int>());
  }
  if (checked["checked"].empty()) return text;
  std::vector<std::string> names, sizes;
  for (const auto& [name, size] : largest_sizes(workload)) names.push_back(name);
  for (const Json& dims : checked["checked"]) sizes.push_back(text_of(dims));
  return fmt::format("{}{}checked at {} = {}", text, text.empty() ? "" : "; ",
                     names.size() == 1 ? names[0] : fmt::format("({})", fmt::join(names, ", ")),
                     fmt::join(sizes, ", "));
}

}  // namespace tilewright::cli
